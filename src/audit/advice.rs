//! The one change that moves the number, and the popular ones that do not. Pure.

use serde::Serialize;

use super::verdict::{Facts, Finding, SetBy};

/// What to do about a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The one change.
    pub change: String,
    /// Popular changes that do not help here, each with the reason.
    pub no_help: Vec<String>,
}

/// Idle for at least this share, the machine is not what limits the accept loop.
const IDLE_PERCENT: f64 = 50.0;

/// What a running listener needs before a new limit applies to it (the kernel reads somaxconn in `listen()` only).
const LISTEN_AGAIN: &str = "a running listener keeps its limit until it calls listen() again";

/// The advice for a listener; `None` when it needs none.
pub(super) fn advice(facts: &Facts) -> Option<Advice> {
    let findings = facts.findings();
    let has = |finding| findings.contains(&finding);
    let process = &facts.process;
    let in_trouble = has(Finding::Full) || has(Finding::Dropping) || has(Finding::NearFull);
    let mut no_help = Vec::new();

    let change = if let Some((used, allowed)) = facts.files.filter(|_| has(Finding::OutOfFiles)) {
        no_help.push("a bigger queue: accept() fails with EMFILE and takes nothing from it".into());
        format!(
            "raise the open-files limit of {process} ({used} of {allowed} used), or have it close what it no longer needs"
        )
    } else if (has(Finding::Full) || has(Finding::NearFull)) && facts.accept_has_stopped() {
        no_help.push("a bigger queue: accept has stopped, it would only fill later".into());
        format!("get {process} to accept again: it accepted nothing in this window")
    } else if has(Finding::Dropping)
        && !has(Finding::Full)
        && let Some(change) = syn_drops(facts)
    {
        change
    } else if has(Finding::Full) && facts.full_looks * 2 > facts.looks && is_idle(facts) {
        no_help
            .push("a bigger queue: what arrives faster than it is accepted fills any queue".into());
        format!(
            "make {process} accept faster (more accepting threads or workers, nothing slow between two accepts): idle CPU and a full queue mean that the accept loop is the limit"
        )
    } else if in_trouble
        || has(Finding::SuspiciouslySmall)
        || has(Finding::ClampedByProgram)
        || findings.first() == Some(&Finding::ClampedTo16Bit)
        || is_short(facts)
    {
        raise(
            facts,
            in_trouble || has(Finding::SuspiciouslySmall) || is_short(facts),
        )?
    } else {
        return None;
    };

    if facts.set_by() == Some(SetBy::Program)
        && let Some(somaxconn) = facts.somaxconn
    {
        no_help.push(format!("raising somaxconn ({somaxconn}): it does not clamp this listener and will not change it"));
    }
    if in_trouble && facts.tcp_syncookies.is_some_and(|mode| mode != 0) {
        no_help.push("tcp_max_syn_backlog: it is not consulted while tcp_syncookies is on".into());
    }
    Some(Advice { change, no_help })
}

/// What moves drops of SYNs that the accept queue has no part in; `None` when it has, or may have.
fn syn_drops(facts: &Facts) -> Option<String> {
    if facts.overflows != Some(0) {
        return None;
    }
    match (facts.syn_queue_drops?, facts.tcp_syncookies?) {
        (0, 0) => facts.tcp_max_syn_backlog.map(|most| {
            format!(
                "raise net.ipv4.tcp_max_syn_backlog (now {most}) in its namespace, or set net.ipv4.tcp_syncookies = 1: without cookies new clients are dropped once three quarters of it are half-open"
            )
        }),
        (0, _) => None,
        _ => Some("set net.ipv4.tcp_syncookies = 1 in its namespace: the drops are SYNs that met a full SYN queue, which has the same limit".into()),
    }
}

/// Whoever set the limit has to raise it.
fn raise(facts: &Facts, now: bool) -> Option<String> {
    let process = &facts.process;
    let when = if now { "" } else { "if it ever fills: " };
    let to = facts
        .expected
        .map_or_else(String::new, |expected| format!(" to {expected}"));
    let change = match (facts.set_by(), facts.somaxconn) {
        (Some(SetBy::Program), Some(somaxconn)) => {
            let up_to = facts.expected.map_or_else(
                || format!(", up to somaxconn ({somaxconn}),"),
                |_| to.clone(),
            );
            let first = match facts.expected {
                Some(expected) if u64::from(expected) > somaxconn => {
                    format!("raise somaxconn to {expected} first, then ")
                }
                _ => String::new(),
            };
            format!(
                "{first}raise the backlog that {process} passes to listen(){up_to} and restart it: {LISTEN_AGAIN}"
            )
        }
        (Some(SetBy::Somaxconn), Some(somaxconn)) => format!(
            "raise net.core.somaxconn (now {somaxconn}) in its namespace{to}, then restart {process}: {LISTEN_AGAIN}; if its limit stays, it asks for no more itself"
        ),
        _ => return None,
    };
    let warning = facts
        .expected
        .and_then(|value| sixteen_bit_warning(facts.kernel.as_deref(), value));
    Some(match warning {
        None => format!("{when}{change}"),
        Some(warning) => format!("{when}{change}. Caution: {warning}"),
    })
}

/// The limit is below the expected one.
fn is_short(facts: &Facts) -> bool {
    facts
        .limit
        .zip(facts.expected)
        .is_some_and(|(limit, expected)| limit < expected)
}

fn is_idle(facts: &Facts) -> bool {
    facts.idle_percent.is_some_and(|idle| idle >= IDLE_PERCENT)
}

/// Before Linux 4.1 the kernel kept the limit in 16 bits (`sk_max_ack_backlog` was an unsigned short).
fn sixteen_bit_warning(kernel: Option<&str>, value: u32) -> Option<String> {
    let mut numbers = kernel?
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return None;
    };
    (value > 65_535 && (major, minor) < (4, 1)).then(|| {
        format!(
            "before Linux 4.1 the limit has 16 bits and {value} acts as {}; keep it at 65535 or less",
            value % 65_536
        )
    })
}

#[cfg(test)]
mod tests;
