//! Both engines of the flood client: the same outcomes, the same counters, the same limits.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use backlog_lab::arm::{Arm, Catalog, Engine};
use backlog_lab::load::Progress;
use backlog_lab::plan::Plan;
use backlog_lab::run::{KernelLab, Lab};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::facts::meets_its_expectations;
use crate::{program, test};

/// What the threads are held to elsewhere, the event-driven engine is held to here: arms A, B and C, floods whose
/// numbers are exact, every kind of answer, and every way to run out of ports.
const ARMS: [&str; 14] = [
    "arm-a",
    "arm-b",
    "arm-b-control",
    "arm-c",
    "facts/closed-port",
    "facts/capacity-10",
    "cases/k01-backlog-16",
    "cases/k20-resets-after-connect",
    "cases/k29-accepted-is-not-answered",
    "cases/k38-reconnect-storm",
    "cases/k69-three-destinations",
    "cases/k70-port-first",
    "cases/k70-foreign-address",
    "cases/k78-wrong-answers",
];

pub(crate) fn trials() -> Vec<Trial> {
    let catalog = Catalog::new(Path::new("/nonexistent"));
    let mut trials = Vec::new();
    for name in ARMS {
        let arms = catalog.load(&[name.to_owned()], &[]);
        let mut arm = arms.expect("a shipped arm").remove(0);
        arm.client.engine = Engine::Async;
        let body = move || meets_its_expectations(arm);
        trials.push(Trial::test(format!("engines/async-{name}"), body));
    }
    for engine in [Engine::Threads, Engine::Async] {
        let name = format!("{engine:?}").to_lowercase();
        let held = move || answered_connections_are_held(engine);
        trials.push(Trial::test(format!("engines/{name}-hold"), held));
        let short = move || out_of_descriptors(engine);
        trials.push(Trial::test(format!("engines/{name}-descriptors"), short));
    }
    let soak = test("soak/engines-agree", engines_agree);
    trials.push(soak.with_ignored_flag(true));
    trials
}

/// An answer is recorded when it comes, and the trial lasts until its connection has been held.
fn answered_connections_are_held(engine: Engine) -> Result<(), Failed> {
    const HOLD_US: u64 = 200_000;
    for start in ["together", "one-by-one"] {
        let mut arm: Arm = toml::from_str(&format!(
            "title = \"t\"\nwhy = \"w\"\nserver.backlog = 16\n\
             [client]\nconnections = 6\nhold = \"200ms\"\nstart = \"{start}\""
        ))?;
        arm.client.engine = engine;
        let plan = Plan::new(vec![arm], 1, 1, Vec::new());
        let measured = KernelLab::default()
            .observe(plan.order()[0], &Arc::new(Progress::default()))
            .map_err(|error| error.to_string())?;
        let answered = measured.attempts.iter().filter_map(|one| one.first_byte_us);
        assert_eq!(answered.count(), 6);
        for attempt in &measured.attempts {
            assert!(
                attempt.first_byte_us.map(|us| us + HOLD_US) <= Some(measured.ended_us),
                "{start}: {attempt:?}"
            );
        }
    }
    Ok(())
}

/// More connections than descriptors: those that are left over say so, and so does the report.
fn out_of_descriptors(engine: Engine) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let engine = format!("{engine:?}").to_lowercase();
    let arm = format!(
        "title = \"t\"\nwhy = \"w\"\nserver.backlog = 256\n[client]\nconnections = 200\nengine = \"{engine}\"\n\
         start = \"one-by-one\"\ntimeout = \"500ms\"\n[protocol]\nspeaks-first = \"nobody\"\n\
         [expect]\nlocal-limit = \">0\"\n"
    );
    fs::write(folder.path().join("short.toml"), arm)?;
    let script = format!(
        "ulimit -n 150; exec '{}' run short.toml --json --no-charts --out short",
        program().display()
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()?;
    let told = || String::from_utf8_lossy(&output.stderr).into_owned();
    let results: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", told()))?;
    let trial = &results["arms"][0]["trials"][0];
    let limited = trial["outcomes"]["local_limit"].as_u64();
    assert!(limited.is_some_and(|limited| limited > 0), "{trial}");
    assert_eq!(
        limited,
        trial["causes"]["client-out-of-descriptors"].as_u64(),
        "{trial}"
    );
    assert_eq!(limited, trial["errnos"]["socket:EMFILE"].as_u64());
    assert_eq!(trial["self_check"]["open_files"], 150);
    Ok(())
}

/// Twelve trials of each engine: what a flood does to a server is not really different in arms A, B and C. Arm B's few
/// overflows belong to the threads: 150 that have to share processors send faster than one after the other.
#[expect(clippy::print_stdout, reason = "the table is what a soak is for")]
fn engines_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let lab = |arguments: &[&str]| {
        let output = Command::new(program())
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("the program starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice::<Value>(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {told}"))
    };
    for engine in ["threads", "async"] {
        let key = format!("client.engine={engine}");
        lab(&[
            "run",
            "arm-a",
            "arm-b",
            "arm-c",
            "-n",
            "12",
            "--json",
            "--no-charts",
            "--set",
            &key,
            "--out",
            engine,
        ]);
    }
    let comparison = lab(&[
        "diff",
        "threads",
        "async",
        "--allow-different-setup",
        "--json",
    ]);
    let mut judged = 0;
    for arm in comparison["arms"].as_array().expect("arms") {
        for figure in arm["figures"].as_array().expect("figures") {
            let name = figure["figure"].as_str().expect("a name");
            println!(
                "{} {name} {} p={}",
                arm["name"], figure["real"], figure["p"]
            );
            let is_the_threads = arm["name"] == "arm-b" && name == "TcpExt.ListenOverflows";
            if OUTCOMES.contains(&name) && !is_the_threads {
                judged += 1;
                assert_eq!(figure["real"], false, "{}: {figure}", arm["name"]);
            }
        }
    }
    assert!(judged >= 10, "{judged} figures");
}

/// What a flood does to a server, whoever drives it.
const OUTCOMES: [&str; 5] = [
    "ok",
    "connect-timeout",
    "read-timeout",
    "accepted",
    "TcpExt.ListenOverflows",
];
