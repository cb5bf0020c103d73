//! Why there are more overflows than losing clients, as a table whose rows add up to the kernel's count.

use std::fmt::Write as _;

use crate::figure::Figure;
use crate::result::{ArmResult, OVERFLOWS_TAKEN_APART, Status, TrialResult};

/// The table of an arm's first valid trial, in Markdown; `None` when nothing overflowed, or the books of that
/// trial do not explain it.
pub fn why_overflows(arm: &ArmResult) -> Option<String> {
    let trial = first_valid(arm)?;
    (!trial.why_overflows.is_empty()).then(|| table(trial))
}

/// Where there is no such table although something overflowed: a sentence that says why, without its stop.
pub fn why_not_judged(arm: &ArmResult) -> Option<String> {
    let trial = first_valid(arm)?;
    let mut books = trial.books.iter();
    let entry = books.find(|entry| entry.identity == OVERFLOWS_TAKEN_APART)?;
    let overflows = entry.left.filter(|overflows| *overflows > 0)?;
    let because = match (entry.not_judged, entry.right) {
        (Some(why), _) => why.to_owned(),
        (None, Some(right)) if entry.holds == Some(false) => {
            format!("the totals do not agree, they give {right}")
        }
        _ => return None,
    };
    Some(format!(
        "Why there were {overflows} overflows (trial {}) is not judged: {because}",
        trial.index
    ))
}

fn first_valid(arm: &ArmResult) -> Option<&TrialResult> {
    arm.trials.iter().find(|one| one.status == Status::Ok)
}

fn table(trial: &TrialResult) -> String {
    let overflows: i64 = trial.why_overflows.iter().map(|term| term.packets).sum();
    let losers = trial.figure(&Figure::Named("not-ok"));
    let mut text = match losers {
        Some(1.0) => format!("Why {overflows} overflows for one losing client"),
        Some(losers) => format!("Why {overflows} overflows for {losers} losing clients"),
        None => format!("Why {overflows} overflows"),
    };
    let _ = writeln!(text, " (trial {}):\n", trial.index);
    let _ = writeln!(text, "| what the kernel counted | packets |\n| --- | --: |");
    for term in &trial.why_overflows {
        let sign = if term.packets < 0 { '-' } else { '+' };
        let _ = writeln!(
            text,
            "| {} | {sign} {} |",
            term.what,
            term.packets.unsigned_abs()
        );
    }
    let _ = writeln!(
        text,
        "| **packets that met the full accept queue** | **= {overflows}** |"
    );
    text
}
