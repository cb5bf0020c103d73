//! When connections are meant to start: all known in advance, or each decided by the end of an earlier one.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::arm::{ClientSpec, Loop};
use crate::observation::{Attempt, Ended};
use crate::random::SplitMix64;

/// The start times of a flood, handed out one by one.
pub struct Schedule {
    next: AtomicU32,
    /// Attempts that found no worker free at their time.
    starved: AtomicU32,
    times: Times,
}

enum Times {
    /// By number, in rising order. An attempt of an open loop keeps its time though no worker was free then.
    Known { starts_us: Vec<u64>, open: bool },
    /// Each worker starts its next attempt when the last one has ended, and not before its pace allows.
    Closed {
        workers: u64,
        pace_us: u64,
        until_us: u64,
    },
}

/// One attempt's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its number, from 0.
    pub(super) n: u32,
    /// When it is meant to start.
    pub(super) intended_us: u64,
}

/// What matters of a worker's last attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    /// When it was meant to start.
    intended_us: u64,
    /// Whether a system call failed.
    failed: bool,
}

impl From<&Attempt> for Last {
    fn from(attempt: &Attempt) -> Self {
        Self {
            intended_us: attempt.intended_us,
            failed: attempt.ended == Ended::Error,
        }
    }
}

/// The pause of a closed loop's worker after an attempt that failed.
const AFTER_FAILURE_US: u64 = 1_000;

impl Schedule {
    /// The schedule of these settings; what is left to chance is decided by the seed.
    pub fn new(spec: &ClientSpec, seed: u64) -> Self {
        let times = match spec.pacing() {
            Loop::Flood => {
                let spread =
                    |n: u32| spec.spread.as_us() * u64::from(n) / u64::from(spec.connections);
                Times::known(spec, seed, false, spread)
            }
            Loop::Open(rate) => Times::known(spec, seed, true, |n| rate.due_us(n.into())),
            Loop::Closed => {
                let workers = u64::from(spec.connections);
                Times::Closed {
                    workers,
                    pace_us: spec.rate.map_or(0, |rate| rate.due_us(workers)),
                    until_us: spec.duration.as_us(),
                }
            }
        };
        Self {
            next: AtomicU32::new(0),
            starved: AtomicU32::new(0),
            times,
        }
    }

    /// When the `n`-th attempt is meant to start, where that is known in advance; `None` beyond the last.
    pub(super) fn start_us(&self, n: u32) -> Option<u64> {
        match &self.times {
            Times::Known { starts_us, .. } => starts_us.get(n as usize).copied(),
            Times::Closed { .. } => None,
        }
    }

    /// The next attempt of a worker, numbered from 0, that is free at `now_us` after its `last` attempt. `None` when
    /// there is nothing more to do. In a closed loop, a worker whose attempt has failed waits a moment: where attempts
    /// fail at once, it would do nothing else.
    pub(super) fn turn(&self, worker: u32, last: Option<Last>, now_us: u64) -> Option<Turn> {
        let last_us = last.map(|last| last.intended_us);
        let intended_us = match &self.times {
            Times::Known { starts_us, open } => {
                let n = self.next.fetch_add(1, Ordering::Relaxed);
                let due_us = *starts_us.get(n as usize)?;
                let starved = last_us.is_some() && due_us < now_us;
                if starved {
                    self.starved.fetch_add(1, Ordering::Relaxed);
                }
                // Where the number of workers is part of the experiment, waiting for one is as it is meant.
                let intended_us = if starved && !open { now_us } else { due_us };
                return Some(Turn { n, intended_us });
            }
            Times::Closed {
                workers,
                pace_us,
                until_us,
            } => {
                let paced_us = match last_us {
                    Some(last_us) => last_us + pace_us,
                    None => pace_us * u64::from(worker) / workers,
                };
                let pause_us = match last {
                    Some(Last { failed: true, .. }) => AFTER_FAILURE_US,
                    _ => 0,
                };
                let intended_us = paced_us.max(last_us.map_or(0, |_| now_us + pause_us));
                (intended_us < *until_us).then_some(intended_us)?
            }
        };
        Some(Turn {
            n: self.next.fetch_add(1, Ordering::Relaxed),
            intended_us,
        })
    }

    /// Attempts of an open loop that found no worker free at their time.
    pub(super) fn starved(&self) -> u32 {
        match self.times {
            Times::Known { open: true, .. } => self.starved.load(Ordering::Relaxed),
            Times::Known { open: false, .. } | Times::Closed { .. } => 0,
        }
    }
}

impl Times {
    fn known(spec: &ClientSpec, seed: u64, open: bool, due_us: impl Fn(u32) -> u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let late_us = |random: &mut SplitMix64| match spec.jitter.as_us() {
            0 => 0,
            most_us => random.below(most_us),
        };
        let mut starts_us: Vec<u64> = (0..spec.connections)
            .map(|n| due_us(n).saturating_add(late_us(&mut random)))
            .collect();
        starts_us.sort_unstable();
        Self::Known { starts_us, open }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{PerSecond, Span};
    use proptest::prelude::*;

    fn well(intended_us: u64) -> Last {
        Last {
            intended_us,
            failed: false,
        }
    }

    fn open(rate: u32, ms: u64) -> ClientSpec {
        let (rate, duration) = (PerSecond::whole(rate), Span::from_ms(ms));
        ClientSpec {
            connections: u32::try_from(rate.within(duration)).unwrap(),
            rate: Some(rate),
            duration,
            ..ClientSpec::default()
        }
    }

    #[test]
    fn an_open_loop_keeps_its_times_whatever_is_late() {
        let schedule = Schedule::new(&open(100, 50), 7);
        let turn = |last_us: Option<u64>, now_us| schedule.turn(0, last_us.map(well), now_us);
        let due = |n: u32| {
            Some(Turn {
                n,
                intended_us: u64::from(n) * 10_000,
            })
        };
        assert_eq!(turn(None, 5), due(0));
        assert_eq!(turn(Some(0), 900), due(1));
        assert_eq!(schedule.starved(), 0);
        assert_eq!(turn(Some(10_000), 35_000), due(2));
        assert_eq!(turn(Some(20_000), 35_000), due(3));
        assert_eq!(turn(Some(30_000), 35_000), due(4));
        assert_eq!(schedule.starved(), 2);
        assert_eq!(turn(Some(40_000), 60_000), None);
    }

    #[test]
    fn a_flood_starts_when_a_worker_is_free() {
        let spec = ClientSpec {
            connections: 3,
            ..ClientSpec::default()
        };
        let schedule = Schedule::new(&spec, 7);
        let turns: Vec<u64> = [(None, 40), (Some(0), 70), (Some(70), 90)]
            .into_iter()
            .filter_map(|(last_us, now_us)| schedule.turn(0, last_us.map(well), now_us))
            .map(|turn| turn.intended_us)
            .collect();
        assert_eq!(
            (turns.as_slice(), schedule.starved()),
            (&[0, 70, 90][..], 0)
        );
    }

    #[test]
    fn a_closed_loop_waits_for_its_last_attempt_and_skips_what_it_missed() {
        let spec = ClientSpec {
            connections: 2,
            concurrency: Some(2),
            ..open(20, 1_000)
        };
        let schedule = Schedule::new(&spec, 7);
        let intended = |worker, last_us: Option<u64>, now_us| {
            let turn = schedule.turn(worker, last_us.map(well), now_us);
            turn.map(|turn| turn.intended_us)
        };
        assert_eq!(intended(0, None, 3), Some(0));
        assert_eq!(intended(1, None, 3), Some(50_000));
        assert_eq!(intended(0, Some(0), 400), Some(100_000));
        assert_eq!(intended(0, Some(100_000), 730_000), Some(730_000));
        assert_eq!(intended(0, Some(730_000), 731_000), Some(830_000));
        assert_eq!(intended(0, Some(930_000), 931_000), None);
        let unpaced = ClientSpec { rate: None, ..spec };
        let failed = Last {
            failed: true,
            ..well(0)
        };
        let after = |last| Schedule::new(&unpaced, 7).turn(0, Some(last), 400);
        assert_eq!(after(well(0)).map(|turn| turn.intended_us), Some(400));
        assert_eq!(after(failed).map(|turn| turn.intended_us), Some(1_400));
    }

    proptest! {
        #[test]
        fn jitter_follows_from_the_seed_and_stays_below_its_limit(seed in any::<u64>(), ms in 1_u64..2_000) {
            let spec = ClientSpec { connections: 50, jitter: Span::from_ms(ms), ..ClientSpec::default() };
            let starts = |seed| -> Vec<u64> {
                let schedule = Schedule::new(&spec, seed);
                (0..50).filter_map(|n| schedule.start_us(n)).collect()
            };
            let once = starts(seed);
            prop_assert_eq!(&once, &starts(seed));
            prop_assert!(once.len() == 50 && once.is_sorted());
            prop_assert!(once.iter().all(|us| *us < ms * 1_000));
            prop_assert_ne!(once, starts(seed ^ 1));
        }
    }
}
