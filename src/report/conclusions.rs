//! What to conclude from a matrix: for each factor what it changes, where, and by how many clients. Every number is
//! measured; the arm's own words stand beside it.

use std::fmt::Write as _;

use super::composition::{Composition, Effect, Lot};
use crate::result::Results;

/// The paragraph, as Markdown; nothing for runs that are no matrix with losers.
pub(super) fn conclusions(results: &Results) -> Option<String> {
    let composition = Composition::of(&results.arms)?;
    let mut text = String::from(
        "What each setting changes, from its first level to its last, with everything else alike. Pairs of cells in which \
         fewer than 5 % of the clients met another fate count as alike:\n\n",
    );
    for effect in composition.effects() {
        let _ = writeln!(text, "- {}", sentence(&composition, &effect));
    }
    let _ = writeln!(text, "\n{}\n", well(&composition));
    Some(text)
}

fn sentence(composition: &Composition, effect: &Effect) -> String {
    let matrix = &composition.matrix;
    let factor = &matrix.factors[effect.factor];
    let (first, last) = (&factor.levels[0], &factor.levels[factor.levels.len() - 1]);
    let head = format!("**{}** from {first} to {last}", factor.name);
    let Some(pair) = effect.largest() else {
        return match effect.unchanged {
            0 => format!("{head}: not measured."),
            _ => format!("{head} changes nothing, whatever the others are."),
        };
    };
    let attempts = composition.cells[pair.before]
        .as_ref()
        .map_or(0.0, |cell| cell.attempts);
    let changes: Vec<String> = effect
        .growth(attempts)
        .into_iter()
        .map(|(lot, least, most)| format!("{} {lot}", grown(least, most)))
        .collect();
    let place = match &effect.only_where {
        Some(levels) => {
            let levels: Vec<String> = levels
                .iter()
                .map(|&(n, level)| matrix.level(n, level))
                .collect();
            format!(", only where {}", levels.join(" and "))
        }
        None if effect.unchanged > 0 => format!(
            ", in {} of {} pairs of cells",
            effect.changed.len(),
            effect.changed.len() + effect.unchanged
        ),
        None => String::new(),
    };
    format!("{head}{place}: {}.", changes.join("; "))
}

/// `82 more`, `14 to 16 fewer`, `from 14 fewer to 21 more`.
fn grown(least: f64, most: f64) -> String {
    let more_or_fewer = |n: f64| if n < 0.0 { "fewer" } else { "more" };
    let count = super::charts::count;
    if (most - least).abs() < 0.05 {
        format!("{} {}", count(most.abs()), more_or_fewer(most))
    } else if least >= 0.0 || most <= 0.0 {
        let (a, b) = (least.abs().min(most.abs()), least.abs().max(most.abs()));
        let word = more_or_fewer(least + most);
        format!("{} to {} {word}", count(a), count(b))
    } else {
        format!("from {} fewer to {} more", count(-least), count(most))
    }
}

/// How many were well, in the worst cell and in the best.
fn well(composition: &Composition) -> String {
    let cells = composition.cells.iter().flatten();
    let known = cells.map(|cell| (cell.count(Lot::Well), cell.attempts));
    let (mut least, mut most, mut attempts) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
    for (well, of) in known {
        (least, most, attempts) = (least.min(well), most.max(well), of);
    }
    let count = super::charts::count;
    if (most - least).abs() < 0.05 {
        format!(
            "In every cell {} of {} clients were well.",
            count(least),
            count(attempts)
        )
    } else {
        format!(
            "{} of {} clients were well in the worst cell, {} in the best.",
            count(least),
            count(attempts),
            count(most)
        )
    }
}
