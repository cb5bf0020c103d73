//! `backlog-lab doctor`, and the same checks for a run.

use std::process::ExitCode;

use serde::Serialize;

use super::{here, print, print_json, raise_descriptor_limit, width};
use crate::arm::{Arm, Catalog};
use crate::cli::DoctorArgs;
use crate::doctor::{KernelSurface, OTHERS, Row, Verdict, examine, needs};
use crate::error::Error;
use crate::netns::{self, KernelSteps, Steps};
use crate::report::wrapped;

#[derive(Serialize)]
struct Report {
    works: bool,
    checks: Vec<Row>,
}

pub(super) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Error> {
    let catalog = Catalog::new(here());
    let arms = if args.arms.is_empty() {
        let mut all = Vec::new();
        for source in catalog.all()? {
            all.extend(source.arms(&[])?);
        }
        all
    } else {
        catalog.load(&args.arms, &[])?
    };
    let surface = enter();
    raise_descriptor_limit();
    let report = {
        let checks = examine(&surface, &needs(&arms), OTHERS);
        Report {
            works: checks.iter().all(Row::is_well),
            checks,
        }
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&table(&report, width()))?;
    }
    Ok(ExitCode::from(if report.works { 0 } else { 3 }))
}

/// Enters the user namespace, while there is only one thread.
fn enter() -> KernelSurface {
    KernelSurface {
        was_privileged: KernelSteps.has_sys_admin(),
        entered: netns::enter(&KernelSteps),
    }
}

/// Tries what these arms need and nothing else, and says at once what they will have to do without. The way into
/// namespaces has been found by then.
pub(super) fn before_run(arms: &[Arm]) {
    let surface = KernelSurface {
        was_privileged: true,
        entered: Ok(()),
    };
    for row in examine(&surface, &needs(arms), &[]) {
        if !row.is_well() {
            eprintln!(
                "this machine lacks what an arm needs: {}: {}",
                row.name, row.detail
            );
            for way in row.ways_out {
                eprintln!("  - {way}");
            }
        }
    }
}

/// A line for each check; a detail that has no room beside its verdict stands below, so that no path is broken.
fn table(report: &Report, width: usize) -> String {
    let names = report.checks.iter().map(|row| row.name.len());
    let widest = names.max().unwrap_or(0);
    let mut text = String::new();
    for row in &report.checks {
        let head = format!("{:widest$}  {:10}", row.name, row.verdict);
        let mut detail = row.detail.clone();
        if let Some(errno) = row.errno.as_ref().filter(|errno| !detail.contains(*errno)) {
            detail += &format!(" [{errno}]");
        }
        let line = format!("{head}  {detail}");
        text += &if line.chars().count() <= width {
            format!("{}\n", line.trim_end())
        } else {
            let detail = wrapped(&format!("    {detail}"), width, "  ");
            format!("{}\n{detail}", head.trim_end())
        };
        for way in &row.ways_out {
            text += &wrapped(&format!("    - {way}"), width, "  ");
        }
    }
    let failing = report
        .checks
        .iter()
        .filter(|row| row.verdict == Verdict::Fails);
    let sum = match failing.count() {
        0 => "Everything that the arms need works here.".to_owned(),
        n => format!("{n} of the checks fail; arms that do not need them run."),
    };
    format!("{text}\n{sum}\n")
}
