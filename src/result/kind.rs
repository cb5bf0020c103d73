//! What an arm shows, in one word. Zero drops is not "clean": clients can give up in a queue that never overflowed.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::stats::{float, ms};
use super::{Cause, Status, Summary, TrialResult};
use crate::arm::{AcceptPolicy, Arm};

/// What an arm shows, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Everybody was answered soon, and nothing was dropped.
    Clean,
    /// Everybody was answered and nothing was dropped, and somebody waited for a good part of the timeout.
    Slow,
    /// Nothing was dropped, and clients gave up in the queue.
    Overloaded,
    /// The listener dropped packets, or an `AF_UNIX` socket sent clients away.
    Overflowing,
    /// The server has ceased to accept, with connections waiting.
    AcceptStopped,
    /// Packets were dropped before the listener could count them.
    DroppedBeforeTheListener,
    /// Clients failed, and not at the queue.
    Failing,
}

impl fmt::Display for Kind {
    /// In words for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "clean",
            Self::Slow => "slow",
            Self::Overloaded => "overloaded",
            Self::Overflowing => "overflowing",
            Self::AcceptStopped => "accept has stopped",
            Self::DroppedBeforeTheListener => "dropped before the listener",
            Self::Failing => "failing elsewhere",
        })
    }
}

/// The kind of an arm by the medians of its valid trials; `None` where there are none, nobody listens, or what
/// the listener dropped is unknown.
pub(super) fn kind(
    arm: &Arm,
    trials: &[TrialResult],
    summary: &BTreeMap<String, Summary>,
) -> Option<Kind> {
    let figure = |name: &str| summary.get(name).map(|one| one.median);
    let above = |name: &str, least: f64| figure(name).is_some_and(|value| value > least);
    if !arm.server.listens() {
        return None;
    }
    let drops = if arm.server.is_unix() {
        // No counter tells; every client that met the full queue does.
        figure(Cause::UnixQueueFull.name())?
    } else {
        figure("TcpExt.ListenDrops")?
    };
    let valid = trials.iter().filter(|trial| trial.status == Status::Ok);
    let lost_before = valid.filter_map(dropped_before).max();
    // Of a load tool's attempts nothing is known.
    let everybody = figure("ok")
        .zip(figure("attempts"))
        .map(|(ok, attempts)| ok >= attempts);
    let timeout_ms = ms(arm.client.timeout.as_us());
    Some(
        if above("recv-q-final", 0.0) && has_stopped(arm, figure("accept-pause-ms")) {
            Kind::AcceptStopped
        } else if lost_before.is_some_and(|lost| float(lost) > drops) {
            Kind::DroppedBeforeTheListener
        } else if drops > 0.0 {
            Kind::Overflowing
        } else if everybody? {
            let slow = |figure| above(figure, timeout_ms * SLOW_SHARE);
            if slow("answered-max-ms") || slow("request-max-ms") {
                Kind::Slow
            } else {
                Kind::Clean
            }
        } else if above("ghosts-waiting", 0.0) || above("wasted-accepts", 0.0) {
            Kind::Overloaded
        } else {
            Kind::Failing
        },
    )
}

/// A wait of more than this part of the timeout is slow.
const SLOW_SHARE: f64 = 0.1;

/// A loop that has not accepted for this long, and for several of its pauses, will not.
const STOPPED_MS: f64 = 500.0;

/// Who closes the port for want of descriptors has no queue that anybody waits in.
fn has_stopped(arm: &Arm, pause_ms: Option<f64>) -> bool {
    let closes =
        |own: &crate::arm::ServerSpec| own.descriptors.is_some_and(|one| one.when_out.closes());
    if arm.server.own().is_some_and(closes) {
        return false;
    }
    let delay = arm.server.accept_delay().unwrap_or_default();
    let several_ms = ms(delay.as_us()) * 4.0;
    arm.server.accept() == Some(&AcceptPolicy::Never)
        || pause_ms.is_some_and(|ms| ms > several_ms.max(STOPPED_MS))
}

/// Packets that the interfaces dropped on receipt, on both sides.
fn dropped_before(trial: &TrialResult) -> Option<u64> {
    let drops = &trial.packet_drops;
    if trial.counters.shared {
        return drops.server_rx;
    }
    drops
        .server_rx
        .zip(drops.client_rx)
        .and_then(|(a, b)| a.checked_add(b))
}
