//! Why there are more overflows than losing clients, as a table whose rows add up to the kernel's count.

use std::fmt::Write as _;

use crate::figure::Figure;
use crate::result::{ArmResult, Status, TrialResult};

/// The table of an arm's first valid trial, in Markdown; `None` when nothing overflowed, or the books of that
/// trial do not explain it.
pub fn why_overflows(arm: &ArmResult) -> Option<String> {
    let trial = arm.trials.iter().find(|one| one.status == Status::Ok)?;
    (!trial.why_overflows.is_empty()).then(|| table(trial))
}

fn table(trial: &TrialResult) -> String {
    let overflows: i64 = trial.why_overflows.iter().map(|term| term.packets).sum();
    let losers = trial.figure(&Figure::Named("not-ok"));
    let mut text = match losers {
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
