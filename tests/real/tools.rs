//! What real clients say of a listener, and whether the documents tell it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use backlog_lab::arm::{Arm, Catalog, Override};
use backlog_lab::load::Progress;
use backlog_lab::observation::{Observation, SCHEMA_VERSION, TrialStatus};
use backlog_lab::plan::Plan;
use backlog_lab::result::{Status, ToolResult, TrialResult, trial_result};
use backlog_lab::run::{KernelLab, Lab};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("tools/ab-sees-no-loss-where-the-kernel-does", ab),
        Trial::test("tools/wrk-names-no-failure-where-the-kernel-does", wrk),
    ];
    for program in ["curl", "nginx", "python", "node"] {
        let name = format!("symptoms/{program}-says-what-the-table-says");
        trials.push(Trial::test(name, move || symptoms(program)));
    }
    trials
}

fn arms(name: &str, changes: &[&str]) -> Result<Vec<Arm>, Failed> {
    let changes: Result<Vec<Override>, String> = changes.iter().map(|one| one.parse()).collect();
    let catalog = Catalog::new(Path::new("/nonexistent"));
    Ok(catalog.load(&[name.to_owned()], &changes?)?)
}

fn run(arm: Arm) -> Result<(TrialResult, ToolResult), Failed> {
    let name = arm.name.clone();
    let plan = Plan::new(vec![arm], 1, 1, Vec::new());
    let measured = KernelLab::default()
        .observe(plan.order()[0], &Arc::new(Progress::default()))
        .map_err(|error| format!("{name}: {error}"))?;
    let observation = Observation {
        schema_version: SCHEMA_VERSION,
        arm: name,
        index: 0,
        status: TrialStatus::Measured,
        reason: None,
        measured: Some(measured),
    };
    let result = trial_result(&plan.arms[0].settings, &observation);
    if result.status != Status::Ok {
        return Err(format!("{:?}", result.reason).into());
    }
    let tool = result.tool.clone().ok_or("no tool ran")?;
    Ok((result, tool))
}

fn overflows(result: &TrialResult) -> i64 {
    result.counters.server["TcpExt.ListenOverflows"].unwrap_or(0)
}

/// ab gets every answer in the end, and has no number for what was dropped meanwhile.
fn ab() -> Result<(), Failed> {
    let mut arm = arms("tools/ab", &[])?.remove(0);
    let few = |word: &mut String, from: &str, to: &str| {
        if word == from {
            to.clone_into(word);
        }
    };
    for word in &mut arm.client.command {
        few(word, "200", "60");
        few(word, "150", "50");
    }
    let (result, tool) = run(arm)?;
    assert_eq!(tool.exit_code, Some(0), "{tool:?}");
    assert_eq!(tool.claimed_completed, Some(60.0), "{tool:?}");
    assert_eq!(tool.claimed_failed, Some(0.0), "{tool:?}");
    assert_eq!(result.accepted, Some(60));
    assert!(overflows(&result) > 50, "{:?}", result.counters);
    Ok(())
}

/// What wrk claims it was answered, the server has accepted; of the others it says nothing.
fn wrk() -> Result<(), Failed> {
    let (result, tool) = run(arms("tools/wrk", &[])?.remove(0))?;
    let completed = tool.claimed_completed.ok_or("wrk says nothing")?;
    let accepted = result.accepted.ok_or("the server says nothing")?;
    assert!(
        completed > 0.0 && completed <= f64::from(accepted),
        "{tool:?} {accepted}"
    );
    assert!(overflows(&result) > 100, "{:?}", result.counters);
    Ok(())
}

/// The table of README.md: a column for each program, a row for each fate.
fn table() -> BTreeMap<(String, String), String> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_matches('|');
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = include_str!("../../README.md")
        .lines()
        .skip_while(|line| !line.starts_with("| fate |"));
    let heads = cells(lines.next().unwrap_or_default());
    let mut table = BTreeMap::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let row = cells(line);
        let fate = row[0].split('`').nth(1).unwrap_or_default().to_owned();
        for (head, cell) in heads.iter().zip(&row).skip(1) {
            let program = head.split(' ').next().unwrap_or_default().to_lowercase();
            table.insert((program, fate.clone()), cell.clone());
        }
    }
    table
}

/// Each fate at once: Node gives up a connect after ten seconds.
fn symptoms(program: &str) -> Result<(), Failed> {
    let table = table();
    let runs: Vec<_> = arms(&format!("symptoms/{program}"), &[])?
        .into_iter()
        .map(|arm| {
            let fate = arm.name.rsplit('=').next().unwrap_or_default().to_owned();
            (
                fate,
                thread::spawn(move || run(arm).map_err(|error| format!("{error:?}"))),
            )
        })
        .collect();
    assert_eq!(runs.len(), 5);
    for (fate, run) in runs {
        let (_, tool) = run.join().map_err(|_| "a run panicked")??;
        let words = tool.last_words.clone().unwrap_or_default();
        let cell = table
            .get(&(program.to_owned(), fate.clone()))
            .ok_or_else(|| format!("README.md has no cell for {program}, {fate}"))?;
        let mut parts = cell.split('`');
        let number = parts.next().unwrap_or_default().trim();
        let is_right = number.is_empty()
            || tool
                .exit_code
                .is_some_and(|code| code.to_string() == number)
            || words.starts_with(&format!("{number},"));
        assert!(is_right, "{program}, {fate}: not {number}: {tool:?}");
        for text in parts.step_by(2).filter(|text| !text.is_empty()) {
            assert!(
                words.contains(text),
                "{program}, {fate}: no \"{text}\" in {words}"
            );
        }
    }
    Ok(())
}
