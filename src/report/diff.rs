//! A comparison of two runs, for a terminal and in Markdown.

use std::fmt::Write as _;

use super::table::aligned;
use super::wrap::wrapped;
use crate::result::{ArmComparison, Comparison, FigureComparison, Summary};

const HEADS: [&str; 5] = ["figure", "before", "after", "change", "difference"];

/// The comparison for a terminal of `width` columns.
pub fn diff(comparison: &Comparison, width: usize) -> String {
    let mut text = format!("{} and {}\n", comparison.before, comparison.after);
    for line in &comparison.different_setup {
        text += &wrapped(&format!("different setup: {line}"), width, "  ");
    }
    for arm in &comparison.arms {
        let _ = writeln!(text, "\n{} ({})", arm.name, trials(arm));
        let heads = HEADS.map(str::to_owned).to_vec();
        let rows = arm.figures.iter().map(|one| cells(one).to_vec());
        let rows = std::iter::once(heads).chain(rows);
        for line in aligned(rows, |n| n == 0 || n == HEADS.len() - 1, 1) {
            let _ = writeln!(text, "  {line}");
        }
        for note in &arm.notes {
            text += &wrapped(&format!("  note: {note}"), width, "  ");
        }
    }
    text + &wrapped(&method(comparison), width, "")
}

/// How the comparison was made, below it.
fn method(comparison: &Comparison) -> String {
    format!(
        "\nMeans over the valid trials with the half widths of their 95 % intervals; units stand in the figures' names. A difference is told from chance by {}.\n",
        comparison.method
    )
}

/// The comparison in Markdown.
pub fn diff_markdown(comparison: &Comparison) -> String {
    let mut text = format!("# {} and {}\n", comparison.before, comparison.after);
    if !comparison.different_setup.is_empty() {
        let _ = writeln!(text, "\nThe setups differ:\n");
        for line in &comparison.different_setup {
            let _ = writeln!(text, "- {line}");
        }
    }
    for arm in &comparison.arms {
        let _ = writeln!(text, "\n## {}\n\n{}\n", arm.name, trials(arm));
        let _ = writeln!(
            text,
            "| {} |\n| --- | --: | --: | --: | --- |",
            HEADS.join(" | ")
        );
        for figure in &arm.figures {
            let _ = writeln!(text, "| {} |", cells(figure).join(" | "));
        }
        for note in &arm.notes {
            let _ = writeln!(text, "\n{note}");
        }
    }
    text.push_str(&method(comparison));
    text
}

/// `5 and 5 valid trials`.
fn trials(arm: &ArmComparison) -> String {
    let most = |of: fn(&FigureComparison) -> Option<Summary>| {
        arm.figures
            .iter()
            .filter_map(of)
            .map(|one| one.n)
            .max()
            .unwrap_or(0)
    };
    format!(
        "{} and {} valid trials",
        most(|one| one.before),
        most(|one| one.after)
    )
}

fn cells(figure: &FigureComparison) -> [String; 5] {
    let [before, after] = in_numbers(figure).map(|side| side.unwrap_or_else(|| "-".into()));
    [
        figure.figure.to_owned(),
        before,
        after,
        figure
            .change_percent
            .map_or_else(|| "-".into(), |percent| format!("{percent:+.1} %")),
        figure.in_a_word(),
    ]
}

/// Both means, `29.4 ±0.7`, or `29.4` without an interval; with as many decimals as show their difference.
pub(super) fn in_numbers(figure: &FigureComparison) -> [Option<String>; 2] {
    let decimals = decimals(figure);
    [figure.before, figure.after].map(|side| {
        let side = side?;
        let mean = format!("{:.decimals$}", side.mean);
        Some(match half_width(side) {
            Some(half) => format!("{mean} \u{b1}{half:.decimals$}"),
            None => mean,
        })
    })
}

/// Half the width of a mean's interval.
fn half_width(side: Summary) -> Option<f64> {
    side.ci95_high.map(|high| high - side.mean)
}

/// Nothing is measured more finely than to the microsecond, and times are told in milliseconds.
const MOST_DECIMALS: f64 = 3.0;

/// As many as show the first digit of the difference and of every half width, and three digits of a mean that has
/// none; none of whole numbers.
fn decimals(figure: &FigureComparison) -> usize {
    let sides: Vec<Summary> = [figure.before, figure.after]
        .into_iter()
        .flatten()
        .collect();
    let place = |value: f64, digits: f64| {
        let is_told = value.abs() > 1e-9;
        is_told.then(|| digits - 1.0 - value.abs().log10().floor())
    };
    let difference = match sides.as_slice() {
        [before, after] => place(after.mean - before.mean, 1.0),
        _ => None,
    };
    let each = sides.iter().filter_map(|side| match half_width(*side) {
        Some(half) => place(half, 1.0),
        None => place(side.mean, 3.0),
    });
    let is_whole = |value: f64| (value - value.round()).abs() < 1e-9;
    let all_whole = sides
        .iter()
        .all(|side| is_whole(side.mean) && half_width(*side).is_none_or(is_whole));
    if all_whole {
        return 0;
    }
    let wanted = each.chain(difference).fold(1.0, f64::max);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 1 to 3"
    )]
    let decimals = wanted.min(MOST_DECIMALS) as usize;
    decimals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(mean: f64, half: Option<f64>) -> Summary {
        Summary {
            mean,
            median: mean,
            min: mean,
            max: mean,
            ci95_low: half.map(|half| mean - half),
            ci95_high: half.map(|half| mean + half),
            n: 5,
        }
    }

    #[test]
    fn a_difference_is_seen_in_its_numbers() {
        for (before, after, told) in [
            (
                Some(side(0.0573, Some(0.004))),
                Some(side(0.0614, Some(0.003))),
                ["0.057 \u{b1}0.004", "0.061 \u{b1}0.003"],
            ),
            (
                Some(side(50.4, Some(1.41))),
                Some(side(40.4, Some(1.38))),
                ["50.4 \u{b1}1.4", "40.4 \u{b1}1.4"],
            ),
            (
                Some(side(200.0, Some(0.0))),
                Some(side(200.0, Some(0.0))),
                ["200 \u{b1}0", "200 \u{b1}0"],
            ),
            (
                Some(side(160.412, None)),
                Some(side(160.377, None)),
                ["160.41", "160.38"],
            ),
            (Some(side(5.732, None)), None, ["5.73", "-"]),
            (
                Some(side(1e-12, Some(0.0))),
                Some(side(12_345.5, Some(0.0))),
                ["0.0 \u{b1}0.0", "12345.5 \u{b1}0.0"],
            ),
        ] {
            let figure = FigureComparison {
                figure: "connect-p50-ms",
                before,
                after,
                change_percent: None,
                p: None,
                real: None,
                worse: None,
            };
            let [_, one, other, ..] = cells(&figure);
            assert_eq!([one.as_str(), other.as_str()], told);
        }
    }
}
