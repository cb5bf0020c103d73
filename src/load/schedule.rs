//! When connections are meant to start: all known in advance, or each decided by the end of an earlier one.

use std::sync::atomic::{AtomicU32, Ordering};

use super::series::ClosedLoop;
use crate::arm::{ClientSpec, Loop, Requests};
use crate::observation::{Attempt, Ended};
use crate::random::SplitMix64;

/// The start times of a flood, handed out one by one.
pub struct Schedule {
    next: AtomicU32,
    /// Attempts that found no worker free at their time.
    starved: AtomicU32,
    /// Connections that carry on what an earlier one left over.
    again: AtomicU32,
    /// What a connection is to carry.
    requests: Requests,
    times: Times,
}

enum Times {
    /// By number, in rising order. An attempt of an open loop keeps its time though no worker was free then.
    Known { starts_us: Vec<u64>, open: bool },
    /// Each worker starts its next attempt when the last one has ended, and not before its pace allows.
    Closed(ClosedLoop),
}

/// One attempt's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    /// When it is meant to start.
    pub(super) intended_us: u64,
    /// Its number, from 0.
    pub(super) n: u32,
    /// How many requests it is to carry at most.
    pub(super) requests: u32,
}

/// What matters of a worker's last attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    /// When it, or the last of its requests, was meant to start.
    intended_us: u64,
    /// Whether a system call failed.
    failed: bool,
}

impl From<&Attempt> for Last {
    fn from(attempt: &Attempt) -> Self {
        Self {
            intended_us: match attempt.requests.last() {
                Some(request) => request.intended_us,
                None => attempt.intended_us,
            },
            failed: attempt.ended == Ended::Error,
        }
    }
}

/// The pause of a closed loop's worker after an attempt that failed.
const AFTER_FAILURE_US: u64 = 1_000;

impl Schedule {
    /// The schedule of these settings; what is left to chance is decided by the seed.
    pub fn new(spec: &ClientSpec, requests: Requests, seed: u64) -> Self {
        let times = match (ClosedLoop::of(spec), spec.pacing()) {
            (Some(closed), _) => Times::Closed(closed),
            (None, Loop::Open(rate)) => Times::known(spec, seed, true, |n| rate.due_us(n.into())),
            (None, _) => {
                let spread =
                    |n: u32| spec.spread.as_us() * u64::from(n) / u64::from(spec.connections);
                Times::known(spec, seed, false, spread)
            }
        };
        Self {
            next: AtomicU32::new(0),
            starved: AtomicU32::new(0),
            again: AtomicU32::new(0),
            requests,
            times,
        }
    }

    /// The `n`-th attempt, where all are known in advance; `None` beyond the last.
    pub(super) fn planned(&self, n: u32) -> Option<Turn> {
        match &self.times {
            Times::Known { starts_us, .. } => {
                let intended_us = *starts_us.get(n as usize)?;
                Some(self.numbered(n, intended_us))
            }
            Times::Closed(_) => None,
        }
    }

    /// The attempt that carries on at once what the server's close of an earlier one has left over, if that is any. In
    /// a closed loop the worker's next turn does so.
    pub(super) fn again(&self, left: u32, now_us: u64) -> Option<Turn> {
        let Times::Known { starts_us, .. } = &self.times else {
            return None;
        };
        let planned = u32::try_from(starts_us.len()).unwrap_or(u32::MAX);
        (left > 0).then(|| Turn {
            intended_us: now_us,
            n: planned.saturating_add(self.again.fetch_add(1, Ordering::Relaxed)),
            requests: left,
        })
    }

    fn numbered(&self, n: u32, intended_us: u64) -> Turn {
        Turn {
            intended_us,
            n,
            requests: self.requests.most(),
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
                return Some(self.numbered(n, intended_us));
            }
            Times::Closed(closed) => match last {
                None => closed.first_us(worker)?,
                Some(last) => {
                    let pause_us = if last.failed { AFTER_FAILURE_US } else { 0 };
                    closed.next_us(last.intended_us, now_us + pause_us)?
                }
            },
        };
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        Some(self.numbered(n, intended_us))
    }

    /// Attempts of an open loop that found no worker free at their time.
    pub(super) fn starved(&self) -> u32 {
        match self.times {
            Times::Known { open: true, .. } => self.starved.load(Ordering::Relaxed),
            Times::Known { open: false, .. } | Times::Closed(_) => 0,
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

    fn one_each(spec: &ClientSpec, seed: u64) -> Schedule {
        Schedule::new(spec, Requests::ONE, seed)
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
        let schedule = one_each(&open(100, 50), 7);
        let turn = |last_us: Option<u64>, now_us| schedule.turn(0, last_us.map(well), now_us);
        let due = |n: u32| {
            Some(Turn {
                n,
                intended_us: u64::from(n) * 10_000,
                requests: 1,
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
        let schedule = one_each(&spec, 7);
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
        let schedule = one_each(&spec, 7);
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
        let after = |last| one_each(&unpaced, 7).turn(0, Some(last), 400);
        assert_eq!(after(well(0)).map(|turn| turn.intended_us), Some(400));
        assert_eq!(after(failed).map(|turn| turn.intended_us), Some(1_400));
    }

    #[test]
    fn what_a_close_has_left_over_is_carried_on() {
        let spec = ClientSpec {
            connections: 2,
            ..ClientSpec::default()
        };
        let flood = Schedule::new(&spec, Requests::Count(20), 7);
        assert_eq!(flood.planned(1).map(|turn| turn.requests), Some(20));
        assert_eq!(flood.again(0, 500), None);
        for n in [2, 3] {
            let again = flood.again(15, 500).unwrap();
            assert_eq!((again.n, again.intended_us, again.requests), (n, 500, 15));
        }
        let closed = ClientSpec {
            concurrency: Some(2),
            duration: Span::from_ms(1_000),
            ..spec
        };
        let closed = Schedule::new(&closed, Requests::Unlimited, 7);
        assert_eq!(closed.again(15, 500), None);
        assert_eq!(
            closed
                .turn(0, Some(well(400)), 500)
                .map(|turn| turn.requests),
            Some(u32::MAX)
        );
    }

    proptest! {
        #[test]
        fn jitter_follows_from_the_seed_and_stays_below_its_limit(seed in any::<u64>(), ms in 1_u64..2_000) {
            let spec = ClientSpec { connections: 50, jitter: Span::from_ms(ms), ..ClientSpec::default() };
            let starts = |seed| -> Vec<u64> {
                let schedule = one_each(&spec, seed);
                (0..50).filter_map(|n| schedule.planned(n)).map(|turn| turn.intended_us).collect()
            };
            let once = starts(seed);
            prop_assert_eq!(&once, &starts(seed));
            prop_assert!(once.len() == 50 && once.is_sorted());
            prop_assert!(once.iter().all(|us| *us < ms * 1_000));
            prop_assert_ne!(once, starts(seed ^ 1));
        }
    }
}
