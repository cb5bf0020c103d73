//! Load over time: open and closed loops, and the search for the breaking point.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use backlog_lab::arm::{Arm, Catalog, Source};
use backlog_lab::load::Progress;
use backlog_lab::observation::{Ended, Measured, Observation, SCHEMA_VERSION, TrialStatus};
use backlog_lab::plan::Plan;
use backlog_lab::result::{Status, TrialResult, trial_result};
use backlog_lab::run::{KernelLab, Lab};
use libtest_mimic::Trial;

use crate::facts::measure;
use crate::{program, test};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test(
            "load/an-open-loop-fills-the-queue",
            an_open_loop_fills_the_queue,
        ),
        test(
            "load/only-an-open-loop-sees-the-stall",
            only_an_open_loop_sees_the_stall,
        ),
        test(
            "load/a-loop-without-threads-is-not-open",
            a_loop_without_threads_is_not_open,
        ),
        test("load/break-finds-the-places", break_finds_the_places),
        test(
            "load/what-a-loop-without-descriptors-does",
            what_a_loop_without_descriptors_does,
        ),
        test("soak/k80-the-breaking-point", k80_the_breaking_point).with_ignored_flag(true),
        test("soak/arms-of-load-over-time", arms_of_load_over_time).with_ignored_flag(true),
    ]
}

fn observe(text: &str) -> (Arm, Measured) {
    let text = format!("title = \"t\"\nwhy = \"w\"\n{text}");
    let arms = Source::new("a", &text).arms(&[]).expect("an arm");
    let arm = arms[0].clone();
    let plan = Plan::new(arms, 1, 1, Vec::new());
    let measured = KernelLab::default().observe(plan.order()[0], &Arc::new(Progress::default()));
    (arm, measured.unwrap_or_else(|error| panic!("{error}")))
}

fn result(arm: &Arm, measured: Measured) -> TrialResult {
    let observation = Observation {
        schema_version: SCHEMA_VERSION,
        arm: "a".into(),
        index: 0,
        status: TrialStatus::Measured,
        reason: None,
        measured: Some(measured),
    };
    trial_result(arm, &observation)
}

/// Observes until the lab itself does not call the trial invalid, three times at most: what came late beside other
/// work says nothing about the kernel.
fn observe_valid(text: &str) -> (Arm, Measured) {
    let is_valid =
        |(arm, measured): &(Arm, Measured)| result(arm, measured.clone()).status != Status::Invalid;
    let mut observed = observe(text);
    for _ in 0..2 {
        if !is_valid(&observed) {
            observed = observe(text);
        }
    }
    observed
}

/// At the first overflow as many had come as have been accepted and have a place.
fn an_open_loop_fills_the_queue() {
    let (arm, measured) = observe_valid(
        "server.backlog = 64\nserver.accept-delay = \"10ms\"\n[client]\nrate = \"300/s\"\nduration = \"600ms\"\ntimeout = \"300ms\"",
    );
    let (attempts, accepts) = (measured.attempts.clone(), measured.accepts.clone());
    let intended: Vec<u64> = attempts.iter().map(|one| one.intended_us).collect();
    let due: Vec<u64> = (0..180).map(|n| n * 1_000_000 / 300).collect();
    assert_eq!(intended, due);
    let samples = measured.listeners[0].samples.clone();
    let load = result(&arm, measured).load;
    assert_eq!(load.predicted_overflow_ms, Some(325.0));
    let first_ms = load.first_overflow_ms.expect("180 in 0.6 s do not fit");
    // 65 places at 300 per second last for that long though nobody is accepted.
    assert!(first_ms >= 216.0, "{first_ms}");
    // A look is stamped before it is taken: the drop came after the stamp before and before the one that follows.
    let dropped = |drops: &Option<u32>| *drops != samples.drops[0];
    let seen = samples.drops.iter().position(dropped).expect("a drop");
    let before_us = samples.at_us[seen - 1];
    let after_us = samples.at_us.get(seen + 1).copied().unwrap_or(u64::MAX);
    let come = attempts.iter().filter(|one| one.started_us <= after_us);
    let accepted = accepts.iter().filter(|one| one.at_us <= before_us);
    let (come, accepted) = (come.count(), accepted.count());
    assert!(
        come + 1 >= accepted + 65,
        "{come} came, {accepted} were accepted by {first_ms} ms"
    );
}

/// Nothing is accepted from 0.4 s to 0.7 s.
const STALL: &str = "server.backlog = 128\nserver.accept = [{ at = \"0s\", count = 10000 }, { at = \"400ms\", count = 0 }, { at = \"700ms\", count = 10000 }]\n[client]\nduration = \"1s\"\nrate = \"100/s\"\n";

fn only_an_open_loop_sees_the_stall() {
    let within = |measured: &Measured| {
        let stalled = measured.attempts.iter();
        let stalled = stalled.filter(|one| (410_000..690_000).contains(&one.intended_us));
        stalled.map(|one| one.first_byte_us).collect::<Vec<_>>()
    };
    let (_, open) = observe(STALL);
    let stalled = within(&open);
    assert_eq!((open.attempts.len(), stalled.len()), (100, 28));
    assert!(
        stalled.iter().all(|at| at.is_some_and(|us| us >= 700_000)),
        "{stalled:?}"
    );
    let (_, closed) = observe(&format!("{STALL}concurrency = 5\n"));
    let stalled = within(&closed);
    assert!(stalled.len() <= 5, "{stalled:?}");
    assert!(closed.attempts.len() <= 100);
}

fn a_loop_without_threads_is_not_open() {
    let (arm, measured) = observe(
        "server.backlog = 64\nserver.accept = \"never\"\n[client]\nrate = \"100/s\"\nduration = \"100ms\"\nworkers = 2\ntimeout = \"200ms\"",
    );
    let result = result(&arm, measured);
    assert_eq!(result.status, Status::Invalid);
    let reason = result.reason.unwrap_or_default();
    assert!(reason.contains("found no thread free"), "{reason}");
}

/// Eight clients, two of whom the server can hold; the others have a place in its queue.
fn what_a_loop_without_descriptors_does() {
    let without = |when_out: &str| {
        let (_, measured) = observe(&format!(
            "server.backlog = 8\nserver.descriptors = {{ free = 2, when-out = \"{when_out}\" }}\nprotocol.speaks-first = \"nobody\"\n[client]\nconnections = 8\nstart = \"one-by-one\"\nspread = \"40ms\"\ntimeout = \"400ms\""
        ));
        let failures = measured.accept_failures.values().sum::<u64>();
        let held = measured.attempts.iter();
        let held = held.filter(|one| one.ended == Ended::Held).count();
        (measured.accepts.len(), failures, held)
    };
    let (spin, sleep) = (without("spin"), without("sleep"));
    assert_eq!(
        (spin.0, sleep.0, sleep.2),
        (2, 2, 8),
        "accepted, and held by clients"
    );
    assert!(spin.1 >= 20 * sleep.1 && sleep.1 > 0, "{spin:?} {sleep:?}");
    assert_eq!(without("park"), (2, 1, 8));
    let (accepted, _, held) = without("reserve");
    assert_eq!((accepted, held), (8, 2));
    // Whoever is in the queue is reset, and whoever comes later is refused.
    assert_eq!(without("exit"), (2, 1, 0));
    assert_eq!(without("close-listener"), (2, 1, 2));
}

fn break_(arguments: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(program())
        .current_dir(folder.path())
        .args(["break", "--json", "--no-charts", "--quiet"])
        .args(arguments)
        .output()
        .expect("the program");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("a document")
}

/// Four clients have a place in a queue of listen(3), and the fifth has none.
fn break_finds_the_places() {
    let arm = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .expect("a file");
    let text = "title = \"t\"\nwhy = \"w\"\nserver.backlog = 3\nserver.accept = \"never\"\nclient.timeout = \"200ms\"\nprotocol.speaks-first = \"nobody\"\n";
    std::fs::write(arm.path(), text).expect("a file");
    let path = arm.path().display().to_string();
    let results = break_(&[&path, "--by", "burst"]);
    let staircase = &results["staircases"][0];
    assert_eq!(staircase["holds"], 4.0, "{staircase}");
    assert_eq!(staircase["breaks"], 5.0, "{staircase}");
    assert_eq!(staircase["predicted"], 4.0, "{staircase}");
}

/// The whole case: a minute and a half.
fn k80_the_breaking_point() {
    let results = break_(&["breaking-point/steps"]);
    let staircase = &results["staircases"][0];
    let load = |key: &str| staircase[key].as_f64().expect("a load");
    assert!(
        load("holds") >= 95.0 && load("breaks") <= 120.0,
        "{staircase}"
    );
    for (rate, earliest_ms, latest_ms) in [
        (120, 2_700.0, 3_400.0),
        (150, 1_200.0, 1_400.0),
        (300, 300.0, 370.0),
    ] {
        let (arm, measured) = observe(&format!(
            "server.backlog = 64\nserver.accept-delay = \"10ms\"\n[client]\nrate = \"{rate}/s\"\nduration = \"4s\""
        ));
        let first_ms = result(&arm, measured)
            .load
            .first_overflow_ms
            .expect("an overflow");
        assert!(
            (earliest_ms..=latest_ms).contains(&first_ms),
            "{rate}/s: {first_ms}"
        );
    }
}

/// Their bounds are of tens of milliseconds, which a machine that also compiles does not keep.
fn arms_of_load_over_time() {
    let words = [
        "accept-stopped",
        "coordinated-omission",
        "storm",
        "breaking-point/too-short",
        "breaking-point/keep-alive",
    ];
    let catalog = Catalog::new(Path::new("/nonexistent"));
    let arms = catalog
        .load(&words.map(String::from), &[])
        .expect("shipped arms");
    for arm in arms {
        let verdict = measure(arm).verdict;
        assert_eq!(verdict.met, Some(true), "{verdict:?}");
    }
}
