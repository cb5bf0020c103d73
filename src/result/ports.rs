//! Where the client's ports ended: the limit that was met, and the one that its settings make.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::Outcome;
use super::causes::{Cause, local_limit};
use super::outcome::outcome;
use crate::arm::{Arm, Bind, port_range};
use crate::observation::{Attempt, Ended, Measured};

/// How many connections the client's ports allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ports {
    /// Connections that had a port when another found none.
    pub measured: usize,
    /// What range, sources and destinations allow; `None` when the range is unknown.
    pub computed: Option<usize>,
}

/// The range of ports of a namespace, IPv6 included.
const RANGE: &str = "net.ipv4.ip_local_port_range";

/// Where the ports ended; `None` where every attempt found one.
pub(super) fn ports(arm: &Arm, measured: &Measured) -> Option<Ports> {
    let refused = measured.attempts.iter().filter(|one| found_none(one));
    let at_us: Vec<u64> = refused.map(|one| one.ended_us).collect();
    let has_port = |one: &&Attempt| one.local_port.is_some() && !found_none(one);
    let owners = || measured.attempts.iter().filter(has_port);
    let mut starts_us: Vec<u64> = owners().map(|one| one.started_us).collect();
    let mut ends_us: Vec<u64> = owners().filter_map(|one| closed_us(arm, one)).collect();
    starts_us.sort_unstable();
    ends_us.sort_unstable();
    let before = |times: &[u64], at_us| times.partition_point(|time_us| *time_us <= at_us);
    let open = |at_us| before(&starts_us, at_us).saturating_sub(before(&ends_us, at_us));
    Some(Ports {
        measured: at_us.into_iter().map(open).max()?,
        computed: computed(arm, measured),
    })
}

fn found_none(attempt: &Attempt) -> bool {
    outcome(attempt) == Outcome::LocalLimit && local_limit(attempt) == Cause::ClientOutOfPorts
}

/// When the client closed an attempt's connection; `None` when that was after the trial.
fn closed_us(arm: &Arm, attempt: &Attempt) -> Option<u64> {
    match attempt.ended {
        Ended::Held => None,
        Ended::Answered => Some(attempt.ended_us.saturating_add(arm.client.hold.as_us())),
        _ => Some(attempt.ended_us),
    }
}

/// A connecting client passes over the port of a listener in its own namespace, whatever the addresses
/// (`__inet_hash_connect` in `net/ipv4/inet_hashtables.c`).
fn computed(arm: &Arm, measured: &Measured) -> Option<usize> {
    let client = measured.client.as_ref().unwrap_or(&measured.server);
    let range = client.sysctls.get(RANGE)?.as_deref()?;
    let range = port_range(range)?;
    let mut ports = range.clone().count();
    if measured.client.is_none() && arm.client.bind == Bind::NoPort {
        // Several sockets can listen on one port.
        let listeners = measured.listeners.iter().map(|one| one.address.port());
        let taken: BTreeSet<u16> = listeners.filter(|port| range.contains(port)).collect();
        ports -= taken.len();
    }
    Some(ports * arm.uses_of_a_port() as usize)
}

impl Ports {
    /// What there is to say about it.
    pub(super) fn note(self) -> String {
        let computed = match self.computed {
            Some(computed) => format!("its settings allow {computed}"),
            None => "what its settings allow is unknown".into(),
        };
        format!(
            "the client ran out of ports with {} connections open; {computed}",
            self.measured
        )
    }
}
