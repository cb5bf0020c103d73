//! Failed, invalid, skipped and missing trials, wherever a run is shown.

use std::collections::BTreeMap;
use std::sync::Mutex;

use backlog_lab::manifest::{Host, Manifest};
use backlog_lab::observation::{BeforeAfter, Ended, Measured, Observation};
use backlog_lab::plan::Plan;
use backlog_lab::report;
use backlog_lab::report::charts::{Options, charts};
use backlog_lab::result::{ArmResult, Results, Status, compare, results};
use backlog_lab::run::{RunFolder, TrialError, execute};

use crate::pipeline::{Scripted, accept, arm, attempt, measured, run};

/// A trial in which `ok` of a hundred were answered.
fn readings(ok: u32) -> Measured {
    let port = |n: u32| 40_000 + u16::try_from(n).expect("few attempts");
    let attempts = (0..100).map(|n| {
        let ended = if n < ok {
            Ended::Answered
        } else {
            Ended::TimeUp
        };
        attempt(n, port(n), ended)
    });
    let accepts = (0..ok).map(|n| accept(100, port(n))).collect();
    measured(attempts.collect(), accepts)
}

/// Each arm's trials: `mixed` has one of every kind beside two that are valid, the others are named for theirs.
fn trial(name: &str, index: usize) -> Result<Measured, TrialError> {
    let kind = match (name, index) {
        ("mixed", 1) => "invalid",
        ("mixed", 2) => "failed",
        ("mixed", 4) => "skipped",
        ("mixed", _) => "good",
        (name, _) => name,
    };
    match kind {
        "good" => Ok(readings(50)),
        "invalid" => {
            let mut broken = readings(100);
            let after = broken.server.counters.after.as_mut().expect("counters");
            after.insert("TcpExt.ListenDrops".into(), Some(4));
            Ok(broken)
        }
        "failed" => Err(TrialError::Failed {
            reason: "the sampler broke off".into(),
            measured: Some(Box::new(readings(100))),
        }),
        _ => Err(TrialError::Skipped("sysctl x does not exist here".into())),
    }
}

fn stored(names: &[&str]) -> (Manifest, Vec<Observation>, Results) {
    let host = Host {
        kernel: Some("6.18.0".into()),
        architecture: None,
        cpus: Some(2),
    };
    let arms = names.iter().map(|name| arm(name, 100, "")).collect();
    let plan = Plan::new(arms, 5, 7, Vec::new());
    let started_at = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    let manifest = Manifest::new(vec!["backlog-lab".into()], host, started_at, plan);
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(folder.path(), &manifest).expect("a folder");
    let seen = Mutex::new(BTreeMap::<String, usize>::new());
    let lab = Scripted(|name: &str| {
        let mut seen = seen.lock().expect("a lock");
        let index = seen.entry(name.to_owned()).or_default();
        *index += 1;
        trial(name, *index - 1)
    });
    execute(&manifest.plan, &lab, &run, |_| {}).expect("stored observations");
    let observations = run.observations(&manifest.plan).expect("observations");
    let results = results(&manifest, &observations);
    (manifest, observations, results)
}

fn of<'a>(results: &'a Results, name: &str) -> &'a ArmResult {
    let mut arms = results.arms.iter();
    arms.find(|arm| arm.name == name).expect("an arm")
}

const ALL: [&str; 5] = ["good", "mixed", "failed", "invalid", "skipped"];

/// Only what is valid is averaged in, in results and table alike.
#[test]
fn nothing_but_valid_trials_is_averaged_in() {
    let (_, _, results) = stored(&ALL);
    let mixed = of(&results, "mixed");
    let ok = mixed.summary["ok"];
    assert_eq!((ok.n, ok.min, ok.max), (2, 50.0, 50.0));
    let statuses: Vec<Status> = mixed.trials.iter().map(|one| one.status).collect();
    let words: Vec<String> = statuses.iter().map(Status::to_string).collect();
    assert_eq!(words, ["ok", "invalid", "failed", "ok", "skipped"]);
    for name in ["failed", "invalid", "skipped"] {
        let one = of(&results, name);
        assert!(one.summary.is_empty(), "{name}");
        assert!(one.verdict.text.starts_with(name), "{}", one.verdict.text);
        assert_eq!(one.verdict.kind, None, "{name}");
    }
    let text = format!(
        "{}\n{}",
        report::comparison(&results, 120),
        report::verdicts(&results, 120)
    );
    for status in ["failed", "invalid", "skipped"] {
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with(status));
        assert!(
            row.is_some_and(|row| row.contains(status)),
            "{status} in {text}"
        );
    }
}

/// Every chart says that trials were left out, how many, and why an arm has nothing to show.
#[test]
fn every_chart_says_what_was_left_out() {
    let (_, observations, results) = stored(&ALL);
    for (name, chart) in charts(&results, &observations, Options::default()) {
        let svg = String::from_utf8(chart.expect("a chart").svg).expect("text");
        for part in [
            "6 of 25 trials failed",
            "6 of 25 trials invalid",
            "6 of 25 trials skipped",
        ] {
            assert!(svg.contains(part), "{name}: {part}");
        }
        for status in ["failed", "invalid", "skipped"] {
            // The arm is named so, what is beside it says so, and the footer has the number.
            let told = svg.matches(status).count();
            assert!(told >= 3, "{name}: {status} stands {told} times");
        }
    }
    let (_, observations, results) = stored(&["good"]);
    for (name, chart) in charts(&results, &observations, Options::default()) {
        let svg = String::from_utf8(chart.expect("a chart").svg).expect("text");
        assert!(!svg.contains("left out"), "{name}");
    }
}

/// A comparison leaves them out, names them, and judges nothing of an arm without any.
#[test]
fn a_comparison_leaves_them_out() {
    let (_, _, results) = stored(&ALL);
    let comparison = compare(&results, &results);
    let mixed = comparison
        .arms
        .iter()
        .find(|arm| arm.name == "mixed")
        .expect("an arm");
    let notes = mixed.notes.join("\n");
    for status in ["failed", "invalid", "skipped"] {
        let note = format!("after: 1 of 5 trials left out: {status}");
        assert!(notes.contains(&note), "{note} in {notes}");
    }
    assert_eq!(mixed.figures[0].before.map(|one| one.n), Some(2));
    let silent: Vec<&str> = comparison.not_judged().collect();
    assert_eq!(silent, ["failed", "invalid", "skipped"]);
}

/// Every status has its exit code, and a partial run says so everywhere.
#[test]
fn statuses_have_their_exit_codes() {
    let code = |names: &[&str]| stored(names).2.exit_code();
    assert_eq!(code(&["good"]), 0);
    assert_eq!(code(&["good", "failed"]), 4);
    assert_eq!(code(&["good", "invalid"]), 4);
    assert_eq!(code(&["good", "failed", "skipped"]), 3);
    let (manifest, mut observations, _) = stored(&["good"]);
    observations.pop();
    let partial = results(&manifest, &observations);
    assert_eq!((partial.complete, partial.exit_code()), (false, 4));
    assert!(report::verdicts(&partial, 80).contains("the run is partial"));
    let (_, readme) = report::readme(&manifest, &observations, &partial, &[]);
    let readme = String::from_utf8(readme).expect("text");
    assert!(readme.contains("**the run is partial**"), "{readme}");
    for (name, chart) in charts(&partial, &observations, Options::default()) {
        let svg = String::from_utf8(chart.expect("a chart").svg).expect("text");
        assert!(svg.contains("partial run"), "{name}");
    }
}

/// K49: where the counters cannot be read, what the clients saw is still shown, the counters are dashes, and the exit
/// code is that of a machine that does not allow it.
#[test]
fn unreadable_counters_are_dashes() {
    let lab = Scripted(|_: &str| {
        let mut readings = readings(50);
        readings.server.counters = BeforeAfter::default();
        let path = "/proc/thread-self/net/netstat";
        readings.notes = vec![format!(
            "cannot read {path}: Permission denied (os error 13)"
        )];
        Ok(readings)
    });
    let results = run(vec![arm("masked", 100, "")], &lab);
    assert_eq!(results.exit_code(), 3);
    assert_eq!(results.arms[0].trials[0].status, Status::Ok);
    let table = report::comparison(&results, 120);
    let row = table
        .lines()
        .find(|line| line.trim_start().starts_with("masked"));
    let cells: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert!(cells.contains(&"50") && cells.contains(&"-"), "{table}");
    let text = report::verdicts(&results, 200);
    for part in [
        "/proc/thread-self/net/netstat",
        "os error 13",
        "overflows are unknown",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
