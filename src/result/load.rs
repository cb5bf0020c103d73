//! The load of a trial over time: what was offered, what was answered, and when the accept queue gave way.

use schemars::JsonSchema;
use serde::Serialize;

use super::stats::{float, ms};
use super::{Outcome, outcome};
use crate::arm::{AcceptPolicy, Arm, Loop, Span};
use crate::observation::{Attempt, Listener, Measured};

/// The load over time. Unknown is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct LoadResult {
    /// From the clients' release to the end of the last one.
    pub lasted_ms: Option<f64>,
    /// Connections started per second while there was load: while connections were started; in a flood, until the
    /// accept queue first ran empty.
    pub offered_per_s: Option<f64>,
    /// Clients served per second in the same time.
    pub answered_per_s: Option<f64>,
    /// Answers that came later than 10 ms after the intended start.
    pub over_10_ms: Option<u32>,
    /// Answers that came later than 100 ms after the intended start.
    pub over_100_ms: Option<u32>,
    /// When the first packet was dropped at the listener; `null` also when none was.
    pub first_overflow_ms: Option<f64>,
    /// When it was to be expected, (B+1) / (rate - capacity) seconds; `null` also when never.
    pub predicted_overflow_ms: Option<f64>,
    /// From when on the accept queue was empty for good; `null` also when it was not.
    pub queue_empty_ms: Option<f64>,
}

pub(super) fn load(arm: &Arm, measured: &Measured, overflowed: bool) -> LoadResult {
    let last_answer = || measured.attempts.iter().filter_map(answered_us).max();
    let window_us = loaded_until_us(arm, measured).or_else(last_answer);
    let per_s = |at_us: &dyn Fn(&Attempt) -> Option<u64>| {
        let window_us = window_us.filter(|us| *us > 0)?;
        let inside = measured.attempts.iter().filter_map(at_us);
        let n = inside.filter(|at_us| *at_us <= window_us).count();
        Some(float(n as u64) / (ms(window_us) / 1_000.0))
    };
    let over = |limit_us: u64| {
        let late = measured.attempts.iter().filter(|one| {
            answered_us(one).is_some_and(|at_us| at_us.saturating_sub(one.intended_us) > limit_us)
        });
        u32::try_from(late.count()).ok()
    };
    LoadResult {
        lasted_ms: Some(ms(measured.ended_us)),
        offered_per_s: per_s(&|one| Some(one.started_us)),
        answered_per_s: per_s(&answered_us),
        over_10_ms: over(10_000).filter(|_| measured.tool.is_none()),
        over_100_ms: over(100_000).filter(|_| measured.tool.is_none()),
        first_overflow_ms: first_drop_us(&measured.listeners)
            .filter(|_| overflowed)
            .map(ms),
        predicted_overflow_ms: predicted_overflow_ms(arm, places(&measured.listeners)),
        queue_empty_ms: queue_empty_us(&measured.listeners).map(ms),
    }
}

/// When a client was served; `None` when it was not.
fn answered_us(attempt: &Attempt) -> Option<u64> {
    let is_ok = outcome(attempt) == Outcome::Ok;
    attempt
        .first_byte_us
        .or(attempt.connected_us)
        .filter(|_| is_ok)
}

/// How long there was load: while connections were started; in a flood, until the accept queue first ran empty after
/// that, since who comes later had been sent away. `None` where no look saw it run empty.
pub(super) fn loaded_until_us(arm: &Arm, measured: &Measured) -> Option<u64> {
    let client = &arm.client;
    if client.pacing() != Loop::Flood {
        return Some(client.duration.as_us());
    }
    let started_us = client.spread.as_us() + client.jitter.as_us();
    let of = |one: &Listener| {
        let looks = || one.samples.recv_q.iter().zip(&one.samples.at_us);
        let filled = looks().position(|(recv_q, _)| *recv_q > 0)?;
        let mut after = looks().skip(filled);
        let (_, at_us) = after.find(|(recv_q, at_us)| **recv_q == 0 && **at_us >= started_us)?;
        Some(*at_us)
    };
    measured.listeners.iter().filter_map(of).max()
}

/// The time of the first look that shows a drop; a look is a millisecond.
fn first_drop_us(listeners: &[Listener]) -> Option<u64> {
    let of = |one: &Listener| {
        let before = one.before.drops?;
        let mut looks = one.samples.drops.iter().zip(&one.samples.at_us);
        looks
            .find(|(drops, _)| drops.is_some_and(|drops| drops != before))
            .map(|(_, at_us)| *at_us)
    };
    listeners.iter().filter_map(of).min()
}

/// The time of the first look after the last one that saw somebody waiting; 0 when none did.
fn queue_empty_us(listeners: &[Listener]) -> Option<u64> {
    let of = |one: &Listener| {
        let samples = &one.samples;
        match samples.recv_q.iter().rposition(|recv_q| *recv_q > 0) {
            None => (!samples.recv_q.is_empty()).then_some(0),
            Some(last) => samples.at_us.get(last + 1).copied(),
        }
    };
    listeners
        .iter()
        .map(of)
        .collect::<Option<Vec<u64>>>()?
        .into_iter()
        .max()
}

/// What the accept queues hold together: each one more than its limit.
pub(super) fn places(listeners: &[Listener]) -> Option<u64> {
    let places = listeners.iter().map(|one| u64::from(one.before.send_q) + 1);
    (!listeners.is_empty()).then(|| places.sum())
}

/// What the server accepts per second by its settings; `None` where they do not say.
pub(super) fn nominal_capacity(arm: &Arm) -> Option<f64> {
    let server = arm.server.own()?;
    match server.accept {
        AcceptPolicy::Never => Some(0.0),
        AcceptPolicy::Loop
            if server.accept_delay > Span::default() && server.accept_from == Span::default() =>
        {
            Some(1_000.0 / server.accept_delay.as_ms() * f64::from(server.acceptors))
        }
        AcceptPolicy::Loop | AcceptPolicy::Plan(_) => None,
    }
}

/// When so many places are taken by an open loop: what comes beyond what is accepted fills them.
fn predicted_overflow_ms(arm: &Arm, places: Option<u64>) -> Option<f64> {
    let Loop::Open(rate) = arm.client.pacing() else {
        return None;
    };
    let excess = rate.as_f64() - nominal_capacity(arm)?;
    (excess > 0.0).then_some(float(places?) / excess * 1_000.0)
}

/// A step that ends before its queue can be full shows nothing of what the load would do.
pub(super) fn too_short(arm: &Arm, predicted_overflow_ms: Option<f64>) -> bool {
    predicted_overflow_ms.is_some_and(|ms| ms > arm.client.duration.as_ms())
}

/// The same in words.
pub(super) fn note(arm: &Arm, load: &LoadResult) -> Option<String> {
    let (predicted_ms, duration) = (load.predicted_overflow_ms?, arm.client.duration);
    (too_short(arm, Some(predicted_ms)) && load.first_overflow_ms.is_none()).then(|| {
        format!(
            "{duration} were too short to fill the queue: more comes than is accepted, and the queue is to be full after {:.2} s",
            predicted_ms / 1_000.0
        )
    })
}
