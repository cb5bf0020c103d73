//! Sentences on what became of those that failed or came late.

use std::collections::BTreeMap;

use super::{Cause, Summary, TrialResult};

/// Why those that were not answered were not.
pub(super) fn causes(summary: &BTreeMap<String, Summary>, trial: &TrialResult) -> Option<String> {
    let count = |cause: Cause| summary.get(cause.name()).map_or(0.0, |one| one.median);
    let told: Vec<String> = Cause::ALL
        .into_iter()
        .filter(|cause| count(*cause) > 0.0)
        .map(|cause| {
            let by_counters = trial.causes_from_totals.contains(&cause);
            let by_counters = if by_counters {
                " (some by the counters alone)"
            } else {
                ""
            };
            format!("{} {}{by_counters}", count(cause), cause.told())
        })
        .collect();
    (!told.is_empty()).then(|| format!("Of those that failed, {}.", told.join(", ")))
}

/// Handshakes that took a second attempt: was it the wire, or the listener?
pub(super) fn repeated_handshakes(trial: &TrialResult) -> Option<String> {
    let repeated = trial.wire?.repeated_handshakes;
    let (wire, listener) = (repeated.lost_on_the_wire, repeated.dropped_by_the_listener);
    match (wire, listener) {
        (0, 0) => None,
        (0, _) => Some(format!(
            "{listener} clients connected late: the listener had dropped a SYN of theirs."
        )),
        (_, 0) => Some(format!(
            "{wire} clients connected late: the wire had lost a SYN or SYN+ACK of theirs. No SYN was lost at the listener."
        )),
        _ => Some(format!(
            "Of the clients that connected late, {wire} had lost a SYN or SYN+ACK on the wire and {listener} a SYN at the listener."
        )),
    }
}
