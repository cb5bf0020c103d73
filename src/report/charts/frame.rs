//! What all figures share: title band, footer, legend, row labels and panels.

use super::font;
use super::scene::{Area, Scene, Size, Text};
use super::story::ArmStory;
use super::theme::{Rgb, Theme};

/// The margin left and right.
const MARGIN: f64 = 64.0;
/// The size of body text; half of it is still read.
pub(super) const BODY: f64 = 21.0;
/// The size of secondary text.
pub(super) const SMALL: f64 = 19.0;
/// The title band ends here.
const BAND: f64 = 158.0;

/// A scene with its title and its footer, and the area that is left for the figure.
pub(super) fn frame(
    footer: &str,
    title: &str,
    subtitle: &str,
    size: Size,
    theme: Theme,
) -> (Scene, Area) {
    let mut scene = Scene::new(size, theme);
    let palette = scene.palette();
    let canvas = scene.canvas();
    let content = Area::new(MARGIN, BAND, canvas.right - MARGIN, canvas.bottom - 66.0);
    let room = content.width();
    let one_line = [38.0, 35.0, 32.0, 30.0]
        .into_iter()
        .find(|size| font::width(title, *size, true) <= room);
    if let Some(size) = one_line {
        scene.text(Text::new(title, MARGIN, 74.0, size, palette.ink).bold());
    } else {
        let mut lines = font::lines(title, 30.0, true, room);
        if lines.len() > 2 {
            let rest = lines.split_off(1).join(" ");
            lines.push(font::fitted(&rest, 30.0, true, room));
        }
        for (line, y) in lines.into_iter().zip([50.0, 87.0]) {
            scene.text(
                Text::new(line, MARGIN, y, 30.0, palette.ink)
                    .bold()
                    .within(room),
            );
        }
    }
    scene.text(Text::new(subtitle, MARGIN, 122.0, 22.0, palette.muted).within(room));
    scene.text(Text::new(footer, MARGIN, canvas.bottom - 26.0, 17.0, palette.muted).within(room));
    (scene, content)
}

/// How a thing looks in the legend.
#[derive(Debug, Clone, Copy)]
pub(super) enum Swatch {
    Filled(Rgb),
    Dashed(Rgb),
    Hatched(Rgb),
    Tick(Rgb),
}

/// A legend from the upper left corner of `area` on; returns the area below it.
pub(super) fn legend(scene: &mut Scene, area: Area, entries: &[(Swatch, String)]) -> Area {
    const SWATCH: f64 = 18.0;
    const LINE: f64 = 32.0;
    let ink = scene.palette().ink;
    let (mut x, mut y) = (area.left, area.top);
    for (swatch, words) in entries {
        let text = Text::new(words, 0.0, 0.0, SMALL, ink);
        let width = SWATCH + 9.0 + text.width();
        if x > area.left && x + width > area.right {
            (x, y) = (area.left, y + LINE);
        }
        let sample = Area::new(x, y, x + SWATCH, y + SWATCH);
        match *swatch {
            Swatch::Filled(colour) => scene.fill(sample, colour),
            Swatch::Dashed(colour) => {
                let y = sample.middle();
                scene.dashes((x, y), (x + SWATCH, y), 3.0, colour);
            }
            Swatch::Hatched(colour) => scene.hatch(sample, colour),
            Swatch::Tick(colour) => {
                let middle = f64::midpoint(sample.left, sample.right);
                scene.fill(
                    Area {
                        left: middle - 1.5,
                        right: middle + 1.5,
                        ..sample
                    },
                    colour,
                );
            }
        }
        let place = Text {
            x: x + SWATCH + 9.0,
            y: y + SWATCH / 2.0,
            ..text
        };
        scene.text(place.centred());
        x += width + 30.0;
    }
    Area {
        top: y + SWATCH + 26.0,
        ..area
    }
}

/// Rows for arms in an area: none higher than `most`, all together from its top on.
#[expect(clippy::cast_precision_loss, reason = "a picture has few arms")]
pub(super) fn rows(area: Area, n: usize, most: f64) -> Vec<Area> {
    let height = (area.height() / n.max(1) as f64).min(most);
    let top = |n: usize| area.top + n as f64 * height;
    (0..n)
        .map(|n| Area {
            top: top(n),
            bottom: top(n + 1),
            ..area
        })
        .collect()
}

/// How wide a column of labels for these arms must be, at most 30 % of the area.
pub(super) fn label_width(arms: &[ArmStory<'_>], area: Area, row_height: f64) -> f64 {
    let title = |arm: &ArmStory<'_>| {
        let title = arm.title.filter(|_| row_height >= TWO_LINES);
        title.map_or(0.0, |title| font::width(title, SMALL, false))
    };
    let widths = arms
        .iter()
        .map(|arm| font::width(&arm.short, BODY, true).max(title(arm)));
    widths.fold(0.0, f64::max).min(area.width() * 0.3)
}

/// Rows from this height on have room for a second line.
const TWO_LINES: f64 = 66.0;
/// And from this height on for a third.
const THREE_LINES: f64 = 96.0;
/// From one line of a label to the next.
const LINE: f64 = 28.0;

/// An arm's label at the left of its row, with its title below where the row is high enough.
pub(super) fn row_label(scene: &mut Scene, arm: &ArmStory<'_>, row: Area, width: f64) {
    let palette = scene.palette();
    let label = |y| {
        Text::new(&arm.short, row.left, y, BODY, palette.ink)
            .bold()
            .within(width)
            .centred()
    };
    let title = arm.title.filter(|_| row.height() >= TWO_LINES);
    let mut below = title.map_or_else(Vec::new, |title| font::lines(title, SMALL, false, width));
    if below.len() > 1 && (below.len() > 2 || row.height() < THREE_LINES) {
        below = title.map(str::to_owned).into_iter().collect();
    }
    let mut y = below.iter().fold(row.middle(), |y, _| y - LINE / 2.0);
    scene.text(label(y));
    for line in below {
        y += LINE;
        let line = Text::new(line, row.left, y, SMALL, palette.muted);
        scene.text(line.within(width).centred());
    }
}

/// A panel of a grid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel {
    pub(super) area: Area,
    /// Whether no panel stands below it, so that it carries the time axis.
    pub(super) lowest: bool,
    /// Whether it is the first of its row.
    pub(super) first: bool,
}

/// A grid of `n` panels with the axis' height kept free below the lowest ones.
#[expect(clippy::cast_precision_loss, reason = "a picture has few panels")]
pub(super) fn panels(area: Area, n: usize, axis: f64) -> Vec<Panel> {
    const ACROSS: f64 = 44.0;
    const DOWN: f64 = 30.0;
    let columns = match n {
        0..=3 => 1,
        4..=6 => 2,
        7..=12 => 3,
        _ => 4,
    };
    let rows = n.div_ceil(columns).max(1);
    let width = (area.width() - ACROSS * (columns - 1) as f64) / columns as f64;
    let height = ((area.height() - axis - DOWN * (rows - 1) as f64) / rows as f64).min(330.0);
    (0..n)
        .map(|n_th| {
            let (row, column) = (n_th / columns, n_th % columns);
            let left = area.left + column as f64 * (width + ACROSS);
            let top = area.top + row as f64 * (height + DOWN);
            Panel {
                area: Area::new(left, top, left + width, top + height),
                lowest: n_th + columns >= n,
                first: column == 0,
            }
        })
        .collect()
}
