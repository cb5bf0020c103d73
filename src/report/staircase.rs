//! Steps of more and more load as a table, with the breaking point and what limits it.

use std::fmt::Write as _;

use super::table::{lines, wrapped};
use crate::result::{Results, Staircase, Step};

/// Every staircase of a run, for a terminal of `width` columns.
pub fn staircases(results: &Results, width: usize) -> String {
    let mut text = String::new();
    for one in &results.staircases {
        let _ = writeln!(text, "{} by {}", one.name, one.by);
        let (heads, rows) = cells(one);
        for line in lines(&heads, &rows) {
            let _ = writeln!(text, "{line}");
        }
        let mut told = sentences(one).join("\n");
        told += "\n";
        let _ = writeln!(text, "\n{}", wrapped(&told, width, "  "));
    }
    text
}

/// The same as Markdown.
pub(super) fn markdown(one: &Staircase) -> String {
    let mut text = format!("## Steps of {} by {}\n\n", one.name, one.by);
    let (heads, rows) = cells(one);
    let heads: Vec<String> = heads.iter().map(|head| head.replace(':', " ")).collect();
    let _ = writeln!(text, "| {} |", heads.join(" | "));
    let _ = writeln!(text, "| {} |", vec!["--:"; heads.len()].join(" | "));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    let _ = writeln!(text);
    for sentence in sentences(one) {
        let _ = writeln!(text, "- {sentence}");
    }
    text + "\n"
}

fn cells(one: &Staircase) -> (Vec<String>, Vec<Vec<String>>) {
    let heads = [
        one.by.to_string().as_str(),
        "borne?",
        "served:per s",
        "ms p50/p99:from intended",
        "not ok",
        "over-:flows",
        "first at s:(predicted)",
        "CPU % server:client/idle",
    ]
    .map(str::to_owned)
    .to_vec();
    let number = |value: Option<f64>, decimals: usize| {
        value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}"))
    };
    let short = |value: Option<f64>| number(value, usize::from(value.is_some_and(|ms| ms < 100.0)));
    let seconds = |ms: Option<f64>| number(ms.map(|ms| ms / 1_000.0), 2);
    let row = |step: &Step| {
        let short_word = if step.too_short { " short" } else { "" };
        vec![
            format!("{}", step.load),
            format!("{}{short_word}", step.held),
            number(step.answered_per_s, 1),
            format!("{}/{}", short(step.p50_ms), short(step.p99_ms)),
            number(step.not_ok, 0),
            number(step.overflows, 0),
            format!(
                "{} ({})",
                seconds(step.first_overflow_ms),
                seconds(step.predicted_overflow_ms)
            ),
            format!(
                "{} {}/{}",
                number(step.server_cpu_percent, 0),
                number(step.client_cpu_percent, 0),
                number(step.idle_percent, 0)
            ),
        ]
    };
    (heads, one.steps.iter().map(row).collect())
}

/// The breaking point, what was to be expected, what limits it, and which steps say nothing.
pub(super) fn sentences(one: &Staircase) -> Vec<String> {
    let mut told = vec![breaking_point(one)];
    if let (Some(load), Some(why)) = (one.predicted, &one.prediction) {
        let load = format!("{load:.0}").parse().unwrap_or(load);
        told.push(format!(
            "Predicted: {}. {}.",
            one.by.told(load),
            capital(why)
        ));
    }
    if let (Some(limit), Some(why)) = (one.limit, &one.limit_told) {
        told.push(format!("What limits it: {limit}. {}.", capital(why)));
    }
    let short: Vec<String> = one
        .steps
        .iter()
        .filter(|step| step.too_short)
        .map(|step| one.by.told(step.load))
        .collect();
    if !short.is_empty() {
        told.push(format!(
            "Too short to fill the queue: {}. There more comes than is accepted, and the step ended before that could be seen.",
            short.join(", ")
        ));
    }
    told
}

fn breaking_point(one: &Staircase) -> String {
    let told = |load: f64| one.by.told(load);
    let holds = "no overflow and no failed client";
    match (one.holds, one.breaks, one.limit) {
        (Some(low), Some(high), limit) if !limit.is_some_and(crate::result::Limit::is_clients) => {
            format!(
                "Breaking point: between {} ({holds}) and {}.",
                told(low),
                told(high)
            )
        }
        (Some(low), _, Some(_)) => format!(
            "Breaking point: not found. {} are borne ({holds}); beyond that the client is the limit.",
            told(low)
        ),
        (Some(low), _, None) => {
            format!(
                "Breaking point: not found. {} are borne ({holds}).",
                told(low)
            )
        }
        (None, Some(high), _) => format!("Breaking point: below {}.", told(high)),
        (None, None, _) => "Breaking point: unknown.".into(),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(chars).collect()
}
