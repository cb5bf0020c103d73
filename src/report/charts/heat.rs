//! Chart (e): a matrix as heat maps over its two largest factors, one for each level of the others.

use super::frame::{self, BODY, SMALL};
use super::scale;
use super::scene::{Area, Scene, Size, Text};
use super::story::Story;
use super::theme::Theme;
use super::{ChartId, Figure, findings};
use crate::report::matrix::{Factor, Matrix, Slice};
use crate::result::Outcome;

/// Chart (e); `None` when the arms vary in fewer than two factors.
pub(super) fn chart(story: &Story<'_>, size: Size, theme: Theme) -> Option<Figure> {
    let matrix = story.matrix.as_ref()?;
    let axes = matrix.axes()?;
    let title = findings::matrix(story);
    let (rows, columns) = (&matrix.factors[axes.0], &matrix.factors[axes.1]);
    let text = format!(
        "share of attempts that were well, by {} and {}",
        rows.name, columns.name
    );
    let subtitle = story.subtitle_of_means(&text);
    let (mut scene, content) = frame::frame(&story.setting, &title, &subtitle, size, theme);
    let content = scale_legend(&mut scene, content);
    let slices = matrix.slices(axes);
    for (slice, panel) in slices.iter().zip(frame::panels(content, slices.len(), 0.0)) {
        let area = if slices.len() == 1 {
            content
        } else {
            panel.area
        };
        draw(&mut scene, story, matrix, axes, slice, area);
    }
    let told = story
        .arms
        .iter()
        .map(|arm| format!("{}: {}, {}", arm.label, arm.answered(), arm.overflowed()));
    let alt = format!(
        "Heat map of success. {}",
        told.collect::<Vec<_>>().join("; ")
    );
    Some(Figure {
        id: ChartId::Matrix,
        title,
        alt,
        scene,
    })
}

/// The ramp from nobody to everybody.
fn scale_legend(scene: &mut Scene, area: Area) -> Area {
    const STEPS: i32 = 48;
    const LENGTH: f64 = 240.0;
    let palette = scene.palette();
    let from = Text::new("nobody", area.left, area.top + 9.0, SMALL, palette.muted).centred();
    let left = area.left + from.width() + 12.0;
    scene.text(from);
    let width = LENGTH / f64::from(STEPS);
    for step in 0..STEPS {
        let x = left + f64::from(step) * width;
        let colour = shade(scene, f64::from(step) / f64::from(STEPS - 1));
        scene.fill(Area::new(x, area.top, x + width, area.top + 18.0), colour);
    }
    let to = Text::new(
        "everybody",
        left + LENGTH + 12.0,
        area.top + 9.0,
        SMALL,
        palette.muted,
    );
    scene.text(to.centred());
    Area {
        top: area.top + 44.0,
        ..area
    }
}

fn shade(scene: &Scene, share: f64) -> super::theme::Rgb {
    scene
        .palette()
        .grid
        .mixed(scene.theme.outcome(Outcome::Ok), share)
}

fn draw(
    scene: &mut Scene,
    story: &Story<'_>,
    matrix: &Matrix,
    axes: (usize, usize),
    slice: &Slice,
    area: Area,
) {
    let palette = scene.palette();
    let (rows, columns) = (&matrix.factors[axes.0], &matrix.factors[axes.1]);
    let mut area = area;
    if !slice.title.is_empty() {
        let text = Text::new(&slice.title, area.left, area.top + 18.0, SMALL, palette.ink).bold();
        scene.text(text.within(area.width()));
        area.top += 28.0;
    }
    let label = |factor: &Factor, level: usize| format!("{}={}", factor.name, factor.levels[level]);
    let widths = (0..rows.levels.len()).map(|n| super::font::width(&label(rows, n), SMALL, false));
    let gutter = widths.fold(0.0, f64::max).min(area.width() * 0.3);
    let cells = Area {
        left: area.left + gutter + 14.0,
        top: area.top + 32.0,
        ..area
    };
    #[expect(clippy::cast_precision_loss, reason = "a picture has few cells")]
    let (width, height) = (
        cells.width() / columns.levels.len() as f64,
        cells.height() / rows.levels.len() as f64,
    );
    #[expect(clippy::cast_precision_loss, reason = "a picture has few cells")]
    let at = |row: usize, column: usize| {
        let (left, top) = (
            cells.left + column as f64 * width,
            cells.top + row as f64 * height,
        );
        Area::new(left, top, left + width - 4.0, top + height - 4.0)
    };
    for column in 0..columns.levels.len() {
        let cell = at(0, column);
        let middle = f64::midpoint(cell.left, cell.right);
        let text = Text::new(
            label(columns, column),
            middle,
            cells.top - 10.0,
            SMALL,
            palette.muted,
        );
        scene.text(text.middle().within(cell.width()));
    }
    for (row, arms) in slice.cells.iter().enumerate() {
        let text = Text::new(
            label(rows, row),
            cells.left - 14.0,
            at(row, 0).middle(),
            SMALL,
            palette.muted,
        );
        scene.text(text.end().within(gutter).centred());
        for (column, arm) in arms.iter().enumerate() {
            if let Some(arm) = arm {
                cell(scene, &story.arms[*arm], at(row, column));
            }
        }
    }
}

fn cell(scene: &mut Scene, arm: &super::story::ArmStory<'_>, area: Area) {
    let middle = f64::midpoint(area.left, area.right);
    let room = area.width() - 12.0;
    let Some(outcomes) = &arm.outcomes else {
        let palette = scene.palette();
        scene.fill(area, palette.grid);
        let text = Text::new(arm.problem(), middle, area.middle(), BODY, palette.muted);
        scene.text(text.middle().within(room).centred());
        return;
    };
    let colour = shade(scene, outcomes.ok_share());
    scene.fill(area, colour);
    let big = (area.height() * 0.3).clamp(BODY, 40.0);
    let ok = format!(
        "{} of {}",
        scale::count(outcomes.count(Outcome::Ok)),
        scale::count(outcomes.attempts)
    );
    let two = area.height() >= big + SMALL + 26.0;
    let y = if two {
        area.middle() - SMALL * 0.7
    } else {
        area.middle()
    };
    scene.text(
        Text::new(ok, middle, y, big, colour.text_on())
            .bold()
            .middle()
            .within(room)
            .centred(),
    );
    if two {
        let y = area.middle() + big * 0.5 + 8.0;
        let text = Text::new(arm.overflowed(), middle, y, SMALL, colour.text_on());
        scene.text(text.middle().within(room).centred());
    }
}
