//! Charts of a run as PNG and SVG.
//!
//! Observations and results become a `Story`, each chart lays it out as a `Scene` of marks and
//! texts, and only `paint` knows of file formats. Text comes from the typeface in assets/fonts, so the same
//! observations give the same bytes on every machine, also on one without any font.

mod bars;
mod comparison;
mod counters;
mod depth;
mod depth_data;
mod findings;
mod font;
mod frame;
mod heat;
mod latency;
mod latency_data;
mod matrix;
mod paint;
mod png;
mod scale;
mod scene;
mod story;
#[cfg(test)]
mod tests;
mod theme;

use crate::observation::Observation;
use crate::result::{Results, Status};

pub use scene::Size;
pub use theme::Theme;

/// How charts are drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Light or dark.
    pub theme: Theme,
    /// The size of the PNG, and of the SVG as long as nobody scales it.
    pub size: Size,
}

/// A chart that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// The embedded typeface.
    #[error("{0}")]
    Font(String),
    /// The drawing library or the encoder.
    #[error("cannot draw: {0}")]
    Drawing(String),
}

/// Which chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChartId {
    Comparison,
    Matrix,
    Outcomes,
    QueueDepth,
    Latency,
    Counters,
}

impl ChartId {
    const fn file_stem(self) -> &'static str {
        match self {
            Self::Comparison => "comparison",
            Self::Matrix => "matrix",
            Self::Outcomes => "outcomes",
            Self::QueueDepth => "queue-depth",
            Self::Latency => "latency",
            Self::Counters => "counters",
        }
    }
}

/// A chart, laid out and not yet drawn.
struct Figure {
    id: ChartId,
    title: String,
    alt: String,
    scene: scene::Scene,
}

/// A chart that is ready to be written.
#[derive(Debug)]
pub struct Chart {
    /// The name of its files below `charts/`, without the extension.
    pub name: &'static str,
    /// What it shows, in a sentence.
    pub title: String,
    /// The same for those who cannot see it, with every arm's numbers.
    pub alt: String,
    /// The picture with pixels.
    pub png: Vec<u8>,
    /// The picture with shapes; its texts are texts.
    pub svg: Vec<u8>,
}

/// Every chart of a run, the comparison first; none where no trial is valid. One that cannot be made does not keep the others from being made.
pub fn charts(
    results: &Results,
    observations: &[Observation],
    options: Options,
) -> Vec<(&'static str, Result<Chart, ChartError>)> {
    if !results.has(Status::Ok) {
        // A chart of nothing.
        return Vec::new();
    }
    figures(results, observations, options)
        .into_iter()
        .map(|figure| (figure.id.file_stem(), drawn(figure)))
        .collect()
}

fn figures(results: &Results, observations: &[Observation], options: Options) -> Vec<Figure> {
    let story = story::Story::of(results, observations);
    let Options { theme, size } = options;
    let (depth, counters) = (
        depth::chart(&story, size, theme),
        counters::chart(&story, size, theme),
    );
    let mut trials = results.arms.iter().flat_map(|arm| &arm.trials);
    if trials.all(|trial| trial.attempts.is_none()) {
        // Load tools keep no record of their attempts: charts of these would show nothing.
        return vec![depth, counters];
    }
    let mut figures = vec![comparison::chart(&story, size, theme)];
    figures.extend(heat::chart(&story, size, theme));
    figures.extend([
        bars::outcomes(&story, size, theme),
        depth,
        latency::chart(&story, size, theme),
        counters,
    ]);
    figures
}

fn drawn(figure: Figure) -> Result<Chart, ChartError> {
    Ok(Chart {
        name: figure.id.file_stem(),
        png: paint::png(&figure.scene)?,
        svg: paint::svg(&figure.scene)?,
        title: figure.title,
        alt: figure.alt,
    })
}
