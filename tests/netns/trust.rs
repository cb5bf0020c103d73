//! A lab that can be believed: nothing survives it but the data, and its statements are not chance.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use backlog_lab::load::Clock;
use backlog_lab::netns::Namespace;
use backlog_lab::observation::Observation;
use libtest_mimic::Trial;
use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use serde_json::Value;

use crate::kills::VICTIM;
use crate::namespaces::in_user_namespace;
use crate::{program, test};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("trust/a-full-disk", a_full_disk),
        test("trust/the-facts-hold-here", the_facts_hold),
        test("trust/here-only-with-leave", here_only_with_leave),
        test("trust/trials-at-once-are-apart", trials_at_once_are_apart),
        soak("soak/runs-that-do-not-differ", runs_that_do_not_differ),
        soak("soak/trials-at-once-agree", trials_at_once_agree),
        soak("soak/without-capabilities", without_capabilities),
    ]
}

/// A test that takes minutes: `just soak`.
pub(crate) fn soak(name: &str, body: fn()) -> Trial {
    test(name, body).with_ignored_flag(true)
}

pub(crate) fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

/// A disk that fills up while results are written: a clear error, exit code 4, and the earlier trials are whole.
fn a_full_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let small = move || {
        let none: Option<&Path> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        let kind = Some(Path::new("tmpfs"));
        Ok(mount(
            kind,
            &disk,
            kind,
            MsFlags::empty(),
            Some(Path::new("size=512k")),
        )?)
    };
    let script = "\"$0\" run facts/closed-port -n 100 --quiet --out disk/run >/dev/null\n\
                  echo \"code $?\"\n\
                  for file in disk/run/observations/*; do echo \"$file\"; cat \"$file\"; echo; done";
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .arg(program())
        .current_dir(folder.path());
    let output = in_user_namespace(command, 0, CloneFlags::CLONE_NEWNS, small);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("code 4"), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("cannot write /")
            && stderr(&output).contains("/disk/run/observations/"),
        "{}",
        stderr(&output)
    );
    let mut stored = 0;
    while let (Some(name), Some(content)) = (lines.next(), lines.next()) {
        assert!(!name.contains(".tmp"), "{name} is half-written");
        let read: Result<Observation, _> = serde_json::from_str(content);
        assert!(read.is_ok(), "{name}: {:?}", read.err());
        stored += 1;
    }
    assert!(stored > 0 && stored < 400, "{stored} trials were stored");
}

/// The facts hold on the kernel that these tests run on, and the document says what was expected and observed.
fn the_facts_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = lab(folder.path(), &["facts", "--json", "-j", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = document(&output);
    let facts = report["facts"].as_array().expect("facts");
    assert!(facts.len() >= 44, "{}", facts.len());
    for fact in facts {
        assert_eq!(fact["holds"], true, "{fact:#}");
    }
    let full = &facts[0]["expectations"][0];
    for key in ["key", "expected", "observed", "met"] {
        assert!(!full[key].is_null(), "{key} in {full}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// Without a namespace of its own the lab runs only when it is told to, and writes no sysctl.
fn here_only_with_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        "{}[sysctl]\n\"net.core.somaxconn\" = 77\n",
        VICTIM.replace("veth", "here")
    );
    fs::write(folder.path().join("here.toml"), text).expect("a file");
    let path = folder.path().to_owned();
    let run = move |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let path = path.clone();
        let alone = Namespace::create("test").expect("a namespace");
        let inside = move || {
            let read = || fs::read_to_string("/proc/sys/net/core/somaxconn").expect("a sysctl");
            let before = read();
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = lab(&path, &words);
            assert_eq!(read(), before, "nothing is written");
            output
        };
        alone.run(inside).expect("an end")
    };
    let refused = run(&["run", "here.toml", "--out", "refused"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--here"), "{}", stderr(&refused));
    let skipped = run(&["run", "here.toml", "--here", "--json", "--out", "skipped"]);
    assert_eq!(skipped.status.code(), Some(3), "{}", stderr(&skipped));
    let reason = document(&skipped)["arms"][0]["trials"][0]["reason"].to_string();
    assert!(
        reason.contains("net.core.somaxconn is 4096 here"),
        "{reason}"
    );
    let facts = run(&["facts", "--here", "--json"]);
    let report = document(&facts);
    let held = |fact: &&Value| fact["holds"] == true;
    let facts = report["facts"].as_array().expect("facts");
    assert!(facts.iter().filter(held).count() >= 20, "{report:#}");
    assert!(
        facts.iter().all(|fact| fact["holds"] != false),
        "{report:#}"
    );
}

/// Trials at once count their own packets only.
fn trials_at_once_are_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "run",
        "facts/capacity-3",
        "facts/capacity-10",
        "-n",
        "4",
        "-j",
        "8",
    ];
    let output = lab(
        folder.path(),
        &[&arguments[..], &["--json", "--warm-up"]].concat(),
    );
    let results = document(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for arm in results["arms"].as_array().expect("arms") {
        assert_eq!(arm["trials"].as_array().map(Vec::len), Some(4));
        assert_eq!(arm["verdict"]["met"], true, "{}", arm["verdict"]);
    }
    assert_eq!(results["schedule"]["jobs"], 8);
}

/// Twenty comparisons of runs of the same arms: the stated error rate is one in twenty, so that three or more
/// have a chance of 8 %, four or more of 2 %. And a change that matters is found.
#[expect(clippy::print_stdout, reason = "the table is what a soak is for")]
fn runs_that_do_not_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |name: &str, more: &[&str]| {
        let arguments = [
            "run",
            "arm-a",
            "arm-c",
            "-n",
            "5",
            "-j",
            "4",
            "--json",
            "--no-charts",
            "--out",
            name,
        ];
        let output = lab(folder.path(), &[&arguments[..], more].concat());
        // 4: a trial that a busy machine spoiled is invalid, and left out.
        assert!(
            matches!(output.status.code(), Some(0 | 1 | 4)),
            "{}",
            stderr(&output)
        );
    };
    let compare = |one: &str, other: &str| {
        let arguments = ["diff", one, other, "--json", "--allow-different-setup"];
        let comparison = document(&lab(folder.path(), &arguments));
        let arms = comparison["arms"].as_array().expect("arms").clone();
        let mut found = Vec::new();
        for arm in &arms {
            for figure in arm["figures"].as_array().expect("figures") {
                if figure["real"] == true {
                    found.push(format!(
                        "{}: {} p={}",
                        arm["name"], figure["figure"], figure["p"]
                    ));
                }
            }
        }
        found
    };
    let mut different = 0;
    for n in 0..20 {
        let (one, other) = (format!("{n}-one"), format!("{n}-other"));
        run(&one, &[]);
        run(&other, &[]);
        let found = compare(&one, &other);
        println!(
            "comparison {n:>2}: {} real differences {found:?}",
            found.len()
        );
        different += usize::from(!found.is_empty());
    }
    println!("{different} of 20 comparisons report a difference");
    assert!(different <= 3, "{different} of 20");
    run("changed", &["--set", "server.backlog=3"]);
    let found = compare("0-one", "changed");
    println!("against backlog 3: {found:?}");
    assert!(
        found
            .iter()
            .any(|figure| figure.contains("arm-a\": \"answered-p50-ms\"")),
        "{found:?}"
    );
}

/// Eight trials at once give the distributions of one after the other, and are faster. A trial that was spoiled says
/// so and is left out.
#[expect(clippy::print_stdout, reason = "the table is what a soak is for")]
fn trials_at_once_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |name: &str, jobs: &str, arms: &[&str]| {
        let clock = Clock::start();
        let arguments = ["-j", jobs, "--json", "--no-charts", "--out", name];
        let output = lab(folder.path(), &[&["run"], arms, &arguments].concat());
        let took_us = clock.now_us();
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1 | 4)), "{}", stderr(&output));
        took_us
    };
    let mut took_us = Vec::new();
    for (name, jobs) in [("serial", "1"), ("at-once", "8")] {
        // 16 cells, four trials each.
        let matrix = format!("matrix-{name}");
        took_us.push(run(&matrix, jobs, &["overflow-policy", "-n", "4"]));
        let arms = format!("arms-{name}");
        run(&arms, jobs, &["arm-a", "arm-c", "-n", "8"]);
    }
    println!(
        "64 trials: serial {} us, eight at once {} us",
        took_us[0], took_us[1]
    );
    let mut compared = 0;
    for kind in ["matrix", "arms"] {
        let runs = [format!("{kind}-serial"), format!("{kind}-at-once")];
        let arguments = ["diff", &runs[0], &runs[1], "--allow-different-setup"];
        let shown = lab(folder.path(), &arguments);
        println!("{}", String::from_utf8_lossy(&shown.stdout));
        let comparison = document(&lab(folder.path(), &[&arguments[..], &["--json"]].concat()));
        for arm in comparison["arms"].as_array().expect("arms") {
            let figures = arm["figures"].as_array().expect("figures");
            let real = |one: &&Value| one["real"] == true;
            assert_eq!(figures.iter().find(real), None, "{}", arm["name"]);
            let judged = figures.iter().any(|one| one["real"] == false);
            let name = arm["name"].as_str().expect("a name");
            // Relays of wires at once share one processor; where too many were late, nothing can be said.
            assert!(
                judged || name.contains("wire"),
                "{name}: too few valid trials"
            );
            compared += usize::from(judged);
        }
    }
    println!("{compared} of 18 arms compared, no real difference");
    assert!(compared >= 14, "{compared} of 18");
    assert!(took_us[1] * 2 < took_us[0], "{took_us:?}");
}

/// Whoever has no capability enters a user namespace, and measures the same.
#[expect(clippy::print_stdout, reason = "the table is what a soak is for")]
fn without_capabilities() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "run", "arm-a", "arm-c", "-n", "6", "-j", "2", "--json", "--out",
    ];
    let with = lab(folder.path(), &[&arguments[..], &["with"]].concat());
    assert!(with.status.success(), "{}", stderr(&with));
    let mut command = Command::new(program());
    command
        .args(arguments)
        .arg("without")
        .current_dir(folder.path());
    let without = in_user_namespace(command, 65534, CloneFlags::empty(), || Ok(()));
    assert!(without.status.success(), "{}", stderr(&without));
    let shown = lab(folder.path(), &["diff", "with", "without"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    println!("{text}");
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    for word in ["worse", "better", "different (", "cannot be said"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}
