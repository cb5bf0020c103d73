//! A run's folder when something of it cannot be written or read: what was measured is kept, and nothing is left out
//! unsaid.

use std::fs;
use std::os::unix::fs::symlink;

use backlog_lab::manifest::{Host, Manifest};
use backlog_lab::observation::{Ended, Measured, WireLog};
use backlog_lab::plan::Plan;
use backlog_lab::result::{Status, results};
use backlog_lab::run::{RunFolder, StoreError, TrialError, execute};

use crate::pipeline::{Scripted, arm, attempt, measured, port};

fn manifest() -> Manifest {
    let host = Host {
        kernel: None,
        architecture: None,
        cpus: None,
    };
    let started_at = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    let plan = Plan::new(vec![arm("a", 1, "")], 1, 1, Vec::new());
    Manifest::new(Vec::new(), host, started_at, plan)
}

fn one_attempt() -> Measured {
    measured(vec![attempt(0, port(0), Ended::TimeUp)], Vec::new())
}

#[test]
fn an_observation_is_stored_also_where_its_capture_cannot_be() {
    let (folder, manifest) = (tempfile::tempdir().expect("a folder"), manifest());
    let run = RunFolder::create(folder.path(), &manifest).expect("a run");
    fs::write(folder.path().join("captures"), "no folder").expect("a file");
    let lab = Scripted(|_: &str| {
        Ok(Measured {
            wire: Some(WireLog {
                capture: vec![0],
                ..WireLog::default()
            }),
            ..one_attempt()
        })
    });
    let error = execute(&manifest.plan, &lab, &run, |_| {}).expect_err("no capture");
    assert!(error.to_string().contains("captures"), "{error}");
    let stored = run.observations(&manifest.plan).expect("observations");
    assert!(stored[0].measured.is_some());
}

#[test]
fn an_observation_that_cannot_be_read_is_not_one_that_does_not_exist() {
    let (folder, manifest) = (tempfile::tempdir().expect("a folder"), manifest());
    let run = RunFolder::create(folder.path(), &manifest).expect("a run");
    assert_eq!(run.observations(&manifest.plan).expect("none"), []);
    let file = folder.path().join("observations/a.0.json");
    symlink(&file, &file).expect("a link that leads nowhere");
    let read = run.observations(&manifest.plan);
    assert!(matches!(read, Err(StoreError::Read { .. })), "{read:?}");
}

#[test]
fn what_a_broken_trial_did_not_read_is_unknown_beside_what_it_did() {
    let (folder, manifest) = (tempfile::tempdir().expect("a folder"), manifest());
    let run = RunFolder::create(folder.path(), &manifest).expect("a run");
    let lab = Scripted(|_: &str| {
        Err(TrialError::Failed {
            reason: "the dump was interrupted".into(),
            measured: Some(Box::new(Measured {
                pending: None,
                ..one_attempt()
            })),
        })
    });
    execute(&manifest.plan, &lab, &run, |_| {}).expect("a stored observation");
    let stored = run.observations(&manifest.plan).expect("observations");
    let trial = &results(&manifest, &stored).arms[0].trials[0];
    assert_eq!(
        (trial.status, trial.attempts, trial.half_open_final),
        (Status::Failed, Some(1), None)
    );
}
