//! The search for an arm's breaking point, on a lab: each load is an arm of the run, and is in its plan before its first
//! trial begins.

use super::execute::execute_one;
use super::{Event, Lab, RunFolder, StoreError};
use crate::arm::Arm;
use crate::manifest::Manifest;
use crate::observation::Observation;
use crate::plan::{Plan, Trial};
use crate::result::{Step, TrialResult, results, step};
use crate::search::Search;

/// What whoever watches a search is told.
pub enum Sought<'a> {
    /// Something about a trial.
    Trial(Event<'a>),
    /// How a load has gone so far.
    Load {
        /// The load.
        load: u32,
        /// All of its trials.
        step: &'a Step,
        /// The last of them.
        last: &'a TrialResult,
        /// Whether it is tried again at once.
        again: bool,
    },
    /// No client can raise a load.
    Refused {
        /// The load.
        load: u32,
        /// Why.
        why: String,
    },
}

/// What a search has found.
#[derive(Debug)]
pub struct Found {
    /// The run with all that was tried.
    pub manifest: Manifest,
    /// What was read.
    pub observations: Vec<Observation>,
}

/// Carries out a search to its end, or until a trial is ended before its time. `arm_at` gives the arm for a load, or why
/// it cannot be raised.
///
/// # Errors
/// The plan or an observation could not be stored.
pub fn seek(
    search: &mut Search,
    arm_at: impl Fn(u32) -> Result<Arm, String>,
    lab: &(impl Lab + Sync),
    folder: &RunFolder,
    mut manifest: Manifest,
    mut watch: impl FnMut(Sought<'_>),
) -> Result<Found, StoreError> {
    let mut observations: Vec<Observation> = Vec::new();
    while let Some(load) = search.next() {
        let arm = match arm_at(load) {
            Ok(arm) => arm,
            Err(why) => {
                search.refuse(load);
                watch(Sought::Refused { load, why });
                continue;
            }
        };
        let name = arm.name.clone();
        let index = add_trial(&mut manifest.plan, arm);
        folder.describe(&manifest)?;
        // Of this arm alone, with all of its trials so far.
        let alone = Manifest {
            plan: of_one(&manifest.plan, &name),
            ..manifest.clone()
        };
        let trial: Option<Trial<'_>> = alone
            .plan
            .arms
            .first()
            .map(|arm| alone.plan.trial(arm, index));
        let watched = |event: Event<'_>| watch(Sought::Trial(event));
        let Some(observation) = trial
            .map(|trial| execute_one(trial, lab, folder, watched))
            .transpose()?
            .flatten()
        else {
            break;
        };
        observations.push(observation);
        let own: Vec<Observation> = observations
            .iter()
            .filter(|one| one.arm == name)
            .cloned()
            .collect();
        let results = results(&alone, &own);
        if let Some(arm) = results.arms.first()
            && let Some(last) = arm.trials.last()
        {
            let step = step(arm);
            search.record(load, step.held, step.tries);
            let again = search.next() == Some(load);
            watch(Sought::Load {
                load,
                step: &step,
                last,
                again,
            });
        }
    }
    Ok(Found {
        manifest,
        observations,
    })
}

/// Adds a trial of an arm to a plan, and the arm where it is new; the trial's number.
fn add_trial(plan: &mut Plan, arm: Arm) -> u32 {
    if let Some(known) = plan.arms.iter_mut().find(|one| one.name == arm.name) {
        let index = known.trials.unwrap_or(0);
        known.trials = Some(index + 1);
        return index;
    }
    let mut new = Plan::new(vec![arm], 1, plan.seed, Vec::new()).arms;
    for arm in &mut new {
        arm.trials = Some(1);
    }
    plan.arms.append(&mut new);
    0
}

fn of_one(plan: &Plan, name: &str) -> Plan {
    let mut one = plan.clone();
    one.arms.retain(|arm| arm.name == name);
    one
}
