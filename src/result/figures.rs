//! The value of every figure of a trial, and the summaries over trials.

use std::collections::{BTreeMap, BTreeSet};

use super::stats::ms;
use super::{Cause, Direction, Outcome, Status, Summary, TrialResult};
use crate::arm::Arm;
use crate::figure::{Figure, NAMED, Side};

impl TrialResult {
    /// A figure's value; `None` when it is unknown.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of a trial are far below 2^53"
    )]
    pub fn figure(&self, figure: &Figure) -> Option<f64> {
        let name = match figure {
            Figure::Counter { side, name } => {
                let counters = match side {
                    Side::Server => &self.counters.server,
                    Side::Client => &self.counters.client,
                };
                return counters
                    .get(name)
                    .copied()
                    .flatten()
                    .map(|delta| delta as f64);
            }
            Figure::Named(name) => *name,
        };
        if let Some(class) = Outcome::ALL
            .into_iter()
            .find(|class| class.figure() == name)
        {
            return self.count(class).map(f64::from);
        }
        if let Some(cause) = Cause::ALL.into_iter().find(|cause| cause.name() == name) {
            let causes = self.causes.as_ref()?;
            return causes.get(&cause).copied().map(f64::from);
        }
        let listeners = |value: &dyn Fn(&super::ListenerResult) -> Option<u64>| {
            let values: Option<Vec<u64>> = self.listeners.iter().map(value).collect();
            values.filter(|values| !values.is_empty())
        };
        let sum = |value: &dyn Fn(&super::ListenerResult) -> Option<u64>| {
            listeners(value).map(|values| values.iter().sum::<u64>() as f64)
        };
        match name {
            "attempts" => self.attempts.map(f64::from),
            "not-ok" => Some(f64::from(self.attempts?) - f64::from(self.count(Outcome::Ok)?)),
            "accepted" => self.accepted.map(f64::from),
            "accept-failures" => {
                let failures = self.accept_failures.values().sum::<u64>();
                self.accepted.map(|_| failures as f64)
            }
            "wasted-accepts" => self.wasted_accepts.map(f64::from),
            "ghosts" => self.ghosts.map(|ghosts| f64::from(ghosts.total())),
            "ghosts-waiting" => self.ghosts.map(|ghosts| f64::from(ghosts.waiting)),
            "ghosts-half-open" => self.ghosts.map(|ghosts| f64::from(ghosts.half_open)),
            "ghosts-lost" => self.ghosts.map(|ghosts| f64::from(ghosts.lost)),
            "backlog-effective" => sum(&|one| Some(one.backlog_effective.into())),
            "accept-queue-capacity" => sum(&|one| Some(one.accept_queue_capacity)),
            "recv-q-max" => listeners(&|one| Some(one.recv_q_max.into()))
                .and_then(|values| values.into_iter().max())
                .map(|max| max as f64),
            "recv-q-final" => sum(&|one| Some(one.recv_q_final.into())),
            "half-open-final" => self.half_open_final.map(f64::from),
            "listener-drops" => sum(&|one| one.drops.map(u64::from)),
            "samples" => sum(&|one| Some(one.samples as u64)),
            "samples-missed" => sum(&|one| Some(one.samples_missed)),
            "overflows-per-loser" => {
                let losers = self.figure(&Figure::Named("not-ok"))?;
                let overflows = self.figure(&Figure::server_counter("TcpExt.ListenOverflows"))?;
                (losers > 0.0).then_some(overflows / losers)
            }
            "connect-p50-ms" => self.latency_ms.connect?.p50,
            "connect-p99-ms" => self.latency_ms.connect?.p99,
            "connect-max-ms" => self.latency_ms.connect?.max,
            "answered-p50-ms" => self.latency_ms.answered?.p50,
            "answered-p90-ms" => self.latency_ms.answered?.p90,
            "answered-p99-ms" => self.latency_ms.answered?.p99,
            "answered-max-ms" => self.latency_ms.answered?.max,
            "intended-p50-ms" => self.latency_ms.answered_from_intended?.p50,
            "intended-p90-ms" => self.latency_ms.answered_from_intended?.p90,
            "intended-p99-ms" => self.latency_ms.answered_from_intended?.p99,
            "intended-max-ms" => self.latency_ms.answered_from_intended?.max,
            "over-10-ms" => self.load.over_10_ms.map(f64::from),
            "over-100-ms" => self.load.over_100_ms.map(f64::from),
            "trial-ms" => self.load.lasted_ms,
            "answered-per-s" => self.load.answered_per_s,
            "requests-answered" => Some(self.requests?.answered.into()),
            "requests-failed" => Some(self.requests?.failed.into()),
            "requests-per-s" => self.requests?.answered_per_s,
            "request-p50-ms" => self.requests?.sent_ms.p50,
            "request-p99-ms" => self.requests?.sent_ms.p99,
            "request-max-ms" => self.requests?.sent_ms.max,
            "request-intended-p50-ms" => self.requests?.intended_ms.p50,
            "request-intended-p99-ms" => self.requests?.intended_ms.p99,
            "first-overflow-ms" => self.load.first_overflow_ms,
            "predicted-overflow-ms" => self.load.predicted_overflow_ms,
            "queue-empty-ms" => self.load.queue_empty_ms,
            "accept-wait-max-ms" => self.latency_ms.accept_wait?.max,
            "accept-rate-per-s" => self.accept_times.rate_per_s,
            "accept-pause-ms" => self.accept_times.pause_ms,
            "server-cpu-ms" => self.cpu.server_ms,
            "client-cpu-ms" => self.cpu.client_ms,
            "wire-packets" => self.on_the_wire(|one| one.packets),
            "wire-lost" => self.on_the_wire(|one| one.lost),
            "wire-dropped-by-rule" => self.on_the_wire(|one| one.dropped_by_rule),
            "wire-error-p99-ms" => self.wire?.error_us.p99.map(ms),
            "idle-percent" => self.cpu.idle_percent,
            "claimed-completed" => self.tool.as_ref()?.claimed_completed,
            "claimed-failed" => self.tool.as_ref()?.claimed_failed,
            _ => None,
        }
    }

    /// Packets of both directions.
    fn on_the_wire(&self, of: impl Fn(&Direction) -> u32) -> Option<f64> {
        let wire = self.wire?;
        Some(f64::from(of(&wire.to_server) + of(&wire.to_client)))
    }

    /// Attempts of one class; `None` when nothing was measured.
    pub fn count(&self, class: Outcome) -> Option<u32> {
        self.outcomes
            .as_ref()
            .map(|outcomes| outcomes.get(&class).copied().unwrap_or(0))
    }
}

/// Every figure that is known in a valid trial: the named ones, the listen counters, and the counters that moved.
pub(super) fn summary(arm: &Arm, trials: &[TrialResult]) -> BTreeMap<String, Summary> {
    let valid: Vec<&TrialResult> = trials
        .iter()
        .filter(|trial| trial.status == Status::Ok)
        .collect();
    let mut figures: BTreeSet<Figure> = NAMED.iter().map(|(name, _)| Figure::Named(name)).collect();
    figures.extend(arm.expect.bounds.keys().cloned());
    figures.extend(["TcpExt.ListenOverflows", "TcpExt.ListenDrops"].map(Figure::server_counter));
    // It stands beside what a load tool claims, also when it has not moved.
    figures.extend(
        arm.client
            .is_tool()
            .then(|| Figure::server_counter("Tcp.PassiveOpens")),
    );
    for trial in &valid {
        let moved = |counters: &BTreeMap<String, Option<i64>>, side| {
            let moved = counters
                .iter()
                .filter(|(_, delta)| delta.is_some_and(|delta| delta != 0));
            moved
                .map(|(name, _)| Figure::Counter {
                    side,
                    name: name.clone(),
                })
                .collect::<Vec<_>>()
        };
        figures.extend(moved(&trial.counters.server, Side::Server));
        if !trial.counters.shared {
            figures.extend(moved(&trial.counters.client, Side::Client));
        }
    }
    figures
        .iter()
        .filter_map(|figure| {
            let values: Vec<f64> = valid
                .iter()
                .filter_map(|trial| trial.figure(figure))
                .collect();
            Some((figure.to_string(), Summary::of(values)?))
        })
        .collect()
}
