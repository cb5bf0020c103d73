//! The stacked bar, and chart (a): outcomes per arm.

use std::fmt::Display;

use super::font;
use super::frame::{self, BODY, SMALL, Swatch};
use super::scale;
use super::scene::{Area, Scene, Size, Text};
use super::story::Story;
use super::theme::{Coloured, Theme};
use super::{ChartId, Figure, findings};
use crate::report::composition::Parts;
use crate::result::Outcome;

/// Draws what became of all attempts into `area`, with the number of each class where it has room.
/// Returns the classes whose numbers had none.
pub(super) fn stacked<C: Coloured + Copy + PartialEq>(
    scene: &mut Scene,
    area: Area,
    outcomes: &Parts<C>,
    size: f64,
) -> Vec<(C, f64)> {
    const BETWEEN: f64 = 2.0;
    let mut left = area.left;
    let mut untold = Vec::new();
    for &(class, n) in &outcomes.parts {
        let right = left + area.width() * outcomes.share(n);
        let colour = class.colour(scene.theme);
        let shown = Area {
            left,
            right: (right - BETWEEN).max(left + 1.0),
            ..area
        };
        scene.fill(shown, colour);
        let middle = f64::midpoint(shown.left, shown.right);
        let number = Text::new(
            scale::count(n),
            middle,
            area.middle(),
            size,
            colour.text_on(),
        );
        let number = number.bold().middle().centred();
        if number.width() + 10.0 <= shown.width() {
            scene.text(number);
        } else {
            untold.push((class, n));
        }
        left = right;
    }
    untold
}

/// The outcomes that occur, for a legend.
pub(super) fn outcome_legend(story: &Story<'_>, theme: Theme) -> Vec<(Swatch, String)> {
    let occurs = |class: &Outcome| {
        story
            .arms
            .iter()
            .filter_map(|arm| arm.outcomes.as_ref())
            .any(|one| one.count(*class) > 0.0)
    };
    let classes = Outcome::ALL
        .into_iter()
        .filter(|class| *class == Outcome::Ok || occurs(class));
    classes
        .map(|class| (Swatch::Filled(theme.outcome(class)), class.to_string()))
        .collect()
}

/// `2 reset`, `1 other`.
pub(super) fn in_words<C: Display>(parts: &[(C, f64)]) -> Vec<String> {
    let told = parts
        .iter()
        .map(|(class, n)| format!("{} {class}", scale::count(*n)));
    told.collect()
}

/// Chart (a): what became of the attempts of each arm.
pub(super) fn outcomes(story: &Story<'_>, size: Size, theme: Theme) -> Figure {
    const TOLD: f64 = 300.0;
    let title = findings::outcomes(story);
    let subtitle = story.subtitle_of_means("what became of the attempts");
    let (mut scene, content) = frame::frame(&story.setting, &title, &subtitle, size, theme);
    let palette = scene.palette();
    let content = frame::legend(&mut scene, content, &outcome_legend(story, theme));
    let body = Area {
        bottom: content.bottom - 50.0,
        ..content
    };
    let rows = frame::rows(body, story.arms.len(), 176.0);
    let height = rows.first().map_or(0.0, |row| row.height());
    let label_width = frame::label_width(&story.arms, body, height);
    let (left, right) = (body.left + label_width + 28.0, body.right - TOLD);
    let bottom = rows.last().map_or(body.top, |row| row.bottom) + 6.0;
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let x = left + (right - left) * share;
        scene.vertical(x, body.top, bottom, 1.0, palette.grid);
        let label = Text::new(
            format!("{:.0} %", share * 100.0),
            x,
            bottom + 24.0,
            SMALL,
            palette.muted,
        );
        scene.text(label.middle());
    }
    let axis = Text::new(
        "share of the attempts",
        right + 40.0,
        bottom + 24.0,
        SMALL,
        palette.muted,
    );
    scene.text(axis);
    for (arm, row) in story.arms.iter().zip(&rows) {
        frame::row_label(&mut scene, arm, *row, label_width);
        let half = (row.height() * 0.3).min(40.0);
        let bar = Area::new(left, row.middle() - half, right, row.middle() + half);
        let told = right + 18.0;
        let Some(outcomes) = &arm.outcomes else {
            let text = Text::new(arm.problem(), left + 8.0, row.middle(), BODY, palette.muted);
            scene.text(text.centred());
            continue;
        };
        let untold = stacked(
            &mut scene,
            bar,
            outcomes,
            (half * 0.75).clamp(BODY.min(half * 1.6), 28.0),
        );
        let mut ok = format!(
            "{} of {}",
            scale::count(outcomes.count(Outcome::Ok)),
            scale::count(outcomes.attempts)
        );
        if row.height() >= 48.0 {
            ok += &format!(" {}", arm.well());
        }
        let room = body.right - told;
        let few: Vec<_> = untold
            .into_iter()
            .filter(|(class, _)| *class != Outcome::Ok)
            .collect();
        let two_lines = !few.is_empty() && row.height() >= 48.0;
        let (up, down) = if two_lines { (13.0, 13.0) } else { (0.0, 0.0) };
        let ok = Text::new(ok, told, row.middle() - up, BODY, palette.ink).bold();
        let ok = ok.shrunk(room).centred();
        let beside = if two_lines { 0.0 } else { ok.width() + 14.0 };
        scene.text(ok);
        let few = font::listed(&in_words(&few), SMALL, false, room - beside);
        let few = Text::new(
            few,
            told + beside,
            row.middle() + down,
            SMALL,
            palette.muted,
        );
        scene.text(few.centred());
    }
    let told = story.arms.iter().map(|arm| match &arm.outcomes {
        Some(outcomes) => format!(
            "{}: {}",
            arm.result.name,
            in_words(&outcomes.parts).join(", ")
        ),
        None => format!("{}: {}", arm.result.name, arm.problem()),
    });
    let alt = format!(
        "Stacked bars of outcomes. {}",
        told.collect::<Vec<_>>().join("; ")
    );
    Figure {
        id: ChartId::Outcomes,
        title,
        alt,
        scene,
    }
}
