//! `backlog-lab run`.

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;

use super::progress::Watcher;
use super::{REPORTS, exit_code, here, print_results, report};
use crate::arm::Catalog;
use crate::cli::RunArgs;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::netns::{self, KernelSteps};
use crate::plan::Plan;
use crate::probe::host::read_host;
use crate::run::{KernelLab, Lab, RunFolder, default_folder, execute, random_seed};

pub(super) fn run(args: RunArgs) -> Result<ExitCode, Error> {
    let arms = Catalog::new(here()).load(&args.arms, &args.set)?;
    // From here on threads may start: the user namespace must be entered before.
    netns::enter(&KernelSteps)?;
    KernelLab.ready()?;

    let seed = match args.seed {
        Some(seed) => seed,
        None => random_seed().map_err(Error::Seed)?,
    };
    let plan = Plan::new(arms, args.trials, seed, args.set);
    let command = command_again(seed, args.seed.is_some());
    let manifest = Manifest::new(command, read_host(), Timestamp::now(), plan);
    let path = match args.out {
        Some(path) => path,
        None => default_folder(Path::new(REPORTS), &manifest.run_id)?,
    };
    let folder = RunFolder::create(&path, &manifest)?;

    let mut watcher = Watcher::new(args.quiet, manifest.plan.order().len());
    let observations = execute(&manifest.plan, &KernelLab, &folder, |event| {
        watcher.on(&event);
    })?;
    drop(watcher);

    let results = report::write(&folder, &manifest, &observations)?;
    print_results(&results, args.json)?;
    if !args.json {
        super::print(&format!(
            "\n{}\n",
            folder.path().join("README.md").display()
        ))?;
    }
    Ok(exit_code(&results))
}

/// The command that makes the same run again: this one, with its seed.
fn command_again(seed: u64, seed_given: bool) -> Vec<String> {
    let mut words = vec!["backlog-lab".to_owned()];
    words.extend(std::env::args().skip(1));
    if !seed_given {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    words
}
