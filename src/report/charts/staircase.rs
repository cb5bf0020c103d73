//! The staircase: throughput, latency, failures, overflows and processor time from step to step of the load.

use super::frame::{self, SMALL, Swatch};
use super::scale;
use super::scene::{Area, Scene, Size, Text};
use super::story::Story;
use super::theme::{Rgb, Theme};
use super::{ChartId, Figure};
use crate::arm::LoadKind;
use crate::report::staircase::{holds_for_a_while, in_a_line, sentences, surely_holds};
use crate::result::{ArmResult, Held, Outcome, Results, Staircase, Step, median};

/// A line through all steps: its colour, whether it is dashed, and its value at each of them.
struct Line {
    colour: Rgb,
    dashed: bool,
    values: Vec<Option<f64>>,
}

/// Bars of a step, beside each other; each of parts on top of each other.
type Bars = Vec<Vec<(f64, Rgb)>>;

/// A panel: what it shows, how a value is written, and the marks.
struct Panel {
    title: [&'static str; 2],
    told: fn(f64) -> String,
    /// The axis reaches at least to here.
    least_top: f64,
    lines: Vec<Line>,
    bars: Vec<Bars>,
}

impl Panel {
    fn top(&self) -> f64 {
        let lines = self.lines.iter().flat_map(|line| &line.values).flatten();
        let bars = self.bars.iter().flatten();
        let bars = bars.map(|parts| parts.iter().map(|(n, _)| n).sum::<f64>());
        let most = lines.copied().chain(bars).fold(self.least_top, f64::max);
        most.max(1e-9) * 1.3
    }
}

/// A chart for each staircase of a run, named by its steps where there are several.
pub(super) fn charts(
    story: &Story<'_>,
    results: &Results,
    size: Size,
    theme: Theme,
) -> Vec<Figure> {
    let all = &results.staircases;
    let name = |one: &Staircase| {
        let same = |other: &&Staircase| other.name == one.name;
        match all.iter().filter(same).count() {
            1 => one.name.clone(),
            _ => format!("{}-by-{}", one.name, one.by),
        }
    };
    let figures = all.iter().map(|one| {
        let id = ChartId::Staircase((all.len() > 1).then(|| name(one)));
        chart(id, story, one, results, (size, theme))
    });
    figures.collect()
}

fn chart(
    id: ChartId,
    story: &Story<'_>,
    staircase: &Staircase,
    results: &Results,
    (size, theme): (Size, Theme),
) -> Figure {
    const LABELS: f64 = 226.0;
    const AXIS: f64 = 58.0;
    const BETWEEN: f64 = 14.0;
    let title = title(staircase);
    let told = sentences(staircase);
    let subtitle = in_a_line(staircase);
    let (mut scene, content) = frame::frame(&story.setting, &title, &subtitle, size, theme);
    let content = frame::legend(&mut scene, content, &legend(theme, staircase));
    let panels = panels(staircase, results, theme);
    let body = Area {
        left: content.left + LABELS,
        bottom: content.bottom - AXIS,
        ..content
    };
    #[expect(clippy::cast_precision_loss, reason = "a handful of panels")]
    let height = (body.height() - BETWEEN * (panels.len() - 1) as f64) / panels.len() as f64;
    let columns = columns(body, staircase.steps.len());
    for (step, column) in staircase.steps.iter().zip(&columns) {
        let palette = scene.palette();
        if matches!(step.held, Held::Breaks | Held::ClientLimited) {
            let lost = theme.outcome(Outcome::ConnectTimeout);
            scene.fill(*column, palette.paper.mixed(lost, 0.08));
        }
    }
    let mut top = body.top;
    for panel in &panels {
        let area = Area {
            top,
            bottom: top + height,
            ..body
        };
        draw(&mut scene, panel, area, &columns, content.left);
        top += height + BETWEEN;
    }
    axis(&mut scene, staircase, &columns, body.bottom, content.left);
    Figure {
        id,
        alt: format!("{} {}", told.join(" "), in_words(&staircase.steps)),
        title,
        scene,
    }
}

fn title(one: &Staircase) -> String {
    let told = |load: f64| one.by.told(load);
    let limit = one
        .limit
        .map_or_else(String::new, |limit| format!(": {limit} is what limits it"));
    let bears = |low: f64| {
        let sure = surely_holds(one)
            .map_or_else(String::new, |load| format!(" ({} for sure)", told(load)));
        if holds_for_a_while(one) {
            format!("{} only while a short step lasts{sure}", told(low))
        } else {
            told(low)
        }
    };
    match (one.holds, one.breaks) {
        (Some(low), Some(high)) => {
            format!(
                "{} bears {} and breaks at {}{limit}",
                one.name,
                bears(low),
                told(high)
            )
        }
        (Some(low), None) => format!("{} bears {}{limit}", one.name, bears(low)),
        (None, Some(high)) => format!("{} breaks at {}{limit}", one.name, told(high)),
        (None, None) => format!("What {} bears is unknown", one.name),
    }
}

fn legend(theme: Theme, one: &Staircase) -> Vec<(Swatch, String)> {
    let palette = theme.palette();
    let offered = (
        Swatch::Dashed(palette.muted),
        "offered per second".to_owned(),
    );
    let mut entries = vec![(
        Swatch::Filled(theme.outcome(Outcome::Ok)),
        if one.per_request {
            "requests answered per second".to_owned()
        } else {
            "served per second".to_owned()
        },
    )];
    entries.extend((one.by == LoadKind::Rate).then_some(offered));
    entries.extend([
        (
            Swatch::Filled(palette.queue),
            "p50, client's processor".to_owned(),
        ),
        (
            Swatch::Filled(palette.ink),
            "p99, server's processor".to_owned(),
        ),
    ]);
    let some = |of: fn(&Step) -> Option<f64>| one.steps.iter().filter_map(of).any(|n| n > 0.0);
    let failed = (
        Swatch::Filled(theme.outcome(Outcome::ConnectTimeout)),
        "failed clients by outcome".to_owned(),
    );
    let overflows = (Swatch::Filled(palette.queue_fill), "overflows".to_owned());
    entries.extend(some(|step| step.not_ok).then_some(failed));
    entries.extend(some(|step| step.overflows).then_some(overflows));
    entries
}

fn panels(one: &Staircase, results: &Results, theme: Theme) -> Vec<Panel> {
    let palette = theme.palette();
    let line = |colour, dashed, of: &dyn Fn(&Step) -> Option<f64>| Line {
        colour,
        dashed,
        values: one.steps.iter().map(of).collect(),
    };
    let mut rates = Vec::new();
    if one.by == LoadKind::Rate {
        rates.push(line(palette.muted, true, &|step| Some(step.load)));
    }
    rates.push(line(theme.outcome(Outcome::Ok), false, &|step| {
        step.answered_per_s
    }));
    let failed = one.steps.iter().map(|step| {
        let arm = results.arms.iter().find(|arm| arm.name == step.arm);
        arm.map_or_else(Vec::new, |arm| failures(arm, theme))
    });
    let overflows = one.steps.iter().map(|step| {
        let n = step.overflows.filter(|n| *n > 0.0);
        n.map(|n| (n, palette.queue_fill)).into_iter().collect()
    });
    vec![
        Panel {
            title: ["throughput", "per second"],
            told: scale::count,
            least_top: 0.0,
            lines: rates,
            bars: Vec::new(),
        },
        Panel {
            title: ["latency", "from the intended start"],
            told: scale::time,
            least_top: 0.0,
            lines: vec![
                line(palette.queue, false, &|step| step.p50_ms),
                line(palette.ink, false, &|step| step.p99_ms),
            ],
            bars: Vec::new(),
        },
        Panel {
            title: ["failed clients,", "overflows"],
            told: scale::count,
            least_top: 0.0,
            lines: Vec::new(),
            bars: vec![failed.collect(), overflows.collect()],
        },
        Panel {
            title: ["processor time", "% of one processor"],
            told: |value| format!("{value:.0} %"),
            least_top: 100.0,
            lines: vec![
                line(palette.queue, false, &|step| step.client_cpu_percent),
                line(palette.ink, false, &|step| step.server_cpu_percent),
            ],
            bars: Vec::new(),
        },
    ]
}

/// Failed clients of an arm by outcome.
fn failures(arm: &ArmResult, theme: Theme) -> Vec<(f64, Rgb)> {
    let classes = Outcome::ALL
        .into_iter()
        .filter(|class| *class != Outcome::Ok);
    classes
        .filter_map(|class| {
            let n = median(arm, class.figure())?;
            (n > 0.0).then(|| (n, theme.outcome(class)))
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "a run has few steps")]
fn columns(body: Area, n: usize) -> Vec<Area> {
    let width = body.width() / n.max(1) as f64;
    let left = |n: usize| body.left + n as f64 * width;
    (0..n)
        .map(|n| Area {
            left: left(n),
            right: left(n + 1),
            ..body
        })
        .collect()
}

fn draw(scene: &mut Scene, panel: &Panel, area: Area, columns: &[Area], left: f64) {
    let palette = scene.palette();
    let top = panel.top();
    let y = |value: f64| area.bottom - area.height() * value / top;
    scene.horizontal(area.bottom, area.left, area.right, 1.5, palette.muted);
    let known = |line: &Line| line.values.iter().any(Option::is_some);
    if panel.bars.is_empty() && !panel.lines.iter().any(known) {
        let words = "too few clients for percentiles";
        let told = Text::new(words, area.left + 12.0, area.middle(), SMALL, palette.muted);
        scene.text(told.centred());
    }
    let ticks = scale::ticks(top, 2.5);
    for tick in ticks.into_iter().skip(1).filter(|tick| *tick > 1e-6) {
        scene.horizontal(y(tick), area.left, area.right, 1.0, palette.grid);
        let label = Text::new(
            (panel.told)(tick),
            area.left - 12.0,
            y(tick),
            SMALL,
            palette.muted,
        );
        scene.text_if_free(label.end().centred(), area_of_labels(area, left));
    }
    let [first, second] = panel.title;
    let title =
        |text: &str, y| Text::new(text, left, y, SMALL, palette.ink).within(area.left - left - 8.0);
    scene.text(title(first, area.bottom - 34.0).bold());
    scene.text(title(second, area.bottom - 10.0));
    for (n, bars) in panel.bars.iter().enumerate() {
        for (parts, column) in bars.iter().zip(columns) {
            bar(
                scene,
                parts,
                panel,
                slot(*column, n, panel.bars.len()),
                area,
                &y,
            );
        }
    }
    for line in &panel.lines {
        let mut corners: Vec<(f64, f64)> = Vec::new();
        for (value, column) in line.values.iter().zip(columns) {
            match value {
                Some(value) if line.dashed => {
                    scene.dashes(
                        (column.left, y(*value)),
                        (column.right, y(*value)),
                        2.0,
                        line.colour,
                    );
                }
                Some(value) => {
                    corners.extend([(column.left, y(*value)), (column.right, y(*value))]);
                }
                None => stroke(scene, std::mem::take(&mut corners), line.colour),
            }
        }
        stroke(scene, corners, line.colour);
    }
    // The values last, where no mark's number stands already; the uppermost line has the first word. A number stands
    // above a dashed line that is close.
    let dashed = panel.lines.iter().find(|line| line.dashed);
    for line in panel.lines.iter().rev().filter(|line| !line.dashed) {
        for (n, (value, column)) in line.values.iter().zip(columns).enumerate() {
            let Some(value) = *value else { continue };
            let close = dashed.and_then(|line| line.values[n]).map(y);
            let close = close.filter(|above| (0.0..CLOSE).contains(&(y(value) - above)));
            let foot = close.unwrap_or_else(|| y(value)) - 8.0;
            // A number through which another line would go says less than none.
            let band = foot - SMALL..foot + 3.0;
            let mut others = panel.lines.iter().filter(|other| !other.dashed);
            if others.any(|other| other.values[n].is_some_and(|other| band.contains(&y(other)))) {
                continue;
            }
            let middle = f64::midpoint(column.left, column.right);
            let told = Text::new((panel.told)(value), middle, foot, SMALL, palette.ink);
            let room = Area {
                left: column.left,
                right: column.right,
                ..area
            };
            scene.text_if_free(told.middle(), room);
        }
    }
}

/// Less than a line of text.
const CLOSE: f64 = 28.0;

/// Where a panel's ticks may write.
fn area_of_labels(area: Area, left: f64) -> Area {
    Area {
        left,
        right: area.left,
        ..area
    }
}

fn stroke(scene: &mut Scene, corners: Vec<(f64, f64)>, colour: Rgb) {
    if !corners.is_empty() {
        scene.steps(corners, 3.0, colour);
    }
}

/// The `n`-th of several bars that stand beside each other in a column.
#[expect(clippy::cast_precision_loss, reason = "two bars")]
fn slot(column: Area, n: usize, of: usize) -> Area {
    let width = (column.width() * 0.7 / of as f64).min(70.0);
    let left = f64::midpoint(column.left, column.right) + width * (n as f64 - of as f64 / 2.0);
    Area {
        left: left + 2.0,
        right: left + width - 2.0,
        ..column
    }
}

fn bar(
    scene: &mut Scene,
    parts: &[(f64, Rgb)],
    panel: &Panel,
    slot: Area,
    area: Area,
    y: &dyn Fn(f64) -> f64,
) {
    let ink = scene.palette().ink;
    let mut sum = 0.0;
    for &(n, colour) in parts {
        let bottom = y(sum);
        sum += n;
        let part = Area {
            top: y(sum).min(bottom - 1.0),
            bottom,
            ..slot
        };
        scene.fill(part, colour);
    }
    if sum > 0.0 {
        let middle = f64::midpoint(slot.left, slot.right);
        let told = Text::new((panel.told)(sum), middle, y(sum) - 6.0, SMALL, ink);
        scene.text_if_free(told.middle(), area);
    }
}

fn axis(scene: &mut Scene, one: &Staircase, columns: &[Area], bottom: f64, left: f64) {
    let palette = scene.palette();
    let by = Text::new(one.by.to_string(), left, bottom + 26.0, SMALL, palette.ink);
    scene.text(by.bold());
    for (step, column) in one.steps.iter().zip(columns) {
        let middle = f64::midpoint(column.left, column.right);
        let room = column.width() - 6.0;
        let load = Text::new(
            scale::count(step.load),
            middle,
            bottom + 26.0,
            SMALL,
            palette.ink,
        );
        scene.text(load.bold().shrunk(room).middle());
        let word = if step.too_short { "too short" } else { "" };
        let word = match step.held {
            Held::Holds => word.to_owned(),
            held => held.to_string(),
        };
        let held = Text::new(word, middle, bottom + 50.0, SMALL, palette.muted);
        scene.text(held.shrunk(room).middle());
    }
}

/// Every step's numbers.
fn in_words(steps: &[Step]) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "unknown".into(), scale::count);
    let told = steps.iter().map(|step| {
        format!(
            "{}: {}, {} served per second, p50 {} ms, p99 {} ms, {} failed, {} overflows",
            scale::count(step.load),
            step.held,
            number(step.answered_per_s),
            number(step.p50_ms),
            number(step.p99_ms),
            number(step.not_ok),
            number(step.overflows)
        )
    });
    format!("{}.", told.collect::<Vec<_>>().join("; "))
}
