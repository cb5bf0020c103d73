//! Results as people and programs read them. Pure: results in, bytes out; nothing here opens a file.

mod attempts;
mod audit;
mod books;
pub mod charts;
mod claims;
mod composition;
mod conclusions;
mod diff;
mod glossary;
pub mod ladder;
mod markdown;
mod matrix;
mod prometheus;
mod remedies;
mod requests;
mod samples;
mod staircase;
mod table;
mod tools;
mod verdicts;
mod wrap;

use charts::Chart;

use crate::manifest::Manifest;
use crate::observation::Observation;
use crate::plan::Plan;
use crate::result::Results;

pub use audit::{Emphasis, Line, audit};
pub use books::{why_not_judged, why_overflows};
pub use claims::{claims, claims_markdown};
pub use diff::{diff, diff_markdown};
pub use glossary::{Word, glossary};
pub use prometheus::prometheus;
pub use remedies::queues;
pub use staircase::{sort_by_load, staircases};
pub use table::comparison;
pub use verdicts::{not_reached, verdicts};
pub use wrap::wrapped;

/// A derived file of a run folder: its name and its bytes.
pub type File = (String, Vec<u8>);

/// Every derived file of a run. The same observations give the same bytes.
pub fn files(manifest: &Manifest, observations: &[Observation], results: &Results) -> Vec<File> {
    let mut files = vec![
        ("results.json".into(), json(results).into_bytes()),
        ("data/attempts.csv".into(), attempts::csv(observations)),
        ("data/samples.csv".into(), samples::csv(observations)),
        readme(manifest, observations, results, &[]),
    ];
    let requests = requests::csv(observations);
    files.extend(requests.map(|rows| ("data/requests.csv".into(), rows)));
    files.extend(observations.iter().flat_map(outputs));
    files
}

/// What a load tool wrote, as files of their own.
fn outputs(observation: &Observation) -> impl Iterator<Item = File> {
    let tool = observation.measured.iter().flat_map(|one| &one.tool);
    let streams = tool.flat_map(|tool| [("stdout", &tool.stdout), ("stderr", &tool.stderr)]);
    let stem = Plan::file_stem(&observation.arm, observation.index);
    streams
        .filter(|(_, text)| !text.is_empty())
        .map(move |(stream, text)| {
            let name = format!("output/{stem}.client.{stream}.txt");
            (name, text.clone().into_bytes())
        })
}

/// The run's README, with these charts.
pub fn readme(
    manifest: &Manifest,
    observations: &[Observation],
    results: &Results,
    charts: &[Chart],
) -> File {
    (
        "README.md".into(),
        markdown::readme(manifest, observations, results, charts).into_bytes(),
    )
}

/// The results document.
pub fn json(results: &Results) -> String {
    // Serialising plain structs and maps with string keys cannot fail.
    let mut text = serde_json::to_string_pretty(results).unwrap_or_default();
    text.push('\n');
    text
}
