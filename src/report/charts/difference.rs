//! The chart of a comparison: both runs' means with their intervals, a row for each figure, real differences marked.

use super::font;
use super::frame::{self, BODY, SMALL, Swatch};
use super::scale;
use super::scene::{Area, Scene, Size, Text};
use super::story::labels;
use super::theme::{Rgb, Theme};
use super::{ChartId, Figure};
use crate::report::diff;
use crate::result::{ArmComparison, Comparison, FigureComparison, Outcome, Summary};

/// A row of the chart. An arm of which nothing is known has one without a figure.
struct Row<'a> {
    /// The arm's label, at the first of its rows.
    label: Option<&'a str>,
    figure: Option<&'a FigureComparison>,
}

/// No row is lower than this.
const LEAST: f64 = 32.0;
/// A label is made smaller before it is cut.
const SMALLEST: f64 = 15.0;
/// The height of the column heads.
const HEAD: f64 = 34.0;
/// The height of the line of notes.
const NOTES: f64 = 40.0;

/// The chart of a comparison.
pub(super) fn chart(comparison: &Comparison, size: Size, theme: Theme) -> Figure {
    let title = finding(comparison);
    let footer = format!(
        "{} before, {} after; {}",
        comparison.before, comparison.after, comparison.method
    );
    let subtitle = "means and 95 % intervals; every row has a scale of its own, from zero";
    let (mut scene, content) = frame::frame(&footer, &title, subtitle, size, theme);
    let palette = scene.palette();
    let (before, after) = (palette.queue, theme.outcome(Outcome::Ok));
    let entry = |colour, words: &str| (Swatch::Filled(colour), words.to_owned());
    let legend = [
        entry(before, "before"),
        entry(after, "after"),
        entry(palette.grid, "a real difference"),
    ];
    let content = frame::legend(&mut scene, content, &legend);
    let notes = notes(comparison);
    let body = Area {
        top: content.top + HEAD,
        bottom: content.bottom - if notes.is_empty() { 0.0 } else { NOTES },
        ..content
    };
    let names: Vec<&str> = comparison.arms.iter().map(|arm| &*arm.name).collect();
    let labels = labels(&names, None).1;
    let (rows, hidden) = chosen(comparison, &labels, room_for(body));
    let columns = Columns::of(&rows, body);
    columns.heads(&mut scene, body.top);
    for (row, area) in rows.iter().zip(frame::rows(body, rows.len(), 64.0)) {
        if let Some(label) = row.label {
            scene.horizontal(area.top, body.left, body.right, 1.0, palette.grid);
            let label = Text::new(label, body.left, area.middle(), BODY, palette.ink).bold();
            let size = label.clone().shrunk(columns.label - 8.0).size.max(SMALLEST);
            let label = Text { size, ..label }.within(columns.label);
            scene.text(label.centred());
        }
        if let Some(figure) = row.figure {
            columns.draw(&mut scene, figure, area, [before, after]);
        } else {
            let text = "nothing is known of it";
            let text = Text::new(text, columns.figure, area.middle(), SMALL, palette.muted);
            scene.text(text.centred());
        }
    }
    let mut told = notes;
    if hidden > 0 {
        told.insert(0, format!("{hidden} figures more stand in the table"));
    }
    let told = font::listed(&told, SMALL, false, content.width());
    scene.text(Text::new(
        told,
        content.left,
        content.bottom - 8.0,
        SMALL,
        palette.muted,
    ));
    let alt = in_words(comparison);
    Figure {
        id: ChartId::Difference,
        title,
        alt,
        scene,
    }
}

/// How many rows an area has room for.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a canvas has room for some hundred rows at most"
)]
fn room_for(body: Area) -> usize {
    ((body.height() / LEAST).floor() as usize).max(1)
}

/// What the comparison found, in a sentence.
fn finding(comparison: &Comparison) -> String {
    let all: Vec<(&str, &FigureComparison)> = comparison
        .arms
        .iter()
        .flat_map(|arm| arm.figures.iter().map(|figure| (&*arm.name, figure)))
        .collect();
    let judged = all.iter().filter(|(_, one)| one.real.is_some()).count();
    let mut real: Vec<_> = all
        .into_iter()
        .filter(|(_, one)| one.real == Some(true))
        .collect();
    // What is worse first, answers before all else, then what is least likely chance.
    real.sort_by(|(_, a), (_, b)| {
        let rank = |one: &FigureComparison| (one.worse != Some(true), one.figure != "ok");
        let p = |one: &FigureComparison| one.p.unwrap_or(1.0);
        rank(a).cmp(&rank(b)).then(p(a).total_cmp(&p(b)))
    });
    let means = real.first().and_then(|(arm, one)| {
        let (before, after) = (one.before?.mean, one.after?.mean);
        Some((*arm, one.figure, before, after))
    });
    let n = real.len();
    match means {
        _ if judged == 0 => "Too few valid trials to tell a difference from chance".into(),
        None => format!("No real difference in {}", figures(judged)),
        Some((arm, figure, before, after)) => format!(
            "{arm}: {figure} {} from {} to {}; {} of {} really {}",
            if after > before { "rose" } else { "fell" },
            scale::count(before),
            scale::count(after),
            n,
            figures(judged),
            if n == 1 { "differs" } else { "differ" },
        ),
    }
}

fn figures(n: usize) -> String {
    format!("{n} figure{}", if n == 1 { "" } else { "s" })
}

/// What must be known of the arms' trials.
fn notes(comparison: &Comparison) -> Vec<String> {
    let arms = comparison.arms.iter();
    let of_arms = arms.flat_map(|arm| {
        arm.notes
            .iter()
            .map(move |note| format!("{}: {note}", arm.name))
    });
    let setup = &comparison.different_setup;
    let setup = (!setup.is_empty()).then(|| match setup.len() {
        1 => "the setups differ in one point".to_owned(),
        n => format!("the setups differ in {n} points"),
    });
    setup.into_iter().chain(of_arms).collect()
}

/// The rows that have room, and how many figures have none. Every arm has one as long as there is room, those with a
/// real difference before the others; then the real differences, then the other figures in the table's order.
fn chosen<'a>(
    comparison: &'a Comparison,
    labels: &'a [String],
    most: usize,
) -> (Vec<Row<'a>>, usize) {
    let is_real = |one: &&FigureComparison| one.real == Some(true);
    let ordered = |arm: &'a ArmComparison| -> Vec<&'a FigureComparison> {
        let real = arm.figures.iter().filter(is_real);
        real.chain(arm.figures.iter().filter(|one| !is_real(one)))
            .collect()
    };
    let arms: Vec<Vec<&FigureComparison>> = comparison.arms.iter().map(ordered).collect();
    let mut taken = vec![0; arms.len()];
    let mut left = most;
    let differs = |n: &usize| arms[*n].first().is_some_and(is_real);
    let (first, then): (Vec<usize>, Vec<usize>) = (0..arms.len()).partition(differs);
    for n in first.into_iter().chain(then).take(most) {
        taken[n] = 1;
        left -= 1;
    }
    for real in [true, false] {
        let wants = |n: &usize, taken: &[usize]| {
            let next = arms[*n].get(taken[*n]).filter(|_| taken[*n] > 0);
            next.is_some_and(|one| !real || is_real(one))
        };
        // In turn, so that no arm takes the room of another.
        while let Some(n) = (0..arms.len())
            .filter(|n| left > 0 && wants(n, &taken))
            .min_by_key(|n| taken[*n])
        {
            taken[n] += 1;
            left -= 1;
        }
    }
    let shown: usize = taken.iter().sum();
    let hidden = arms.iter().map(|arm| arm.len().max(1)).sum::<usize>() - shown;
    let rows = arms
        .into_iter()
        .zip(labels)
        .zip(taken)
        .flat_map(|((figures, label), taken)| {
            (0..taken).map(move |n| Row {
                label: (n == 0).then_some(label.as_str()),
                figure: figures.get(n).copied(),
            })
        });
    (rows.collect(), hidden)
}

/// Where the columns begin and how wide they are.
struct Columns {
    /// The width of the labels.
    label: f64,
    /// The left end of the figures' names.
    figure: f64,
    /// The plot.
    plot: (f64, f64),
    /// The right ends of both runs' numbers.
    numbers: [f64; 2],
    /// The left end of the verdicts.
    verdict: f64,
}

/// The least width of the plot.
const PLOT: f64 = 180.0;
const NUMBER: f64 = 160.0;
const VERDICT: f64 = 190.0;
const GAP: f64 = 24.0;

impl Columns {
    fn of(rows: &[Row<'_>], body: Area) -> Self {
        let widest = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
        let names = rows.iter().filter_map(|row| row.figure);
        let name = widest(&mut names.map(|one| font::width(one.figure, SMALL, false)));
        let name = name.min(body.width() * 0.2);
        let labels = rows.iter().filter_map(|row| row.label);
        let label = widest(&mut labels.map(|one| font::width(one, BODY, true)));
        let others = name + PLOT + 2.0 * NUMBER + VERDICT + 5.0 * GAP;
        let label = label.min(body.width() - others);
        let figure = body.left + label + GAP;
        let verdict = body.right - VERDICT;
        let numbers = [verdict - GAP - NUMBER, verdict - GAP];
        Self {
            label,
            figure,
            plot: (figure + name + GAP, numbers[0] - NUMBER - GAP),
            numbers,
            verdict,
        }
    }

    fn heads(&self, scene: &mut Scene, bottom: f64) {
        let muted = scene.palette().muted;
        for (words, right) in ["before", "after"].into_iter().zip(self.numbers) {
            scene.text(Text::new(words, right, bottom - 12.0, SMALL, muted).end());
        }
        scene.text(Text::new(
            "difference",
            self.verdict,
            bottom - 12.0,
            SMALL,
            muted,
        ));
    }

    fn draw(&self, scene: &mut Scene, figure: &FigureComparison, row: Area, colours: [Rgb; 2]) {
        let palette = scene.palette();
        let is_real = figure.real == Some(true);
        if is_real {
            let left = self.figure - GAP / 2.0;
            scene.fill(
                Area {
                    left,
                    top: row.top + 1.0,
                    ..row
                },
                palette.grid,
            );
        }
        let ink = if is_real { palette.ink } else { palette.muted };
        let styled = |text: Text| if is_real { text.bold() } else { text };
        let name = Text::new(figure.figure, self.figure, row.middle(), SMALL, ink);
        scene.text(name.shrunk(self.plot.0 - GAP / 2.0 - self.figure).centred());
        let sides = [figure.before, figure.after];
        let most = sides
            .iter()
            .flatten()
            .map(|one| one.ci95_high.unwrap_or(one.mean));
        let most = most.fold(0.0, f64::max);
        scene.vertical(
            self.plot.0,
            row.top + 4.0,
            row.bottom - 4.0,
            1.0,
            palette.muted,
        );
        let apart = (row.height() * 0.21).min(12.0);
        for (((side, told), colour), (y, right)) in sides
            .into_iter()
            .zip(in_numbers(figure))
            .zip(colours)
            .zip([-apart, apart].into_iter().zip(self.numbers))
        {
            let number = Text::new(told, right, row.middle(), SMALL, ink).end();
            scene.text(styled(number).shrunk(NUMBER - 8.0).centred());
            if let Some(side) = side {
                self.whisker(scene, side, most, row.middle() + y, colour);
            }
        }
        let verdict = Text::new(figure.in_a_word(), self.verdict, row.middle(), SMALL, ink);
        scene.text(styled(verdict).shrunk(VERDICT - 8.0).centred());
    }

    /// A mean, and its interval where there is one.
    fn whisker(&self, scene: &mut Scene, side: Summary, most: f64, y: f64, colour: Rgb) {
        let (left, right) = self.plot;
        let at = |value: f64| {
            left + (right - left) * (value.max(0.0) / most.max(f64::MIN_POSITIVE)).min(1.0)
        };
        if let Some((low, high)) = side.ci95_low.zip(side.ci95_high) {
            let (low, high) = (at(low), at(high));
            scene.horizontal(y, low, high.max(low + 1.0), 2.0, colour);
            for end in [low, high] {
                scene.vertical(end, y - 4.0, y + 4.0, 2.0, colour);
            }
        }
        let x = at(side.mean);
        scene.fill(Area::new(x - 5.0, y - 5.0, x + 5.0, y + 5.0), colour);
    }
}

/// Both means, or that one is unknown.
fn in_numbers(figure: &FigureComparison) -> [String; 2] {
    diff::in_numbers(figure).map(|side| side.unwrap_or_else(|| "unknown".into()))
}

/// Every figure of every arm, for those who cannot see the chart.
fn in_words(comparison: &Comparison) -> String {
    let arms = comparison.arms.iter().map(|arm| {
        let figures = arm.figures.iter().map(|one| {
            let [before, after] = in_numbers(one);
            format!("{} {before} and {after}, {}", one.figure, one.in_a_word())
        });
        format!("{}: {}", arm.name, figures.collect::<Vec<_>>().join(", "))
    });
    format!(
        "Means of two runs with their intervals. {}",
        arms.collect::<Vec<_>>().join("; ")
    )
}
