//! `backlog-lab facts`: the arms under `arms/facts`, held against this kernel.

use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;

use super::progress::Watcher;
use super::{print, print_json, run, signals, width};
use crate::arm::{Arm, Catalog, LinkKind};
use crate::cli::FactsArgs;
use crate::error::Error;
use crate::manifest::{Host, Manifest};
use crate::plan::{Plan, Schedule};
use crate::probe::host::read_host;
use crate::report::wrapped;
use crate::result::{ArmResult, Judged, Results, results};
use crate::run::observe;

#[derive(Serialize)]
struct Report<'a> {
    host: &'a Host,
    facts: Vec<Fact<'a>>,
}

/// A fact on one kind of link.
#[derive(Serialize)]
struct Fact<'a> {
    arm: &'a str,
    title: &'a str,
    why: &'a str,
    /// The kernels for which it is known to hold; `null` means all.
    kernels: Option<String>,
    /// Whether it holds here; `null` when it was not judged or not measured.
    holds: Option<bool>,
    /// Why it was not judged or not measured.
    reason: Option<&'a str>,
    expectations: &'a [Judged],
}

pub(super) fn facts(args: &FactsArgs) -> Result<ExitCode, Error> {
    // The facts are those of this program, whatever lies in the current folder.
    let mut arms = Catalog::shipped().load(&["facts".to_owned()], &[])?;
    if args.here {
        arms = arms.into_iter().filter_map(here).collect();
    }
    let (results, code) = measure(arms, args.jobs)?;
    let report = Report {
        host: &results.host,
        facts: results.arms.iter().map(Fact::of).collect(),
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&wrapped(&report.text(), width(), "  "))?;
    }
    Ok(code)
}

/// One trial of each arm, of which nothing is stored, and the exit code that the results deserve.
pub(super) fn measure(arms: Vec<Arm>, jobs: u32) -> Result<(Results, ExitCode), Error> {
    let (lab, interrupt) = run::ready(&arms)?;
    let plan = Plan {
        capture_mib: 0,
        schedule: Schedule {
            jobs,
            ..Schedule::default()
        },
        ..Plan::new(arms, 1, 0, Vec::new())
    };
    let mut watcher = Watcher::new(false, Some(plan.order().len()));
    let observations = observe(&plan, &lab, |event| watcher.on(&event))?;
    drop(watcher);
    let manifest = Manifest::new(Vec::new(), read_host(), Timestamp::now(), plan);
    let results = results(&manifest, &observations);
    let code = interrupt
        .raised()
        .map_or(results.exit_code(), signals::exit_code);
    Ok((results, ExitCode::from(code)))
}

/// The arm in no namespace of its own; a second link would be the same one.
fn here(mut arm: Arm) -> Option<Arm> {
    let is_first = arm.link.kind == LinkKind::Loopback;
    arm.link.kind = LinkKind::Here;
    arm.name = arm.name.replace("link=loopback", "link=here");
    is_first.then_some(arm)
}

impl<'a> Fact<'a> {
    fn of(arm: &'a ArmResult) -> Self {
        let reason = arm.trials.first().and_then(|one| one.reason.as_deref());
        Self {
            arm: &arm.name,
            title: &arm.title,
            why: &arm.settings.why,
            kernels: arm.settings.expect.kernel.as_ref().map(ToString::to_string),
            holds: arm.verdict.met,
            reason: reason.or(arm.verdict.not_judged.as_deref()),
            expectations: &arm.verdict.expectations,
        }
    }

    /// The link, or whatever else tells this cell from the others of its fact.
    fn cell(&self) -> &str {
        self.arm.rsplit_once("link=").map_or("", |(_, link)| link)
    }
}

impl Report<'_> {
    /// A fact, then an expectation per line; where the links agree, as one.
    fn text(&self) -> String {
        let kernel = self.host.kernel.as_deref().unwrap_or("unknown");
        let mut text = format!("Linux {kernel}\n");
        for cells in self.facts.chunk_by(|a, b| a.title == b.title) {
            let kernels = match &cells[0].kernels {
                Some(range) => format!("kernels {range}"),
                None => "all kernels".to_owned(),
            };
            let links: Vec<&str> = cells.iter().map(Fact::cell).collect();
            text += &format!("\n{}\n  {kernels}; {}\n", cells[0].title, links.join(", "));
            for cell in cells {
                if let Some(reason) = cell.reason {
                    text += &format!("  {}: not judged: {reason}\n", cell.cell());
                }
            }
            for (n, first) in cells[0].expectations.iter().enumerate() {
                let judged: Vec<&Judged> = cells
                    .iter()
                    .filter_map(|cell| cell.expectations.get(n))
                    .collect();
                let shown = |one: &Judged| {
                    one.observed
                        .map_or_else(|| "unknown".to_owned(), |value| value.to_string())
                };
                let mut observed: Vec<String> = judged.iter().map(|one| shown(one)).collect();
                observed.dedup();
                let verdict = if judged.iter().any(|one| one.met == Some(false)) {
                    "DIFFERS"
                } else if judged.iter().all(|one| one.met == Some(true)) {
                    "holds"
                } else {
                    "not judged"
                };
                text += &format!(
                    "  {:<28} expected {:<8} observed {:<12} {verdict}\n",
                    first.key,
                    first.expected.to_string(),
                    observed.join(", ")
                );
            }
        }
        let holding = self.facts.iter().filter(|fact| fact.holds == Some(true));
        text += &format!("\n{} of {} hold here.\n", holding.count(), self.facts.len());
        text
    }
}
