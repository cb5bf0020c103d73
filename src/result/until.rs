//! An open end: trials go on until a figure's interval is as tight as asked for, or there have been enough.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Status, Summary, TrialResult, trial_result};
use crate::observation::Observation;
use crate::plan::{Plan, PlannedArm, Until};

/// How far an arm with an open end has come.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reached {
    /// The figure.
    pub figure: String,
    /// The half width of its mean's 95 % interval that was asked for, in percent of the mean.
    pub asked_percent: f64,
    /// The half width at the end; `null` when it is unknown.
    pub percent: Option<f64>,
    /// Whether it is tight enough.
    pub reached: bool,
}

/// Fewer trials that happen to agree prove nothing.
const LEAST_TRIALS: usize = 5;

/// How tight a figure is over the valid trials.
pub(super) fn reached(until: &Until, trials: &[TrialResult]) -> Reached {
    let figure = until.figure.parse().ok();
    let valid = trials.iter().filter(|trial| trial.status == Status::Ok);
    let values = valid.filter_map(|trial| trial.figure(figure.as_ref()?));
    let percent = Summary::of(values.collect())
        .filter(|summary| summary.n >= LEAST_TRIALS)
        .and_then(half_width_percent);
    Reached {
        figure: until.figure.clone(),
        asked_percent: until.percent,
        percent,
        reached: percent.is_some_and(|percent| percent <= until.percent),
    }
}

fn half_width_percent(summary: Summary) -> Option<f64> {
    let half = summary.ci95_high? - summary.mean;
    if half == 0.0 {
        return Some(0.0);
    }
    (summary.mean != 0.0).then(|| half / summary.mean.abs() * 100.0)
}

/// Whether an arm needs further trials after these observations.
pub fn wants_more(plan: &Plan, arm: &PlannedArm, observations: &[Observation]) -> bool {
    let Some(until) = &plan.schedule.until else {
        return true;
    };
    let of_arm = observations.iter().filter(|one| one.arm == arm.name);
    let trials: Vec<TrialResult> = of_arm.map(|one| trial_result(&arm.settings, one)).collect();
    !reached(until, &trials).reached
}
