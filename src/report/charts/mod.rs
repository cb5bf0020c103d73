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
mod difference;
mod fates;
mod findings;
mod font;
mod frame;
mod heat;
mod ladders;
mod latency;
mod latency_data;
mod paint;
mod png;
mod remedies;
mod scale;
mod scene;
mod staircase;
mod story;
#[cfg(test)]
mod tests;
mod theme;

use super::composition::Composition;
use super::ladder::Story as StoryOfOne;
use crate::observation::Observation;
use crate::result::{Comparison, Results, Status};

pub(super) use scale::count;
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
#[derive(Debug, Clone, PartialEq, Eq)]
enum ChartId {
    Comparison,
    /// Of these steps, where a run has several groups of them.
    Staircase(Option<String>),
    Remedies,
    Matrix,
    Fates,
    Outcomes,
    QueueDepth,
    Latency,
    Counters,
    Difference,
    /// One client whose connection went like this.
    Ladder(StoryOfOne),
}

impl ChartId {
    fn file_stem(&self) -> String {
        match self {
            Self::Comparison => "comparison".into(),
            Self::Staircase(None) => "staircase".into(),
            Self::Staircase(Some(steps)) => format!("staircase-{}", steps.replace('/', "__")),
            Self::Remedies => "remedies".into(),
            Self::Matrix => "matrix".into(),
            Self::Fates => "fates".into(),
            Self::Outcomes => "outcomes".into(),
            Self::QueueDepth => "queue-depth".into(),
            Self::Latency => "latency".into(),
            Self::Counters => "counters".into(),
            Self::Difference => "difference".into(),
            Self::Ladder(story) => {
                format!(
                    "ladder-{}",
                    story.to_string().to_lowercase().replace(' ', "-")
                )
            }
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
    pub name: String,
    /// Whether it shows one client, and not the arms.
    pub is_ladder: bool,
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
) -> Vec<(String, Result<Chart, ChartError>)> {
    if !results.has(Status::Ok) {
        // A chart of nothing.
        return Vec::new();
    }
    figures(results, observations, options)
        .into_iter()
        .map(|figure| (figure.id.file_stem(), drawn(figure)))
        .collect()
}

/// The chart of a comparison.
///
/// # Errors
/// It could not be drawn.
pub fn difference(comparison: &Comparison, options: Options) -> Result<Chart, ChartError> {
    let Options { theme, size } = options;
    drawn(difference::chart(comparison, size, theme))
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
    figures.extend(staircase::charts(&story, results, size, theme));
    figures.extend(remedies::chart(&story, results, size, theme));
    let shown = &results.arms[..story.arms.len()];
    let composition = Composition::of(shown);
    figures.extend(composition.map(|one| fates::chart(&story, &one, size, theme)));
    figures.extend(heat::chart(&story, size, theme));
    figures.extend([
        bars::outcomes(&story, size, theme),
        depth,
        latency::chart(&story, size, theme),
        counters,
    ]);
    figures.extend(ladders::charts(&story, results, observations, options));
    figures
}

fn drawn(figure: Figure) -> Result<Chart, ChartError> {
    Ok(Chart {
        name: figure.id.file_stem(),
        is_ladder: matches!(figure.id, ChartId::Ladder(_)),
        png: paint::png(&figure.scene)?,
        svg: paint::svg(&figure.scene)?,
        title: figure.title,
        alt: figure.alt,
    })
}
