//! `backlog-lab doctor`, and the same checks for a run.

use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use super::{here, print, print_json, raise_descriptor_limit, width};
use crate::arm::{Arm, Catalog};
use crate::cli::DoctorArgs;
use crate::doctor::{KernelSurface, OTHERS, Row, Verdict, examine, needs};
use crate::error::Error;
use crate::netns::{self, KernelSteps, Steps};

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

fn table(report: &Report, width: usize) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX));
    for row in &report.checks {
        let mut detail = row.detail.clone();
        if let Some(errno) = row.errno.as_ref().filter(|errno| !detail.contains(*errno)) {
            detail += &format!(" [{errno}]");
        }
        for way in &row.ways_out {
            detail += &format!("\n- {way}");
        }
        table.add_row([row.name.clone(), row.verdict.to_string(), detail]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let failing = report
        .checks
        .iter()
        .filter(|row| row.verdict == Verdict::Fails);
    let sum = match failing.count() {
        0 => "Everything that the arms need works here.".to_owned(),
        n => format!("{n} of the checks fail; arms that do not need them run."),
    };
    format!("{}\n\n{sum}\n", lines.join("\n"))
}
