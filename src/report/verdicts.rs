//! A verdict for each arm in words, with what was expected and what to keep in mind.

use super::books::why_not_judged;
use super::wrap::wrapped;
use crate::result::{ArmResult, Reached, Results, Status};

/// A verdict for each arm, wrapped to the terminal's width.
pub fn verdicts(results: &Results, width: usize) -> String {
    let mut text: String = results.arms.iter().map(verdict).collect();
    let mut not_judged: Vec<&String> = results
        .arms
        .iter()
        .filter_map(|arm| arm.verdict.not_judged.as_ref())
        .collect();
    not_judged.sort();
    not_judged.dedup();
    for why in not_judged {
        text.push_str(&format!("expectations were not judged: {why}\n"));
    }
    if !results.complete {
        text.push_str("the run is partial: not every planned trial has ended\n");
    }
    wrapped(&text, width, "  ")
}

/// `arm-a [as expected]: 30 of 200 answered. ..`, and what to keep in mind below it.
fn verdict(arm: &ArmResult) -> String {
    let met = match arm.verdict.met {
        Some(true) => " [as expected]",
        Some(false) => " [NOT as expected]",
        None => "",
    };
    let closed = arm
        .trials
        .iter()
        .all(|trial| trial.open_books().next().is_none());
    let books = if closed {
        ""
    } else {
        " [the books do NOT close]"
    };
    let mut text = format!("{}{met}{books}: {}\n", arm.name, arm.verdict.text);
    let judged = arm.verdict.not_judged.is_none() && !arm.summary.is_empty();
    for one in &arm.verdict.expectations {
        let observed = match (one.met, one.observed) {
            (Some(false), Some(value)) => value.to_string(),
            (None, None) if judged => "unknown".to_owned(),
            _ => continue,
        };
        text.push_str(&format!(
            "  expected {} = {}, observed {observed}\n",
            one.key, one.expected
        ));
    }
    if let Some(told) = why_not_judged(arm) {
        text.push_str(&format!("  {told}\n"));
    }
    if let Some(until) = &arm.until {
        text.push_str(&format!("  {}\n", reached(until, arm.trials.len())));
    }
    if let Some(published) = &arm.settings.published {
        let figures: Vec<String> = published
            .figures
            .iter()
            .map(|(figure, value)| format!("{figure} {value}"))
            .collect();
        text.push_str(&format!(
            "  published: {} ({})\n",
            figures.join(", "),
            published.source
        ));
    }
    for trial in &arm.trials {
        if trial.status != Status::Ok && !arm.summary.is_empty() {
            let reason = trial.reason.as_deref().unwrap_or("for an unknown reason");
            text.push_str(&format!(
                "  trial {} is {}: {reason}\n",
                trial.index, trial.status
            ));
        }
    }
    let mut notes: Vec<&String> = arm.trials.iter().flat_map(|trial| &trial.notes).collect();
    notes.sort();
    notes.dedup();
    for note in notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}

/// The arms that did not become as tight as was asked for, a line each.
pub fn not_reached(results: &Results) -> Vec<String> {
    let arms = results.arms.iter();
    let open = arms.filter_map(|arm| Some((arm, arm.until.as_ref().filter(|one| !one.reached)?)));
    open.map(|(arm, until)| format!("{}: {}", arm.name, reached(until, arm.trials.len())))
        .collect()
}

/// How tight an arm with an open end has become.
fn reached(until: &Reached, trials: usize) -> String {
    let Reached {
        figure,
        asked_percent,
        ..
    } = until;
    let width = match until.percent {
        Some(percent) => format!("within {percent:.1} %"),
        None => "unknown".to_owned(),
    };
    if until.reached {
        format!("{figure} is {width} after {trials} trials")
    } else {
        format!(
            "NOT REACHED: {figure} within {asked_percent} %; it is {width} after {trials} trials"
        )
    }
}
