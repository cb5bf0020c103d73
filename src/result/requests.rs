//! The requests of a trial whose connections carry several.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Outcome, Percentiles, load, outcome};
use crate::arm::Arm;
use crate::observation::{Attempt, Measured, Request};

/// The requests of connections that carry several. Unknown is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RequestsResult {
    /// Requests that got the right answer.
    pub answered: u32,
    /// Requests that did not. Each of them ended its attempt: they are the attempts that are not ok, also those that
    /// never came to send theirs.
    pub failed: u32,
    /// Requests answered per second while connections were started; in a flood, until the last answer.
    pub answered_per_s: Option<f64>,
    /// From the sending to the end of the answer, of the answered.
    pub sent_ms: Percentiles,
    /// From the intended start to the end of the answer, of the answered: in the first request of a connection, also
    /// the time to connect.
    pub intended_ms: Percentiles,
}

impl RequestsResult {
    /// Those of a trial; `None` where a connection carries one.
    pub(super) fn of(arm: &Arm, measured: &Measured) -> Option<Self> {
        if !arm.protocol.requests.are_several() || measured.tool.is_some() {
            return None;
        }
        let requests = measured.attempts.iter().flat_map(|one| &one.requests);
        let answered: Vec<(&Request, u64)> = requests
            .filter_map(|one| Some((one, answered_us(one)?)))
            .collect();
        let since = |from: fn(&Request) -> u64| {
            let took = answered
                .iter()
                .map(|(one, at_us)| at_us.saturating_sub(from(one)));
            Percentiles::of_us(took.collect())
        };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let answers = || answered.iter().map(|(_, at_us)| *at_us);
        let window_us = load::started_until_us(arm).or_else(|| answers().max());
        let failed = |one: &&Attempt| outcome(one) != Outcome::Ok;
        Some(Self {
            answered: count(answered.len()),
            failed: count(measured.attempts.iter().filter(failed).count()),
            answered_per_s: load::per_second(answers(), window_us),
            sent_ms: since(|one| one.sent_us),
            intended_ms: since(|one| one.intended_us),
        })
    }
}

/// When a request had its right answer.
fn answered_us(request: &Request) -> Option<u64> {
    request.answered_us.filter(|_| request.right)
}
