//! `backlog-lab report`: everything derived, made again from the stored observations.

use std::path::Path;
use std::process::ExitCode;

use super::{REPORTS, print_results};
use crate::cli::ReportArgs;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::observation::Observation;
use crate::report as render;
use crate::result::{Results, results};
use crate::run::{RunFolder, find_run};

pub(super) fn report(args: &ReportArgs) -> Result<ExitCode, Error> {
    let path = find_run(Path::new(REPORTS), &args.run)?;
    let (folder, manifest) = RunFolder::open(&path)?;
    let observations = folder.observations(&manifest.plan)?;
    let results = write(&folder, &manifest, &observations)?;
    print_results(&results, args.json)?;
    Ok(ExitCode::from(results.exit_code()))
}

/// Derives the results and writes every derived file.
pub(super) fn write(
    folder: &RunFolder,
    manifest: &Manifest,
    observations: &[Observation],
) -> Result<Results, Error> {
    let mut observations = observations.to_vec();
    let position = |arm: &str| manifest.plan.arms.iter().position(|one| one.name == arm);
    observations.sort_by_key(|one| (position(&one.arm), one.index));
    let results = results(manifest, &observations);
    for (name, bytes) in render::files(manifest, &observations, &results) {
        folder.write(&name, &bytes)?;
    }
    Ok(results)
}
