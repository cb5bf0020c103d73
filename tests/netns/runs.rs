//! Whole runs of the program: the published arms, the run folder, the exit codes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{contract, program, test};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test(
            "runs/an-interrupted-run-keeps-what-it-has",
            an_interrupted_run_keeps_what_it_has,
        ),
        test(
            "runs/equal-runs-at-once-have-a-folder-each",
            equal_runs_at_once_have_a_folder_each,
        ),
        test("runs/the-default-run", the_default_run),
        test("runs/the-shock-absorber", the_shock_absorber),
        test(
            "runs/a-report-is-made-again-byte-for-byte",
            a_report_is_made_again,
        ),
        test("runs/overrides-and-exit-codes", overrides_and_exit_codes),
        test(
            "runs/a-missing-sysctl-skips-its-arm",
            a_missing_sysctl_skips_its_arm,
        ),
        test(
            "runs/an-occupied-folder-is-refused",
            an_occupied_folder_is_refused,
        ),
        test("runs/notes-name-the-syn-retry", notes_name_the_syn_retry),
    ]
}

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

/// Arms A, B and C meet what they expect, from an empty folder: the binary carries them.
fn the_default_run() {
    let folder = folder();
    let output = lab(folder.path(), &["run", "--json"]);
    let results = document(&output);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{:#}",
        results["arms"][0]["verdict"]
    );
    assert_eq!(results["complete"], true);
    contract::holds(&results);
    for (arm, name) in results["arms"]
        .as_array()
        .expect("arms")
        .iter()
        .zip(["arm-a", "arm-b", "arm-c"])
    {
        assert_eq!(arm["name"], name);
        assert_eq!(arm["verdict"]["met"], true, "{}", arm["verdict"]);
        let trial = &arm["trials"][0];
        let outcomes = trial["outcomes"].as_object().expect("outcomes");
        assert_eq!(outcomes.len(), 9);
        assert_eq!(outcomes.values().map(number).sum::<u64>(), 200);
        let counters = &trial["counters"]["server"];
        assert_eq!(
            counters["TcpExt.ListenOverflows"],
            counters["TcpExt.ListenDrops"]
        );
        let accepted = number(&trial["accepted"]);
        assert_eq!(
            number(&trial["wasted_accepts"]),
            accepted - number(&outcomes["ok"])
        );
    }
    let latest = folder.path().join("reports/latest");
    for file in [
        "manifest.json",
        "results.json",
        "README.md",
        "data/attempts.csv",
        "data/samples.csv",
    ] {
        assert!(latest.join(file).is_file(), "{file}");
    }
    let rows = fs::read_to_string(latest.join("data/attempts.csv")).expect("a table");
    assert_eq!(rows.lines().count(), 601);
}

/// A large queue in front of a server that is too slow answers fewer than a tiny one.
fn the_shock_absorber() {
    let folder = folder();
    let output = lab(folder.path(), &["run", "shock-absorber", "--json"]);
    let results = document(&output);
    assert_eq!(output.status.code(), Some(0), "{results:#}");
    let ok = |name: &str| {
        let arms = results["arms"].as_array().expect("arms");
        let arm = arms
            .iter()
            .find(|arm| arm["name"] == name)
            .unwrap_or_else(|| panic!("{name}"));
        (
            number(&arm["trials"][0]["outcomes"]["ok"]),
            number(&arm["trials"][0]["wasted_accepts"]),
        )
    };
    let (small, _) = ok("shock-absorber/backlog=1,accept-delay=80ms");
    let (large, wasted) = ok("shock-absorber/backlog=128,accept-delay=80ms");
    assert!(
        large < small,
        "{large} answered with backlog 128, {small} with backlog 1"
    );
    assert!(wasted > 0, "the server works for those who have left");
    assert_eq!(ok("shock-absorber/backlog=128,accept-delay=0s").0, 200);
}

/// Everything derived follows from the stored files.
fn a_report_is_made_again() {
    let folder = folder();
    let run = lab(
        folder.path(),
        &[
            "run",
            "arm-b-control",
            "facts/capacity-1",
            "--out",
            "run",
            "--json",
        ],
    );
    assert_eq!(
        run.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let path = folder.path().join("run");
    let before = derived(&path);
    assert!(
        before.iter().any(|(name, _)| name.ends_with("README.md")),
        "{before:?}"
    );
    for (name, _) in &before {
        fs::remove_file(name).expect("a derived file");
    }
    let again = lab(folder.path(), &["report", "run", "--json"]);
    assert_eq!(
        again.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
    assert_eq!(again.stdout, run.stdout);
    assert!(derived(&path) == before, "a derived file differs");
}

/// Every file of a run that is neither the manifest nor an observation.
fn derived(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("observations") {
            found.extend(derived(&path));
        } else if path.is_file() && !path.ends_with("manifest.json") {
            let bytes = fs::read(&path).expect("a file");
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

fn overrides_and_exit_codes() {
    let folder = folder();
    let small = ["--set", "client.connections=8", "--set", "client.workers=8"];
    let run = |more: &[&str]| {
        let arguments = [&["run", "arm-b", "--json"], &small[..], more].concat();
        let output = lab(folder.path(), &arguments);
        (output.status.code(), document(&output))
    };
    let (code, results) = run(&[]);
    assert_eq!(
        code,
        Some(0),
        "an arm that was changed is not judged by what it was"
    );
    assert_eq!(results["arms"][0]["verdict"]["met"], Value::Null);
    assert_eq!(results["arms"][0]["settings"]["client"]["connections"], 8);
    assert_eq!(results["overrides"][0], "client.connections=8");
    let (code, results) = run(&["--set", "expect.ok=8"]);
    assert_eq!(
        (code, &results["arms"][0]["verdict"]["met"]),
        (Some(0), &Value::Null)
    );
    let (code, _) = run(&["--set", "expect.ok=9"]);
    assert_eq!(code, Some(1), "an expectation of this very run is judged");
    let (code, results) = run(&["--set", "server.backlog=7,8,9", "-n", "2"]);
    assert_eq!(code, Some(0));
    let arms = results["arms"].as_array().expect("arms");
    assert_eq!(arms.len(), 3);
    assert_eq!(arms[2]["name"], "arm-b/backlog=9");
    assert_eq!(arms[2]["summary"]["ok"]["n"], 2);
    assert_eq!(arms[2]["trials"][0]["listeners"][0]["backlog_effective"], 9);
}

fn a_missing_sysctl_skips_its_arm() {
    let folder = folder();
    let text =
        "title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\n[sysctl]\n\"net.ipv4.tcp_nonesuch\" = 1\n";
    fs::write(folder.path().join("missing.toml"), text).expect("a file");
    let output = lab(
        folder.path(),
        &[
            "run",
            "missing.toml",
            "facts/closed-port",
            "--json",
            "--out",
            "run",
        ],
    );
    let results = document(&output);
    assert_eq!(output.status.code(), Some(3));
    contract::holds(&results);
    let trial = &results["arms"][0]["trials"][0];
    assert_eq!(trial["status"], "skipped");
    let reason = trial["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("net.ipv4.tcp_nonesuch") && reason.contains("ENOENT"),
        "{reason}"
    );
    assert_eq!(
        trial["outcomes"],
        Value::Null,
        "nothing measured is not zero"
    );
    assert_eq!(
        results["arms"][1]["verdict"]["met"], true,
        "other arms are unaffected"
    );
}

fn an_occupied_folder_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("mine.txt"), "mine").expect("a file");
    let output = lab(folder.path(), &["run", "facts/closed-port", "--out", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--out"));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

/// A timeout on a retry instant leaves it to chance whether that SYN is still counted.
fn notes_name_the_syn_retry() {
    let folder = folder();
    let run = |timeout: &str| {
        let timeout = format!("client.timeout={timeout}");
        let arguments = ["run", "cases/k03-third-client", "--json", "--set", &timeout];
        document(&lab(folder.path(), &arguments))["arms"][0]["trials"][0]["notes"].to_string()
    };
    assert!(run("1s").contains("SYN retry at 1 s"));
    assert!(!run("700ms").contains("SYN retry"));
}

/// SIGINT and SIGTERM end the running trial; those before it are kept, and the report says that it is partial.
fn an_interrupted_run_keeps_what_it_has() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let folder = folder();
        let arguments = [
            "run",
            "facts/closed-port",
            "cases/k16-2500ms-linear",
            "--out",
            "run",
            "--json",
        ];
        let child = Command::new(program())
            .args(arguments)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // The last of the four short trials is stored, so the long one is next.
        let stored = folder
            .path()
            .join("run/observations/facts__closed-port__link=veth-ipv6.0.json");
        let deadline = Instant::now() + Duration::from_secs(30);
        while !stored.exists() {
            assert!(Instant::now() < deadline, "the first trials do not end");
            std::thread::yield_now();
        }
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        kill(pid, signal).expect("a signal");
        let output = child.wait_with_output().expect("an end");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let results = document(&output);
        assert_eq!(results["complete"], false);
        contract::holds(&results);
        assert_eq!(results["arms"][3]["trials"][0]["status"], "ok");
        assert_eq!(
            results["arms"][4]["trials"].as_array().map(Vec::len),
            Some(0)
        );
        assert!(folder.path().join("run/README.md").is_file());
        let again = lab(folder.path(), &["report", "run"]);
        assert_eq!(again.status.code(), Some(4), "a partial run is not well");
        assert!(String::from_utf8_lossy(&again.stdout).contains("partial"));
    }
}

/// The same seed in the same second is the same id: each run still gets a folder.
fn equal_runs_at_once_have_a_folder_each() {
    let folder = folder();
    let arguments = ["run", "facts/closed-port", "--seed", "5", "--json"];
    let ids: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| lab(folder.path(), &arguments)))
            .collect();
        let end = |output: Output| {
            assert_eq!(
                output.status.code(),
                Some(0),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            document(&output)["run_id"]
                .as_str()
                .expect("an id")
                .to_owned()
        };
        runs.into_iter()
            .map(|run| end(run.join().expect("an end")))
            .collect()
    });
    for id in &ids {
        assert!(
            folder
                .path()
                .join("reports")
                .join(id)
                .join("results.json")
                .is_file(),
            "{ids:?}"
        );
    }
    assert_eq!(
        ids.iter().collect::<std::collections::BTreeSet<_>>().len(),
        4,
        "{ids:?}"
    );
    let left: Vec<_> = fs::read_dir(folder.path().join("reports"))
        .expect("a folder")
        .flatten()
        .collect();
    assert_eq!(left.len(), 5, "four runs and the link: {left:?}");
}
