//! `fates`: what became of the clients in each cell of a matrix, by cause.

use super::frame::{self, BODY, SMALL, Swatch};
use super::scene::{Area, Scene, Size, Text};
use super::story::Story;
use super::theme::{Coloured as _, Theme};
use super::{ChartId, Figure, bars, findings, font, scale};
use crate::report::composition::{Composition, Lot};
use crate::report::matrix::Matrix;

/// Room for what a bar cannot say.
const TOLD: f64 = 350.0;
/// The gap between columns.
const BETWEEN: f64 = 26.0;

/// The chart.
pub(super) fn chart(
    story: &Story<'_>,
    composition: &Composition,
    size: Size,
    theme: Theme,
) -> Figure {
    let (title, place) = findings::fates(composition);
    let text = "what became of the clients, by cause";
    let subtitle = match place {
        Some(place) => story.subtitle_of_means(&format!("{text} \u{b7} title: at {place}")),
        None => story.subtitle_of_means(text),
    };
    let (mut scene, content) = frame::frame(&story.setting, &title, &subtitle, size, theme);
    let lots = composition.lots();
    let entries: Vec<(Swatch, String)> = lots
        .iter()
        .map(|lot| (Swatch::Filled(lot.colour(theme)), lot.to_string()))
        .collect();
    let content = frame::legend(&mut scene, content, &entries);
    let body = Area {
        top: content.top + 26.0,
        ..content
    };
    let rows = frame::rows(body, composition.cells.len(), 90.0);
    let left = levels(&mut scene, &composition.matrix, content, &rows);
    for (row, (cell, arm)) in rows.iter().zip(composition.cells.iter().zip(&story.arms)) {
        scene.horizontal(row.top, body.left, body.right, 1.0, scene.palette().grid);
        let half = (row.height() * 0.38).min(34.0);
        let (top, bottom) = (row.middle() - half, row.middle() + half);
        let bar = Area::new(left, top, body.right - TOLD, bottom);
        let Some(cell) = cell else {
            let muted = scene.palette().muted;
            let text = Text::new(arm.problem(), left, row.middle(), BODY, muted);
            scene.text(text.centred());
            continue;
        };
        let size = (half * 1.4).min(BODY);
        let untold = bars::stacked(&mut scene, bar, cell, size);
        told(&mut scene, cell.count(Lot::Well), &untold, *row, bar.right);
    }
    let cells = story.arms.iter().zip(&composition.cells);
    let told = cells.map(|(arm, cell)| match cell {
        Some(cell) => format!("{}: {}", arm.label, bars::in_words(&cell.parts).join(", ")),
        None => format!("{}: {}", arm.label, arm.problem()),
    });
    let alt = format!(
        "Stacked bars of what became of the clients. {}",
        told.collect::<Vec<_>>().join("; ")
    );
    Figure {
        id: ChartId::Fates,
        title,
        alt,
        scene,
    }
}

/// A column for each factor with the level of each row; returns where they end.
fn levels(scene: &mut Scene, matrix: &Matrix, content: Area, rows: &[Area]) -> f64 {
    let palette = scene.palette();
    #[expect(clippy::cast_precision_loss, reason = "a matrix has few factors")]
    let most = content.width() * 0.38 / matrix.factors.len() as f64;
    let mut x = content.left;
    for (n, factor) in matrix.factors.iter().enumerate() {
        let head = font::width(&factor.name, SMALL, false);
        let widths = factor.levels.iter();
        let widths = widths.map(|level| font::width(level, BODY, true));
        let width = widths.fold(head, f64::max).min(most - BETWEEN);
        let head = Text::new(&factor.name, x, content.top + 8.0, SMALL, palette.muted);
        scene.text(head.within(width).centred());
        for (place, row) in matrix.places.iter().zip(rows) {
            let size = BODY.min(row.height() * 0.7);
            let level = Text::new(&factor.levels[place[n]], x, row.middle(), size, palette.ink);
            scene.text(level.bold().within(width).centred());
        }
        x += width + BETWEEN;
    }
    x
}

/// How many were well, and the parts whose numbers had no room.
fn told(scene: &mut Scene, well: f64, untold: &[(Lot, f64)], row: Area, from: f64) {
    let palette = scene.palette();
    let left = from + 18.0;
    let size = BODY.min(row.height() * 0.7);
    let ok = Text::new(
        format!("{} ok", scale::count(well)),
        left,
        row.middle(),
        size,
        palette.ink,
    );
    let ok = ok.bold().centred();
    let beside = left + ok.width() + 14.0;
    scene.text(ok);
    let small = SMALL.min(row.height() * 0.65);
    let few: Vec<(Lot, f64)> = untold
        .iter()
        .copied()
        .filter(|(lot, _)| *lot != Lot::Well)
        .collect();
    let (few, room) = (bars::in_words(&few), row.right - beside);
    let listed = font::listed(&few, small, false, room);
    // Where not even the first has room, smaller letters are better than none.
    let words = if listed.is_empty() {
        few.join(", ")
    } else {
        listed
    };
    let words = Text::new(words, beside, row.middle(), small, palette.muted);
    scene.text(words.shrunk(room).centred());
}
