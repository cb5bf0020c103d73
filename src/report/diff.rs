//! A comparison of two runs, for a terminal and in Markdown.

use std::fmt::Write as _;

use super::table::aligned;
use crate::result::{ArmComparison, Comparison, FigureComparison, Summary};

const HEADS: [&str; 5] = ["figure", "before", "after", "change", "difference"];

/// The comparison for a terminal.
pub fn diff(comparison: &Comparison) -> String {
    let mut text = format!("{} and {}\n", comparison.before, comparison.after);
    for line in &comparison.different_setup {
        let _ = writeln!(text, "different setup: {line}");
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
            let _ = writeln!(text, "  note: {note}");
        }
    }
    text.push_str(&method(comparison));
    text
}

/// How the comparison was made, below it.
fn method(comparison: &Comparison) -> String {
    format!(
        "\nMeans with the half widths of their 95 % intervals. A difference is\ntold from chance by {}.\n",
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
    [
        figure.figure.to_owned(),
        interval(figure.before),
        interval(figure.after),
        figure
            .change_percent
            .map_or_else(|| "-".into(), |percent| format!("{percent:+.1} %")),
        figure.in_a_word(),
    ]
}

/// `29.4 ±0.7`.
fn interval(summary: Option<Summary>) -> String {
    let Some(summary) = summary else {
        return "-".into();
    };
    match summary.ci95_high {
        Some(high) => format!("{:.1} ±{:.1}", summary.mean, high - summary.mean),
        None => format!("{:.1}", summary.mean),
    }
}
