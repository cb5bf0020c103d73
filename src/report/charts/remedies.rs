//! Remedies for a full queue: the accept queues of all arms in one picture, and below it, on the same time axis, how long
//! each arm's queue took to be empty for good.

use super::depth::{self, horizon_us};
use super::depth_data::{Column, Depth};
use super::frame::{self, SMALL, Swatch};
use super::scale;
use super::scene::{Area, Scene, Size, Text};
use super::story::{ArmStory, Story};
use super::theme::{Rgb, Theme};
use super::{ChartId, Figure};
use crate::report::remedies::{emptied, overflows, remedies};
use crate::result::{ArmResult, Results, Status, median};

/// An arm with its queue, as far as one was seen.
struct Lane<'a> {
    arm: &'a ArmStory<'a>,
    colour: Rgb,
    depth: Option<Depth>,
    /// From when on the queue was empty for good, in the trial that is shown.
    empty_us: Option<u64>,
    ended_us: u64,
}

/// The chart; `None` where a run has no remedies to compare.
pub(super) fn chart(
    story: &Story<'_>,
    results: &Results,
    size: Size,
    theme: Theme,
) -> Option<Figure> {
    const AXIS: f64 = 58.0;
    const SWATCH: f64 = 18.0;
    const TICKS: f64 = 72.0;
    let arms = remedies(results)?;
    let title = title(story);
    let subtitle = "accept-queue depth of every arm over time, first trial; depth on a root scale";
    let (mut scene, content) = frame::frame(
        &story.setting,
        &title,
        &story.subtitle(subtitle),
        size,
        theme,
    );
    let palette = scene.palette();
    let content = frame::legend(
        &mut scene,
        content,
        &[
            (
                Swatch::Filled(palette.queue),
                "depth of the accept queue (Recv-Q); below: somebody waits".into(),
            ),
            (
                Swatch::Dashed(palette.muted),
                "its capacity (Send-Q + 1)".into(),
            ),
            (
                Swatch::Filled(palette.queue_fill),
                "nobody waits, and more will come".into(),
            ),
        ],
    );
    #[expect(clippy::cast_precision_loss, reason = "a handful of arms")]
    let lanes_height = (arms.len() as f64 * 60.0).min(content.height() * 0.5);
    let body = Area {
        bottom: content.bottom - AXIS,
        ..content
    };
    let below = Area {
        top: body.bottom - lanes_height,
        ..body
    };
    #[expect(clippy::cast_precision_loss, reason = "a handful of arms")]
    let rows = frame::rows(below, arms.len(), lanes_height / arms.len() as f64);
    let height = rows.first().map_or(0.0, |row| row.height());
    let labels = frame::label_width(&story.arms, content, height) + SWATCH;
    let left = content.left + labels.max(TICKS) + 20.0;
    let plot = Area {
        left,
        bottom: below.top - 22.0,
        ..body
    };
    let horizon = horizon_us(story);
    let lanes: Vec<Lane<'_>> = story
        .arms
        .iter()
        .enumerate()
        .map(|(n, arm)| lane(arm, theme.series(n), horizon, plot.width()))
        .collect();
    grid(&mut scene, plot, below.bottom, horizon);
    draw_depths(&mut scene, plot, &lanes, horizon);
    for (lane, row) in lanes.iter().zip(&rows) {
        let label = Area {
            left: row.left + SWATCH,
            ..*row
        };
        let middle = row.middle();
        let swatch = Area::new(row.left, middle - 14.0, row.left + 6.0, middle + 14.0);
        scene.fill(swatch, lane.colour);
        frame::row_label(&mut scene, lane.arm, label, labels - SWATCH);
        draw_lane(&mut scene, lane, Area { left, ..*row }, horizon);
    }
    let whole = Area {
        bottom: below.bottom,
        ..plot
    };
    depth::time_axis(
        &mut scene,
        whole,
        horizon,
        true,
        "time since the clients' start",
    );
    let told = arms
        .iter()
        .map(|arm| format!("{}: {}", arm.name, told(arm)));
    Some(Figure {
        id: ChartId::Remedies,
        alt: format!(
            "Accept-queue depth of all arms on one time axis, and when each was empty for good. {}.",
            told.collect::<Vec<_>>().join("; ")
        ),
        title,
        scene,
    })
}

fn told(arm: &ArmResult) -> String {
    format!("{}, {}", emptied(arm), overflows(arm))
}

/// The quickest arm without an overflow, and the slowest with one.
fn title(story: &Story<'_>) -> String {
    let known: Vec<(&ArmStory<'_>, f64)> = story
        .arms
        .iter()
        .filter_map(|arm| Some((arm, median(arm.result, "queue-empty-ms")?)))
        .collect();
    let clean = |(arm, _): &&(&ArmStory<'_>, f64)| arm.overflows() == Some(0.0);
    let best = known
        .iter()
        .filter(clean)
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let best = best.or_else(|| known.iter().min_by(|a, b| a.1.total_cmp(&b.1)));
    let worst = known.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let unending = story
        .arms
        .iter()
        .find(|arm| median(arm.result, "queue-empty-ms").is_none());
    let of = |(arm, ms): &(&ArmStory<'_>, f64)| {
        format!(
            "{} after {} ({})",
            arm.label,
            scale::time(*ms),
            arm.overflowed()
        )
    };
    match (best, unending, worst) {
        (Some(best), Some(never), _) => {
            format!("Queue empty for good: {}; never: {}", of(best), never.label)
        }
        (Some(best), None, Some(worst)) => {
            format!("Queue empty for good: {}, {}", of(best), of(worst))
        }
        _ => "No queue was seen empty for good".into(),
    }
}

fn lane<'a>(arm: &'a ArmStory<'a>, colour: Rgb, horizon_us: u64, columns: f64) -> Lane<'a> {
    let depth = depth::of_arm(arm, horizon_us, columns);
    let mut valid = arm
        .result
        .trials
        .iter()
        .filter(|one| one.status == Status::Ok);
    let empty_ms = valid.next().and_then(|trial| trial.load.queue_empty_ms);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time of a trial"
    )]
    let empty_us = empty_ms.map(|ms| (ms * 1_000.0) as u64);
    let (depth, ended_us) = depth.unzip();
    Lane {
        arm,
        colour,
        depth,
        empty_us,
        ended_us: ended_us.unwrap_or(0),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times of a trial are far below 2^53 microseconds"
)]
fn x(area: Area, at_us: u64, horizon_us: u64) -> f64 {
    area.left + area.width() * (at_us.min(horizon_us) as f64 / horizon_us as f64)
}

/// Verticals through the plot and all lanes.
fn grid(scene: &mut Scene, plot: Area, bottom: f64, horizon_us: u64) {
    let palette = scene.palette();
    #[expect(
        clippy::cast_precision_loss,
        reason = "times of a trial are far below 2^53 microseconds"
    )]
    let most_ms = horizon_us as f64 / 1_000.0;
    for (tick, _) in scale::time_ticks(most_ms, (plot.width() / 130.0).clamp(2.0, 10.0)) {
        let x = plot.left + plot.width() * tick / most_ms;
        scene.vertical(x, plot.top, bottom, 1.0, palette.grid);
    }
    scene.horizontal(plot.bottom, plot.left, plot.right, 1.0, palette.muted);
    scene.horizontal(bottom, plot.left, plot.right, 1.0, palette.muted);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a capacity is a 32-bit number and one more"
)]
fn draw_depths(scene: &mut Scene, plot: Area, lanes: &[Lane<'_>], horizon_us: u64) {
    let palette = scene.palette();
    let depths = || {
        lanes
            .iter()
            .filter_map(|lane| Some((lane, lane.depth.as_ref()?)))
    };
    let most = depths().map(|(_, one)| one.capacity.max(one.deepest.into()));
    let most = most.max().unwrap_or(1).max(1) as f64 * 1.25;
    let y = |depth: f64| plot.bottom - plot.height() * (depth / most).sqrt();
    let mut capacities: Vec<u64> = depths().map(|(_, one)| one.capacity).collect();
    capacities.sort_unstable();
    capacities.dedup();
    let gutter = plot.left - 10.0;
    let canvas = scene.canvas();
    let tick = |value: f64, colour| {
        Text::new(scale::count(value), gutter, y(value), SMALL, colour)
            .end()
            .centred()
    };
    for &capacity in &capacities {
        let at = y(capacity as f64);
        scene.dashes((plot.left, at), (plot.right, at), 2.0, palette.muted);
        scene.text_if_free(tick(capacity as f64, palette.ink).bold(), canvas);
    }
    scene.text_if_free(tick(0.0, palette.muted), canvas);
    for value in [1.0, 10.0, 50.0, 100.0, 500.0, 1_000.0, 4_000.0] {
        let room = capacities
            .iter()
            .all(|one| (y(*one as f64) - y(value)).abs() > 24.0);
        if value < most && room && plot.bottom - y(value) > 24.0 {
            scene.text_if_free(tick(value, palette.muted), canvas);
        }
    }
    for (lane, depth) in depths() {
        for piece in depth.lines.iter().flat_map(|line| &line.pieces) {
            let corners = corners(piece, lane.ended_us, &y, &|at_us| {
                x(plot, at_us, horizon_us)
            });
            scene.steps(corners, 2.5, lane.colour);
        }
    }
    // Whose capacity a line is, where they differ.
    for &capacity in capacities.iter().filter(|_| capacities.len() > 1) {
        let own = depths().filter(|(_, one)| one.capacity == capacity);
        let names: Vec<&str> = own.map(|(lane, _)| lane.arm.short.as_str()).collect();
        let words = format!(
            "room for {} in {}",
            scale::count(capacity as f64),
            names.join(", ")
        );
        let text = Text::new(
            words,
            plot.right,
            y(capacity as f64) - 7.0,
            SMALL,
            palette.muted,
        );
        scene.text_if_free(text.end(), plot);
    }
    for (lane, depth) in depths() {
        label(scene, plot, lane, depth, &y, horizon_us);
    }
}

/// The corners of a line through the looks.
fn corners(
    piece: &[Column],
    ended_us: u64,
    y: &dyn Fn(f64) -> f64,
    x: &dyn Fn(u64) -> f64,
) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for column in piece {
        let x = x(column.at_us);
        corners.extend(corners.last().map(|&(_, y)| (x, y)));
        let looks = [column.first, column.least, column.most, column.last];
        corners.extend(looks.map(|n| (x, y(n.into()))));
    }
    if let (Some(&(_, y)), Some(last)) = (corners.last(), piece.last()) {
        corners.push((x(last.until_us.min(ended_us)), y));
    }
    corners.dedup();
    corners
}

/// An arm's name beside its deepest look, where there is room.
fn label(
    scene: &mut Scene,
    plot: Area,
    lane: &Lane<'_>,
    depth: &Depth,
    y: &dyn Fn(f64) -> f64,
    horizon_us: u64,
) {
    let columns = depth.lines.iter().flat_map(|line| &line.pieces).flatten();
    let Some(deepest) = columns.max_by_key(|one| (one.most, std::cmp::Reverse(one.at_us))) else {
        return;
    };
    let (x, y) = (x(plot, deepest.at_us, horizon_us), y(deepest.most.into()));
    for (right, up) in [(10.0, -8.0), (10.0, 20.0), (10.0, -34.0), (10.0, 46.0)] {
        let text = Text::new(&lane.arm.short, x + right, y + up, SMALL, lane.colour).bold();
        let area = text.area();
        if scene.text_if_free(text, plot) {
            // A name through which another line would go is hard to read.
            let ground = Area::new(
                area.left - 2.0,
                area.top - 2.0,
                area.right + 2.0,
                area.bottom,
            );
            scene.fill(ground, scene.palette().paper);
            return;
        }
    }
}

/// `emptied after 1.29 s, no overflow, deepest 492 of 1,025`.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and times of a trial are far below 2^53"
)]
fn in_lane(lane: &Lane<'_>, depth: &Depth) -> String {
    let empty = match lane.empty_us {
        Some(0) => "nobody was seen waiting".to_owned(),
        Some(us) => format!("emptied after {}", scale::time(us as f64 / 1_000.0)),
        None => "not empty at the end".to_owned(),
    };
    format!(
        "{empty}, {}, deepest {} of {}",
        lane.arm.overflowed(),
        scale::count(depth.deepest.into()),
        scale::count(depth.capacity as f64)
    )
}

/// How long an arm's queue took to be empty for good, and when somebody was in it.
fn draw_lane(scene: &mut Scene, lane: &Lane<'_>, row: Area, horizon_us: u64) {
    const BAR: f64 = 16.0;
    let palette = scene.palette();
    let middle = row.middle();
    let words = match &lane.depth {
        Some(depth) => in_lane(lane, depth),
        None => lane.arm.problem(),
    };
    let text = Text::new(words, row.left + 4.0, middle - 9.0, SMALL, palette.ink);
    scene.text(text.within(row.width()));
    let Some(depth) = &lane.depth else { return };
    let bar = |from_us, to_us| Area {
        left: x(row, from_us, horizon_us),
        top: middle + 2.0,
        right: x(row, to_us, horizon_us),
        bottom: middle + 2.0 + BAR,
    };
    let until_us = lane.empty_us.unwrap_or(lane.ended_us);
    scene.fill(bar(0, until_us), palette.paper.mixed(lane.colour, 0.25));
    // Pieces of time with somebody in a queue; those that meet are one.
    let mut waiting: Vec<(u64, u64)> = Vec::new();
    let columns = depth.lines.iter().flat_map(|line| &line.pieces).flatten();
    let mut seen: Vec<(u64, u64)> = columns
        .filter(|one| one.most > 0)
        .map(|one| (one.at_us, one.until_us))
        .collect();
    seen.sort_unstable();
    for (from_us, to_us) in seen {
        match waiting.last_mut() {
            Some(last) if from_us <= last.1 => last.1 = last.1.max(to_us),
            _ => waiting.push((from_us, to_us)),
        }
    }
    for (from_us, to_us) in waiting {
        scene.fill(bar(from_us, to_us.min(until_us.max(from_us))), lane.colour);
    }
}
