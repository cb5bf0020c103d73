//! `comparison`: one figure that tells the story of all arms.

use super::frame::{self, BODY, SMALL, Swatch};
use super::scene::{Area, Scene, Size, Text};
use super::story::{ArmStory, Story};
use super::theme::Theme;
use super::{ChartId, Figure, bars, depth, findings, font, scale};
use crate::report::matrix::{Factor, Matrix, Slice};
use crate::result::Outcome;

/// The whole run in one figure.
pub(super) fn chart(story: &Story<'_>, size: Size, theme: Theme) -> Figure {
    let title = findings::comparison(story);
    let subtitle =
        story.subtitle_of_means("what became of the clients, and of the queue they wait in");
    let (mut scene, content) = frame::frame(&story.setting, &title, &subtitle, size, theme);
    let palette = scene.palette();
    let mut entries = bars::outcome_legend(story, theme);
    let square = square(story);
    if square.is_some() || is_pictured(&row_areas(story, content)) {
        entries.push((
            Swatch::Filled(palette.queue_fill),
            "accept queue over time".into(),
        ));
        entries.push((Swatch::Dashed(palette.muted), "its capacity".into()));
    }
    let content = frame::legend(&mut scene, content, &entries);
    match square {
        Some((matrix, axes, slice)) => grid(&mut scene, story, matrix, axes, &slice, content),
        None => rows(&mut scene, story, content),
    }
    let told = story.arms.iter().map(|arm| {
        let slowest = slowest(arm)
            .map(|text| format!(", {text}"))
            .unwrap_or_default();
        format!(
            "{}: {}, {}{slowest}",
            arm.result.name,
            arm.answered(),
            arm.overflowed()
        )
    });
    let alt = format!(
        "Comparison of the arms. {}",
        told.collect::<Vec<_>>().join("; ")
    );
    Figure {
        id: ChartId::Comparison,
        title,
        alt,
        scene,
    }
}

/// `slowest 1.9 s`.
fn slowest(arm: &ArmStory<'_>) -> Option<String> {
    Some(format!(
        "slowest {}",
        scale::time(arm.figure("answered-max-ms")?)
    ))
}

/// The cells of a matrix that is small enough for a cell to hold everything.
fn square<'a>(story: &'a Story<'_>) -> Option<(&'a Matrix, (usize, usize), Slice)> {
    let matrix = story.matrix.as_ref()?;
    let axes = matrix.axes().filter(|_| matrix.factors.len() == 2)?;
    let small = matrix.factors.iter().all(|factor| factor.levels.len() <= 3);
    let slice = matrix.slices(axes).pop().filter(|_| small)?;
    Some((matrix, axes, slice))
}

/// The heads of the columns stand above the rows.
const HEADS: f64 = 34.0;

/// Where the row of each arm stands.
fn row_areas(story: &Story<'_>, content: Area) -> Vec<Area> {
    let body = Area {
        top: content.top + HEADS,
        ..content
    };
    frame::rows(body, story.arms.len(), 190.0)
}

/// Whether rows are high enough for a picture of the queue.
fn is_pictured(rows: &[Area]) -> bool {
    rows.first().is_some_and(|row| row.height() >= 60.0)
}

/// A row for each arm: outcomes, queue, overflows, idle time.
fn rows(scene: &mut Scene, story: &Story<'_>, content: Area) {
    let palette = scene.palette();
    let body = Area {
        top: content.top + HEADS,
        ..content
    };
    let rows = row_areas(story, content);
    let height = rows.first().map_or(0.0, |row| row.height());
    let pictured = is_pictured(&rows);
    let label_width = frame::label_width(&story.arms, body, height);
    let numbers = [body.right - 240.0, body.right - 90.0];
    let left = body.left + label_width + 28.0;
    let room = numbers[0] - 40.0 - left;
    let bars_right = if pictured {
        left + room * 0.56
    } else {
        left + room
    };
    let queue = (bars_right + 74.0, left + room);
    let head_y = content.top + 16.0;
    let heading = |x: f64, text: &str| Text::new(text, x, head_y, SMALL, palette.muted);
    scene.text(heading(left, "clients"));
    if pictured {
        scene.text(heading(queue.0, "accept queue over time").within(queue.1 - queue.0));
    }
    scene.text(heading(numbers[0], "overflows"));
    scene.text(heading(numbers[1], "idle CPU"));
    let horizon_us = depth::horizon_us(story);
    let big = (height * 0.36).clamp(BODY, 40.0);
    for (arm, row) in story.arms.iter().zip(&rows) {
        scene.horizontal(row.top, body.left, body.right, 1.0, palette.grid);
        frame::row_label(scene, arm, *row, label_width);
        let half = (row.height() * if pictured { 0.24 } else { 0.34 }).min(36.0);
        let bar = Area::new(left, row.middle() - half, bars_right, row.middle() + half);
        outcome_bar(scene, arm, bar, *row);
        if pictured {
            let inset = (row.height() * 0.16).min(24.0);
            let area = Area::new(queue.0, row.top + inset, queue.1, row.bottom - inset);
            queue_picture(scene, arm, area, horizon_us);
        }
        let overflows = arm
            .overflows()
            .map_or_else(|| "unknown".into(), scale::count);
        let size = if arm.overflows().is_some() { big } else { BODY };
        let text = Text::new(overflows, numbers[0], row.middle(), size, palette.ink).bold();
        scene.text(text.shrunk(140.0).centred());
        let idle = arm
            .figure("idle-percent")
            .map_or_else(|| "\u{2013}".into(), |idle| format!("{idle:.0} %"));
        let text = Text::new(idle, numbers[1], row.middle(), big.min(30.0), palette.ink);
        scene.text(text.shrunk(84.0).centred());
    }
}

/// The bar of an arm, with what it could not say below it.
fn outcome_bar(scene: &mut Scene, arm: &ArmStory<'_>, bar: Area, bounds: Area) {
    let palette = scene.palette();
    let Some(outcomes) = &arm.outcomes else {
        let text = Text::new(arm.problem(), bar.left, bar.middle(), BODY, palette.muted);
        scene.text(text.within(bar.width()).centred());
        return;
    };
    let size = (bar.height() * 0.45)
        .clamp(17.0, 28.0)
        .min(bar.height() * 0.9);
    let mut untold = bars::stacked(scene, bar, outcomes, size);
    if outcomes.count(Outcome::Ok) == 0.0 {
        untold.insert(0, (Outcome::Ok, 0.0));
    }
    if !untold.is_empty() {
        let told = font::listed(&bars::in_words(&untold), SMALL, false, bar.width());
        let text = Text::new(told, bar.left, bar.bottom + 22.0, SMALL, palette.muted);
        scene.text_if_free(text, bounds);
    }
}

/// The queue of an arm's first trial, with its capacity beside it.
fn queue_picture(scene: &mut Scene, arm: &ArmStory<'_>, area: Area, horizon_us: u64) {
    let palette = scene.palette();
    let Some((depth, ended_us)) = depth::of_arm(arm, horizon_us, area.width()) else {
        let text = Text::new(
            "no look at it",
            area.left,
            area.middle(),
            SMALL,
            palette.muted,
        );
        scene.text(text.within(area.width()).centred());
        return;
    };
    let plot = depth::Plot::new(area, horizon_us, &depth);
    plot.draw(scene, &depth, ended_us);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a capacity is a 32-bit number and one more"
    )]
    let capacity = scale::count(depth.capacity as f64);
    let text = Text::new(
        capacity,
        area.left - 10.0,
        plot.capacity_y(&depth),
        SMALL,
        palette.ink,
    )
    .bold();
    scene.text(text.end().shrunk(58.0).centred());
}

/// A cell for each arm of a small matrix.
fn grid(
    scene: &mut Scene,
    story: &Story<'_>,
    matrix: &Matrix,
    (rows, columns): (usize, usize),
    slice: &Slice,
    content: Area,
) {
    let palette = scene.palette();
    let (down, across) = (&matrix.factors[rows], &matrix.factors[columns]);
    let level = |factor: &Factor, n: usize| format!("{}={}", factor.name, factor.levels[n]);
    let gutters = (0..down.levels.len()).map(|n| font::width(&level(down, n), BODY, true));
    let gutter = gutters.fold(0.0, f64::max).min(content.width() * 0.2) + 24.0;
    let body = Area {
        left: content.left + gutter,
        top: content.top + 34.0,
        ..content
    };
    #[expect(clippy::cast_precision_loss, reason = "at most three levels")]
    let (width, height) = (
        body.width() / across.levels.len() as f64,
        body.height() / down.levels.len() as f64,
    );
    let horizon_us = depth::horizon_us(story);
    for (row, arms) in slice.cells.iter().enumerate() {
        for (column, arm) in arms.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "at most three levels")]
            let (left, top) = (
                body.left + column as f64 * width,
                body.top + row as f64 * height,
            );
            let area = Area::new(left, top, left + width - 44.0, top + height - 24.0);
            if row == 0 {
                let text = Text::new(
                    level(across, column),
                    left,
                    content.top + 16.0,
                    BODY,
                    palette.ink,
                )
                .bold();
                scene.text(text.within(area.width()));
            }
            if column == 0 {
                let text = Text::new(
                    level(down, row),
                    content.left,
                    area.middle(),
                    BODY,
                    palette.ink,
                )
                .bold();
                scene.text(text.within(gutter - 24.0).centred());
            }
            if let Some(arm) = arm {
                grid_cell(scene, &story.arms[*arm], area, horizon_us);
            }
        }
    }
}

fn grid_cell(scene: &mut Scene, arm: &ArmStory<'_>, area: Area, horizon_us: u64) {
    let palette = scene.palette();
    scene.horizontal(area.top, area.left, area.right, 1.0, palette.grid);
    let head = Text::new(
        arm.answered(),
        area.left,
        area.top + 38.0,
        28.0,
        palette.ink,
    )
    .bold();
    let told =
        |text: String| Text::new(text, area.right, area.top + 38.0, SMALL, palette.muted).end();
    let room = (area.width() - head.width() - 16.0).max(0.0);
    let all = slowest(arm).map(|slowest| told(format!("{}, {slowest}", arm.overflowed())));
    let told = all
        .filter(|text| text.width() <= room)
        .unwrap_or_else(|| told(arm.overflowed()).within(room));
    scene.text(head.within(area.width() - told.width() - 16.0));
    scene.text(told);
    if arm.result.summary.is_empty() {
        return;
    }
    let bar = Area::new(area.left, area.top + 56.0, area.right, area.top + 96.0);
    outcome_bar(
        scene,
        arm,
        bar,
        Area {
            bottom: bar.bottom + 28.0,
            ..area
        },
    );
    let queue = Area {
        left: area.left + 62.0,
        top: bar.bottom + 40.0,
        ..area
    };
    if queue.height() >= 30.0 {
        queue_picture(scene, arm, queue, horizon_us);
    }
}
