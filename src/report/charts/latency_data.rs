//! What had become of the clients by which time after their start, prepared for pixel columns.
//!
//! At every time each attempt is in one state: still connecting, connected and waiting for its answer, well, or
//! ended without success. The last are censored: they would have waited longer, had their clock not run out.

use crate::observation::{Attempt, Measured};
use crate::result::{Outcome, SynSchedule, outcome};

/// Answers further apart than this belong to different clusters: the shortest SYN retry is a second.
pub(super) const CLUSTER_US: u64 = 250_000;

/// Times since each attempt's start, sorted, in microseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Latency {
    pub(super) attempts: usize,
    pub(super) connected_us: Vec<u64>,
    /// When a connected client ceased to wait, with or without success.
    waited_until_us: Vec<u64>,
    pub(super) well_us: Vec<u64>,
    /// The ends of the others, by class.
    pub(super) lost_us: Vec<(Outcome, Vec<u64>)>,
    /// When the client's kernel repeats an unanswered SYN; empty when its settings are unknown.
    pub(super) retries_us: Vec<u64>,
}

/// The states at one time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct States {
    pub(super) well: usize,
    pub(super) waiting: usize,
    /// By class, in the order of [`Latency::lost_us`].
    pub(super) lost: Vec<usize>,
}

/// Answers that came at about the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cluster {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
    pub(super) n: usize,
}

impl Latency {
    /// The attempts of all these trials together.
    pub(super) fn of(trials: &[&Measured]) -> Self {
        let mut latency = Self::default();
        let attempts = || trials.iter().flat_map(|measured| &measured.attempts);
        for attempt in attempts() {
            latency.add(attempt);
        }
        latency.lost_us.sort_by_key(|(class, _)| *class);
        for (_, times) in &mut latency.lost_us {
            times.sort_unstable();
        }
        latency.connected_us.sort_unstable();
        latency.waited_until_us.sort_unstable();
        latency.well_us.sort_unstable();
        let client = trials
            .first()
            .map(|one| one.client.as_ref().unwrap_or(&one.server));
        let schedule = client.and_then(|client| SynSchedule::of(&client.sysctls));
        let sent_ms = schedule
            .map(|schedule| schedule.sent_ms)
            .unwrap_or_default();
        latency.retries_us = sent_ms.into_iter().skip(1).map(|ms| ms * 1_000).collect();
        latency
    }

    fn add(&mut self, attempt: &Attempt) {
        let since_start = |at_us: u64| at_us.saturating_sub(attempt.started_us);
        let connected_us = attempt.connected_us.map(since_start);
        let class = outcome(attempt);
        // Where nobody speaks, a client is well as soon as it is connected.
        let well_at = attempt
            .first_byte_us
            .or(attempt.connected_us)
            .unwrap_or(attempt.ended_us);
        let end_us = since_start(if class == Outcome::Ok {
            well_at
        } else {
            attempt.ended_us
        });
        self.attempts += 1;
        if let Some(connected_us) = connected_us {
            self.connected_us.push(connected_us);
            self.waited_until_us.push(end_us.max(connected_us));
        }
        if class == Outcome::Ok {
            self.well_us.push(end_us);
            return;
        }
        match self.lost_us.iter_mut().find(|(one, _)| *one == class) {
            Some((_, times)) => times.push(end_us),
            None => self.lost_us.push((class, vec![end_us])),
        }
    }

    /// The states after `at_us`.
    pub(super) fn states(&self, at_us: u64) -> States {
        let by = |times: &[u64]| times.partition_point(|time| *time <= at_us);
        States {
            well: by(&self.well_us),
            waiting: by(&self.connected_us) - by(&self.waited_until_us),
            lost: self.lost_us.iter().map(|(_, times)| by(times)).collect(),
        }
    }

    /// When the last attempt had ended.
    pub(super) fn last_us(&self) -> u64 {
        let ends = self.lost_us.iter().filter_map(|(_, times)| times.last());
        ends.chain(self.well_us.last()).copied().max().unwrap_or(0)
    }

    /// All attempts that ended without success.
    pub(super) fn lost(&self) -> usize {
        self.lost_us.iter().map(|(_, times)| times.len()).sum()
    }

    /// The answers by clusters.
    pub(super) fn clusters(&self) -> Vec<Cluster> {
        let chunks = self.well_us.chunk_by(|a, b| b - a < CLUSTER_US);
        chunks
            .map(|chunk| Cluster {
                from_us: chunk[0],
                to_us: chunk[chunk.len() - 1],
                n: chunk.len(),
            })
            .collect()
    }
}
