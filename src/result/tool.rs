//! A load tool's own account, beside which stands what the kernel and the server counted.

use schemars::JsonSchema;
use serde::Serialize;

use super::stats::ms;
use super::{Status, TrialResult};
use crate::arm::{Arm, claimed};
use crate::observation::ToolRun;

/// What a load tool did and says.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToolResult {
    /// The command as it was run.
    pub command: Vec<String>,
    /// Its exit code; `null` when a signal ended it.
    pub exit_code: Option<i32>,
    /// How it ended, in words.
    pub ended: String,
    /// Whether it ended by itself, before its limit.
    pub in_time: bool,
    /// How long it ran.
    pub ran_ms: f64,
    /// Requests that it says it completed; `null` when its output does not say, or the arm does not ask.
    pub claimed_completed: Option<f64>,
    /// Requests that it says failed; `null` likewise.
    pub claimed_failed: Option<f64>,
    /// The last line that it wrote to standard error, or else to standard output.
    pub last_words: Option<String>,
}

impl ToolResult {
    pub(super) fn of(arm: &Arm, run: &ToolRun) -> Self {
        let output = format!("{}\n{}", run.stdout, run.stderr);
        let claim = |pattern: &Option<String>| claimed(pattern.as_deref()?, &output);
        let claims = &arm.client.claims;
        Self {
            command: run.command.clone(),
            exit_code: run.exit_code,
            ended: run.ended.clone(),
            in_time: run.in_time,
            ran_ms: ms(run.ended_us.saturating_sub(run.started_us)),
            claimed_completed: claim(&claims.completed),
            claimed_failed: claim(&claims.failed),
            last_words: last_line(&run.stderr).or_else(|| last_line(&run.stdout)),
        }
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        let program = self.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or_default()
    }

    /// What it says: its claims where the arm asks for them, else its last words.
    pub fn says(&self, arm: &Arm) -> String {
        let claims = &arm.client.claims;
        let claims = [
            (&claims.completed, self.claimed_completed, "completed"),
            (&claims.failed, self.claimed_failed, "failed"),
        ];
        let told: Vec<String> = claims
            .into_iter()
            .filter(|(pattern, ..)| pattern.is_some())
            .map(|(_, claimed, word)| match claimed {
                Some(number) => format!("{number} {word}"),
                None => format!("nothing of {word}"),
            })
            .collect();
        if told.is_empty() {
            return self.last_words.clone().unwrap_or_else(|| "nothing".into());
        }
        told.join(", ")
    }
}

/// The last line that says anything, cut where it would fill a page.
fn last_line(text: &str) -> Option<String> {
    const MOST: usize = 300;
    let mut lines = text.lines().rev().map(str::trim);
    let line = lines.find(|line| !line.is_empty())?;
    Some(line.chars().take(MOST).collect())
}

/// What to keep in mind about a tool's run.
pub(super) fn notes(arm: &Arm, run: &ToolRun, tool: &ToolResult) -> Vec<String> {
    let name = tool.name();
    let mut notes = Vec::new();
    if !tool.in_time {
        notes.push(format!(
            "{name} was ended at its limit of {} (client.limit)",
            arm.client.most()
        ));
    }
    let claims = &arm.client.claims;
    for (key, pattern, claimed) in [
        ("completed", &claims.completed, tool.claimed_completed),
        ("failed", &claims.failed, tool.claimed_failed),
    ] {
        if let (Some(pattern), None) = (pattern, claimed) {
            notes.push(format!(
                "{name} says nothing of {key}: no number in its output matches {pattern}"
            ));
        }
    }
    if run.left_out_bytes > 0 {
        notes.push(format!(
            "{} bytes of {name}'s output, in the middle, were not kept",
            run.left_out_bytes
        ));
    }
    notes
}

/// The tool's account and the kernel's, in the first valid trial.
pub(super) fn sentence(arm: &Arm, trial: &TrialResult) -> Option<String> {
    let tool = trial.tool.as_ref().filter(|_| trial.status == Status::Ok)?;
    let mut text = format!(
        "{} {} after {:.1} s, and says: {}.",
        tool.name(),
        tool.ended,
        tool.ran_ms / 1_000.0,
        tool.says(arm).trim_end_matches('.')
    );
    let opens = trial.counters.server.get("Tcp.PassiveOpens").copied();
    if let Some(opens) = opens.flatten() {
        text += &format!(" The kernel finished {opens} handshakes");
        if let Some(accepted) = trial.accepted {
            text += &format!(", the server accepted {accepted}");
        }
        text += ".";
    }
    Some(text)
}
