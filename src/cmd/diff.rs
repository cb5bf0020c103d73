//! `backlog-lab diff`.

use std::path::Path;
use std::process::ExitCode;

use super::{REPORTS, print, print_json};
use crate::cli::DiffArgs;
use crate::error::Error;
use crate::report as render;
use crate::result::{Results, compare, results};
use crate::run::{RunFolder, find_run};

pub(super) fn diff(args: &DiffArgs) -> Result<ExitCode, Error> {
    let comparison = compare(&load(&args.before)?, &load(&args.after)?);
    if !comparison.different_setup.is_empty() && !args.allow_different_setup {
        return Err(Error::DifferentSetup(comparison.different_setup));
    }
    if args.json {
        print_json(&comparison)?;
    } else if args.markdown {
        print(&render::diff_markdown(&comparison))?;
    } else {
        print(&render::diff(&comparison))?;
    }
    for (arm, figure) in comparison.regressions() {
        eprintln!("worse: {arm}: {}", figure.figure);
    }
    let not_judged: Vec<&str> = comparison.not_judged().collect();
    Ok(ExitCode::from(if !args.fail_on_regression {
        0
    } else if !not_judged.is_empty() || comparison.arms.is_empty() {
        eprintln!(
            "no regression can be ruled out: too few valid trials of {}",
            not_judged.join(", ")
        );
        4
    } else {
        u8::from(comparison.regressions().next().is_some())
    }))
}

/// A run's results, derived anew from its observations.
fn load(name: &str) -> Result<Results, Error> {
    let path = find_run(Path::new(REPORTS), name)?;
    let (folder, manifest) = RunFolder::open(&path)?;
    let observations = folder.observations(&manifest.plan)?;
    Ok(results(&manifest, &observations))
}
