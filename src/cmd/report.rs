//! `backlog-lab report`: everything derived, made again from the stored observations.

use std::process::ExitCode;

use super::{Charts, print_results, stored};
use crate::cli::ReportArgs;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::observation::Observation;
use crate::report as render;
use crate::report::charts::{self, Chart};
use crate::result::{Results, results};
use crate::run::RunFolder;

pub(super) fn report(args: &ReportArgs) -> Result<ExitCode, Error> {
    let (folder, manifest, observations) = stored(&args.run)?;
    let (results, charts) = write(&folder, &manifest, &observations, args.charts.options())?;
    print_results(&results, args.json)?;
    Ok(ExitCode::from(charts.exit_code(results.exit_code())))
}

/// Derives the results and writes every derived file. Charts come last: one that fails costs no data, and the
/// README shows those that were made.
pub(super) fn write(
    folder: &RunFolder,
    manifest: &Manifest,
    observations: &[Observation],
    options: Option<charts::Options>,
) -> Result<(Results, Charts), Error> {
    let mut observations = observations.to_vec();
    let position = |arm: &str| manifest.plan.arms.iter().position(|one| one.name == arm);
    observations.sort_by_key(|one| (position(&one.arm), one.index));
    let mut results = results(manifest, &observations);
    render::sort_by_load(&mut results);
    for (name, bytes) in render::files(manifest, &observations, &results) {
        folder.write(&name, &bytes)?;
    }
    let (drawn, outcome) = draw(folder, &results, &observations, options);
    if !drawn.is_empty() {
        let (name, bytes) = render::readme(manifest, &observations, &results, &drawn);
        folder.write(&name, &bytes)?;
    }
    Ok((results, outcome))
}

/// Draws and writes the charts. Says which could not be made.
fn draw(
    folder: &RunFolder,
    results: &Results,
    observations: &[Observation],
    options: Option<charts::Options>,
) -> (Vec<Chart>, Charts) {
    let (mut drawn, mut outcome) = (Vec::new(), Charts::AsWanted);
    let wanted = options.map(|options| charts::charts(results, observations, options));
    for (name, chart) in wanted.into_iter().flatten() {
        let written = chart.map_err(|error| error.to_string()).and_then(|chart| {
            let files = [("png", &chart.png), ("svg", &chart.svg)];
            files
                .into_iter()
                .try_for_each(|(extension, bytes)| {
                    folder.write(&format!("charts/{name}.{extension}"), bytes)
                })
                .map_err(|error| error.to_string())?;
            Ok(chart)
        });
        match written {
            Ok(chart) => drawn.push(chart),
            Err(problem) => {
                eprintln!("backlog-lab: no chart {name}: {problem}");
                outcome = Charts::Missing;
            }
        }
    }
    (drawn, outcome)
}
