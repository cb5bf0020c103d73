//! Carries out a plan: one trial after the other, or several at once, each stored the moment it ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use super::{Event, Lab, RunFolder, StoreError, TrialError};
use crate::load::Progress;
use crate::observation::{Observation, SCHEMA_VERSION, TrialStatus};
use crate::plan::{Plan, Trial};
use crate::result::wants_more;

/// Runs the trials of a plan and stores each observation the moment its trial ends. The warm-up is not stored.
///
/// # Errors
/// An observation that could not be stored; those before it are.
pub fn execute(
    plan: &Plan,
    lab: &(impl Lab + Sync),
    folder: &RunFolder,
    watch: impl FnMut(Event<'_>),
) -> Result<Vec<Observation>, StoreError> {
    carry_out(plan, lab, Some(folder), watch)
}

/// Runs one trial and stores its observation the moment it ends; `None` when it was ended before its time.
///
/// # Errors
/// The observation could not be stored.
pub(super) fn execute_one(
    trial: Trial<'_>,
    lab: &(impl Lab + Sync),
    folder: &RunFolder,
    mut watch: impl FnMut(Event<'_>),
) -> Result<Option<Observation>, StoreError> {
    let mut observations = Vec::new();
    let trials = [trial];
    Batch::new(lab, Some(folder), &trials).run(1, &mut watch, &mut observations)?;
    Ok(observations.pop())
}

/// Runs the trials of a plan and stores nothing.
///
/// # Errors
/// None: nothing is stored.
pub fn observe(
    plan: &Plan,
    lab: &(impl Lab + Sync),
    watch: impl FnMut(Event<'_>),
) -> Result<Vec<Observation>, StoreError> {
    carry_out(plan, lab, None, watch)
}

fn carry_out(
    plan: &Plan,
    lab: &(impl Lab + Sync),
    folder: Option<&RunFolder>,
    mut watch: impl FnMut(Event<'_>),
) -> Result<Vec<Observation>, StoreError> {
    let mut observations = Vec::new();
    let order = plan.order();
    if plan.schedule.warm_up {
        let first: Vec<Trial<'_>> = order.iter().copied().filter(|one| one.index == 0).collect();
        let warm_up = Batch::new(lab, None, &first);
        if warm_up.run(plan.schedule.jobs, &mut watch, &mut Vec::new())? == End::Interrupted {
            return Ok(observations);
        }
    }
    // An open end is looked for after each round.
    let rounds: Vec<Vec<Trial<'_>>> = match plan.schedule.until {
        None => vec![order],
        Some(_) => (0..plan.trials)
            .map(|round| {
                order
                    .iter()
                    .copied()
                    .filter(|one| one.index == round)
                    .collect()
            })
            .collect(),
    };
    for mut round in rounds {
        round.retain(|trial| wants_more(plan, trial.arm, &observations));
        let batch = Batch::new(lab, folder, &round);
        if batch.run(plan.schedule.jobs, &mut watch, &mut observations)? == End::Interrupted {
            break;
        }
    }
    Ok(observations)
}

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    All,
    Interrupted,
}

/// Trials that do not wait for one another.
struct Batch<'a, 'p, L> {
    lab: &'a L,
    folder: Option<&'a RunFolder>,
    trials: &'a [Trial<'p>],
    next: AtomicUsize,
    stop: AtomicBool,
}

/// What a worker tells whoever watches.
enum Message<'p> {
    Begins(Trial<'p>, Arc<Progress>),
    Ended(Box<Observation>),
    Lost(StoreError),
}

impl<'a, 'p, L: Lab + Sync> Batch<'a, 'p, L> {
    fn new(lab: &'a L, folder: Option<&'a RunFolder>, trials: &'a [Trial<'p>]) -> Self {
        Self {
            lab,
            folder,
            trials,
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Runs them, `jobs` at a time.
    fn run(
        &self,
        jobs: u32,
        watch: &mut impl FnMut(Event<'_>),
        observations: &mut Vec<Observation>,
    ) -> Result<End, StoreError> {
        let (tell, told) = mpsc::channel();
        let mut lost = None;
        thread::scope(|scope| {
            for _ in 0..jobs.min(u32::try_from(self.trials.len()).unwrap_or(u32::MAX)) {
                let tell = tell.clone();
                scope.spawn(move || self.work(&tell));
            }
            drop(tell);
            for message in told {
                match message {
                    Message::Begins(trial, progress) => watch(Event::Begins {
                        trial,
                        progress: &progress,
                    }),
                    Message::Ended(observation) => {
                        watch(Event::Ended(&observation));
                        observations.push(*observation);
                    }
                    Message::Lost(error) => lost = Some(error),
                }
            }
        });
        match lost {
            Some(error) => Err(error),
            None if self.stop.load(Ordering::Relaxed) => Ok(End::Interrupted),
            None => Ok(End::All),
        }
    }

    /// One worker: a trial is stored before the next one begins.
    fn work(&self, tell: &mpsc::Sender<Message<'p>>) {
        while !self.stop.load(Ordering::Relaxed)
            && let Some(&trial) = self.trials.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            let progress = Arc::new(Progress::default());
            // Nobody listens any more only when the watcher has panicked.
            let _ = tell.send(Message::Begins(trial, Arc::clone(&progress)));
            let Some(mut observation) = self.observe(trial, &progress) else {
                self.stop.store(true, Ordering::Relaxed);
                return;
            };
            let stored = match self.folder {
                Some(folder) => folder.store(&mut observation),
                None => Ok(()),
            };
            let _ = tell.send(match stored {
                Ok(()) => Message::Ended(Box::new(observation)),
                Err(error) => {
                    self.stop.store(true, Ordering::Relaxed);
                    Message::Lost(error)
                }
            });
        }
    }

    /// One trial; `None` when it was ended before its time.
    fn observe(&self, trial: Trial<'_>, progress: &Arc<Progress>) -> Option<Observation> {
        let (status, reason, measured) = match self.lab.observe(trial, progress) {
            Ok(measured) => (TrialStatus::Measured, None, Some(measured)),
            Err(error) => {
                let reason = Some(error.to_string());
                match error {
                    TrialError::Interrupted => return None,
                    TrialError::Refused(_) | TrialError::Skipped(_) => {
                        (TrialStatus::Skipped, reason, None)
                    }
                    TrialError::Failed { measured, .. } => (
                        TrialStatus::Failed,
                        reason,
                        measured.map(|measured| *measured),
                    ),
                }
            }
        };
        Some(Observation {
            schema_version: SCHEMA_VERSION,
            arm: trial.arm.name.clone(),
            index: trial.index,
            status,
            reason,
            measured,
        })
    }
}
