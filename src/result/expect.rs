//! Expectations: what an arm says every valid trial must meet, held against the trials.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Kind, Status, TrialResult};
use crate::arm::{Arm, Bound};
use crate::figure::Figure;
use crate::manifest::Host;
use crate::plan::Plan;

/// What an arm shows, and whether it met what was expected.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Verdict {
    /// Whether every expectation was met; `null` when that cannot be said or was not asked.
    pub met: Option<bool>,
    /// What the arm shows, in one word; `null` when it was not measured or nobody listens.
    pub kind: Option<Kind>,
    /// In plain words.
    pub text: String,
    /// Why expectations were not judged.
    pub not_judged: Option<String>,
    /// Each expectation.
    pub expectations: Vec<Judged>,
}

/// One expectation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Judged {
    /// The figure.
    pub key: String,
    /// What it must be.
    pub expected: Bound,
    /// What it was in the first trial that does not meet it, else in the first trial.
    pub observed: Option<f64>,
    /// Whether every valid trial met it; `null` when it was not judged or the figure is unknown.
    pub met: Option<bool>,
}

pub(super) fn judge(arm: &Arm, plan: &Plan, host: &Host, trials: &[TrialResult]) -> Verdict {
    let valid: Vec<&TrialResult> = trials
        .iter()
        .filter(|trial| trial.status == Status::Ok)
        .collect();
    let kernel = host.kernel.as_deref().unwrap_or("unknown");
    let elsewhere = arm
        .expect
        .kernel
        .as_ref()
        .filter(|range| !range.admits(kernel));
    let overridden = !plan.expectations_apply();
    let not_judged = if let Some(range) = elsewhere {
        Some(format!(
            "they are meant for kernels {range}, this is {kernel}"
        ))
    } else if overridden && !arm.expect.bounds.is_empty() {
        Some("they were written for the arm before it was changed by --set".into())
    } else {
        None
    };
    let set_for_this_run = |figure: &Figure| {
        let name = figure.to_string();
        plan.overrides.iter().any(|one| one.expects(&name))
    };
    let expectations: Vec<Judged> = arm
        .expect
        .bounds
        .iter()
        .map(|(figure, bound)| {
            let observed: Vec<Option<f64>> =
                valid.iter().map(|trial| trial.figure(figure)).collect();
            let missed = observed
                .iter()
                .flatten()
                .copied()
                .find(|value| !bound.admits(*value));
            let judged = elsewhere.is_none() && (!overridden || set_for_this_run(figure));
            let known = !observed.is_empty() && observed.iter().all(Option::is_some);
            Judged {
                key: figure.to_string(),
                expected: *bound,
                observed: missed.or_else(|| observed.first().copied().flatten()),
                met: match (judged, missed) {
                    (false, _) => None,
                    (true, Some(_)) => Some(false),
                    (true, None) => known.then_some(true),
                },
            }
        })
        .collect();
    let met = if expectations.iter().any(|one| one.met == Some(false)) {
        Some(false)
    } else {
        let all = !expectations.is_empty() && expectations.iter().all(|one| one.met == Some(true));
        all.then_some(true)
    };
    Verdict {
        met,
        kind: None,
        text: String::new(),
        not_judged,
        expectations,
    }
}
