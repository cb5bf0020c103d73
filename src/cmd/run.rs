//! `backlog-lab run`.

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;

use super::progress::Watcher;
use super::{REPORTS, doctor, here, print_results, raise_descriptor_limit, report, signals};
use crate::arm::{Arm, Catalog, LinkKind};
use crate::cli::RunArgs;
use crate::error::Error;
use crate::load::Interrupt;
use crate::manifest::Manifest;
use crate::netns::{self, KernelSteps};
use crate::plan::{CAPTURE_MIB, Plan, Schedule};
use crate::probe::host::read_host;
use crate::run::{KernelLab, Lab, RunFolder, execute, random_seed};

pub(super) fn run(args: RunArgs) -> Result<ExitCode, Error> {
    let arms = Catalog::new(here()).load(&args.arms, &args.set)?;
    if let Some(arm) = arms.iter().find(|arm| arm.link.kind == LinkKind::Here)
        && !args.here
    {
        return Err(Error::Here(arm.name.clone()));
    }
    let (mut lab, interrupt) = ready(&arms)?;
    doctor::before_run(&arms);

    let seed = match args.seed {
        Some(seed) => seed,
        None => random_seed().map_err(Error::Seed)?,
    };
    let command = command(&args, seed);
    let most = if args.until.is_some() { MOST_UNTIL } else { 1 };
    let plan = Plan {
        capture_mib: args.capture,
        schedule: Schedule {
            jobs: args.jobs,
            warm_up: args.warm_up,
            until: args.until,
        },
        ..Plan::new(arms, args.trials.unwrap_or(most), seed, args.set)
    };
    let manifest = Manifest::new(command, read_host(), Timestamp::now(), plan);
    let (folder, manifest) = match &args.out {
        Some(path) => (RunFolder::create(path, &manifest)?, manifest),
        None => RunFolder::create_below(Path::new(REPORTS), manifest)?,
    };
    if args.out.is_none()
        && let Err(error) = folder.link_as_latest()
    {
        eprintln!("{error}; the run itself is in {}", folder.path().display());
    }

    lab.output = Some(folder.clone());
    let plan = &manifest.plan;
    let warm_ups = if plan.schedule.warm_up {
        plan.arms.len()
    } else {
        0
    };
    let mut watcher = Watcher::new(args.quiet, Some(plan.order().len() + warm_ups));
    let observations = execute(&manifest.plan, &lab, &folder, |event| watcher.on(&event))?;
    drop(watcher);

    let (results, charts) =
        report::write(&folder, &manifest, &observations, args.charts.options())?;
    print_results(&results, args.json)?;
    for line in crate::report::not_reached(&results) {
        eprintln!("{line}");
    }
    if !args.json {
        super::print(&format!(
            "\n{}\n",
            folder.path().join("README.md").display()
        ))?;
    }
    let code = interrupt
        .raised()
        .map_or(charts.exit_code(results.exit_code()), signals::exit_code);
    Ok(ExitCode::from(code))
}

/// The lab, with everything done that must be done before threads start.
pub(super) fn ready(arms: &[Arm]) -> Result<(KernelLab, Interrupt), Error> {
    let isolated = arms.iter().any(|arm| arm.link.kind != LinkKind::Here);
    if isolated {
        // From here on threads may start: the user namespace must be entered before.
        netns::enter(&KernelSteps)?;
    }
    let interrupt = signals::watch()?;
    raise_descriptor_limit();
    let lab = KernelLab {
        interrupt: interrupt.clone(),
        output: None,
    };
    if isolated {
        lab.ready()?;
    }
    Ok((lab, interrupt))
}

/// Trials of an arm whose figure does not become tight.
const MOST_UNTIL: u32 = 100;

/// The command that makes the same run again, into a folder of its own.
fn command(args: &RunArgs, seed: u64) -> Vec<String> {
    let mut words = vec!["backlog-lab".to_owned(), "run".to_owned()];
    words.extend(args.arms.iter().cloned());
    if let Some(trials) = args.trials {
        words.extend(["-n".to_owned(), trials.to_string()]);
    }
    if let Some(until) = &args.until {
        words.extend(["--until".to_owned(), until.to_string()]);
    }
    if args.warm_up {
        words.push("--warm-up".to_owned());
    }
    if args.here {
        words.push("--here".to_owned());
    }
    if args.jobs > 1 {
        words.extend(["-j".to_owned(), args.jobs.to_string()]);
    }
    for change in &args.set {
        words.extend(["--set".to_owned(), change.to_string()]);
    }
    if args.capture != CAPTURE_MIB {
        words.extend(["--capture".to_owned(), args.capture.to_string()]);
    }
    words.extend(["--seed".to_owned(), seed.to_string()]);
    words.extend(args.charts.words());
    words
}
