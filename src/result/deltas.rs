//! What the kernel's counters grew by in a trial.

use std::collections::BTreeMap;

use super::Counters;
use crate::observation::{self, BeforeAfter, Measured, Namespace};

/// Values of the counter files that may fall: states and settings, no counters.
const GAUGES: &[&str] = &[
    "Tcp.CurrEstab",
    "Tcp.RtoMin",
    "Tcp.RtoMax",
    "Tcp.MaxConn",
    "Ip.Forwarding",
    "Ip.DefaultTTL",
];

/// What the lab reckons with. An old kernel that lacks one leaves it unknown, which is said, and no zero.
const RECKONED_WITH: &[&str] = &[
    "TcpExt.ListenDrops",
    "TcpExt.ListenOverflows",
    "TcpExt.SyncookiesRecv",
    "TcpExt.SyncookiesSent",
    "TcpExt.TCPReqQFullDoCookies",
    "TcpExt.TCPReqQFullDrop",
    "TcpExt.TCPSynRetrans",
];

/// The counters' growth in a trial that sent so many first SYNs, and the names of those that fell.
pub(super) fn counters(
    measured: &Measured,
    sent: u32,
    connect_timeouts: u32,
) -> (Counters, Vec<String>) {
    let (server, mut went_back) = deltas(&measured.server.counters);
    let (client, more) = match &measured.client {
        Some(client) => deltas(&client.counters),
        None => (server.clone(), Vec::new()),
    };
    went_back.extend(more);
    let opens = client.get("Tcp.ActiveOpens").copied().flatten();
    let problem = if measured.server.counters.before.is_none()
        || measured.server.counters.after.is_none()
        || !server.contains_key("TcpExt.ListenOverflows")
    {
        Some("counters unavailable".to_owned())
    } else if (sent > 0 && opens == Some(0))
        || (connect_timeouts > 0 && measured.wire.is_none() && all_zero(measured))
    {
        Some("counters do not move here (sandboxed kernel?)".to_owned())
    } else {
        None
    };
    let known = |counters: BTreeMap<String, Option<i64>>| {
        // What does not move tells nothing: unknown, not zero.
        let still = problem.is_some();
        let mut all: BTreeMap<_, _> = RECKONED_WITH
            .iter()
            .map(|name| ((*name).to_owned(), None))
            .collect();
        all.extend(
            counters
                .into_iter()
                .map(|(name, delta)| (name, delta.filter(|delta| !still || *delta != 0))),
        );
        all
    };
    let counters = Counters {
        shared: measured.client.is_none(),
        server: known(server),
        client: known(client),
        problem,
    };
    (counters, went_back)
}

/// Whether every extended TCP counter stands at zero, as where a sandbox emulates the file.
fn all_zero(measured: &Measured) -> bool {
    let namespaces = [Some(&measured.server), measured.client.as_ref()];
    namespaces.into_iter().flatten().all(|namespace| {
        let after = namespace.counters.after.iter().flatten();
        let mut extended = after.filter(|(name, _)| name.starts_with("TcpExt."));
        extended.all(|(_, value)| *value == Some(0))
    })
}

fn deltas(
    counters: &BeforeAfter<observation::Counters>,
) -> (BTreeMap<String, Option<i64>>, Vec<String>) {
    let (mut deltas, mut went_back) = (BTreeMap::new(), Vec::new());
    let (Some(before), Some(after)) = (&counters.before, &counters.after) else {
        return (deltas, went_back);
    };
    for (name, after) in after {
        let before = before.get(name).copied().flatten();
        let delta = before
            .zip(*after)
            .and_then(|(before, after)| i64::try_from(after - before).ok());
        let is_counter = !GAUGES.contains(&name.as_str());
        if is_counter && delta.is_some_and(|delta| delta < 0) {
            went_back.push(name.clone());
        }
        deltas.insert(
            name.clone(),
            delta.filter(|delta| !is_counter || *delta >= 0),
        );
    }
    (deltas, went_back)
}

/// How much a reading grew; `None` where one of the two is unknown, or it fell.
pub(super) fn growth(reading: BeforeAfter<u64>) -> Option<u64> {
    reading
        .before
        .zip(reading.after)
        .and_then(|(before, after)| after.checked_sub(before))
}

/// Packets that the interfaces of a namespace dropped on receipt, over all of them.
pub(super) fn rx_dropped(namespace: &Namespace) -> Option<u64> {
    let sum = |drops: &BTreeMap<String, u64>| {
        let mut all = drops.values();
        all.try_fold(0_u64, |sum, drops| sum.checked_add(*drops))
    };
    growth(BeforeAfter {
        before: namespace.rx_dropped.before.as_ref().and_then(sum),
        after: namespace.rx_dropped.after.as_ref().and_then(sum),
    })
}
