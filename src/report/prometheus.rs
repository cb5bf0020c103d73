//! An audit in the text format of the Prometheus textfile collector.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::audit::{Audit, DROPS, ListenerReport, OVERFLOWS};

/// A metric of a listener: its name, its kind, what it means, and its value.
type Metric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&ListenerReport) -> Option<u64>,
);

const LISTENER: [Metric; 3] = [
    (
        "backlog_listener_depth",
        "gauge",
        "Connections that wait for accept.",
        |one| Some(u64::from(one.depth)),
    ),
    (
        "backlog_listener_limit",
        "gauge",
        "The limit in force: min(backlog, somaxconn) at listen time.",
        |one| one.limit.map(u64::from),
    ),
    (
        "backlog_listener_drops_total",
        "counter",
        "Packets that the socket dropped since it was opened.",
        |one| one.drops_since_open.map(u64::from),
    ),
];

const NAMESPACE: [(&str, &str, &str); 2] = [
    (
        "backlog_overflows_total",
        OVERFLOWS,
        "Packets of the namespace that met a full accept queue.",
    ),
    (
        "backlog_drops_total",
        DROPS,
        "Packets that the listeners of the namespace dropped.",
    ),
];

/// The metrics of an audit. What is unknown is left out.
pub fn prometheus(audit: &Audit) -> String {
    let mut text = String::new();
    // Sockets of a SO_REUSEPORT group share address and port: a number tells them apart.
    let mut members: BTreeMap<_, usize> = BTreeMap::new();
    let labelled: Vec<(String, &ListenerReport)> = audit
        .listeners
        .iter()
        .map(|one| {
            let member = members
                .entry((one.namespace, one.address, one.port))
                .or_default();
            let labels = format!(
                "{},address=\"{}\",port=\"{}\",member=\"{member}\",process=\"{}\"",
                namespace(one.namespace),
                one.address,
                one.port,
                escaped(one.process.as_deref().unwrap_or_default())
            );
            *member += 1;
            (labels, one)
        })
        .collect();
    for (name, kind, help, value) in LISTENER {
        head(&mut text, name, kind, help);
        for (labels, one) in &labelled {
            sample(&mut text, name, labels, value(one));
        }
    }
    for (name, counter, help) in NAMESPACE {
        head(&mut text, name, "counter", help);
        for one in &audit.namespaces {
            let value = one
                .counters
                .get(counter)
                .and_then(|growth| growth.since_boot);
            sample(&mut text, name, &namespace(one.id), value);
        }
    }
    text
}

fn namespace(id: Option<u64>) -> String {
    format!(
        "netns=\"{}\"",
        id.map_or_else(String::new, |id| id.to_string())
    )
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sample(text: &mut String, name: &str, labels: &str, value: Option<u64>) {
    if let Some(value) = value {
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
    }
}

/// A label's value as the format demands it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
