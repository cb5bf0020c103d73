//! What an arm shows, in plain words. Says no more than the figures do: a counter is never tied to one client.

use std::collections::BTreeMap;

use super::{
    Cause, Kind, ListenerResult, Outcome, Status, Summary, TrialResult, balance, tool, why,
};
use crate::arm::{AcceptPolicy, Arm, Loop, SpeaksFirst};

/// The figures that a verdict speaks of: medians over the valid trials.
struct Shown<'a>(&'a BTreeMap<String, Summary>);

impl Shown<'_> {
    fn get(&self, figure: &str) -> Option<f64> {
        self.0.get(figure).map(|summary| summary.median)
    }

    /// A count, or 0 where it is unknown: for sentences that are left out when there is nothing to say.
    fn count(&self, figure: &str) -> f64 {
        self.get(figure).unwrap_or(0.0)
    }
}

pub(super) fn text(
    arm: &Arm,
    kind: Option<Kind>,
    trials: &[TrialResult],
    summary: &BTreeMap<String, Summary>,
) -> String {
    let Some(trial) = trials.iter().find(|trial| trial.status == Status::Ok) else {
        return match trials.first() {
            None => "not run".into(),
            Some(trial) => {
                let reason = trial.reason.as_deref().unwrap_or("for an unknown reason");
                format!("{}: {reason}", trial.status)
            }
        };
    };
    let shown = Shown(summary);
    let told = tool::sentence(arm, trial).unwrap_or_else(|| answered(arm, &shown));
    let mut sentences = vec![match kind {
        Some(kind) => format!("{}: {told}", capital(&kind.to_string())),
        None => told,
    }];
    if !arm.server.listens() {
        sentences.push("Nobody listens there: that, and no full queue, is what refuses.".into());
        return sentences.join(" ");
    }
    match (&trial.counters.problem, shown.get(OVERFLOWS)) {
        _ if arm.server.is_unix() => sentences.push(
            "Overflow counters do not exist for AF_UNIX sockets: the error of connect() is the only trace.".into(),
        ),
        (Some(problem), _) => {
            sentences.push(format!("{}: overflows are unknown.", capital(problem)));
        }
        (None, None) => sentences.push("Overflows are unknown: the kernel does not tell.".into()),
        (None, Some(overflows)) => {
            sentences.push(overflow(overflows, &shown));
            sentences.extend(seen_full(overflows, &trial.listeners));
        }
    }
    sentences.extend(meaning(arm, kind, trial, &shown));
    sentences.extend(load_over_time(arm, &shown));
    sentences.extend(requests(arm, &shown));
    sentences.extend(out_of_descriptors(arm, &shown));
    sentences.extend(ghosts(&shown));
    sentences.extend(why::causes(summary, trial));
    sentences.extend(why::repeated_handshakes(trial));
    sentences.extend(balance::sentence(&trial.listeners));
    sentences.extend(balance::of_acceptors(&trial.accepted_by_acceptor));
    sentences.extend(wasted(&shown));
    sentences.extend(by_the_kernel(trial, &shown));
    sentences.extend(one_by_one(&trial.listeners));
    if trial.tool.is_none() && kind != Some(Kind::Overloaded) {
        // There the meaning of the kind has said it, by the rate that was measured.
        sentences.extend(too_long_a_queue(arm, &trial.listeners));
    }
    sentences.extend(limit(arm, trial, &shown));
    sentences.join(" ")
}

const OVERFLOWS: &str = "TcpExt.ListenOverflows";

/// `30 of 200 answered, 148 connect timeout, 22 read timeout.`
fn answered(arm: &Arm, shown: &Shown<'_>) -> String {
    let word = if arm.protocol.speaks_first == SpeaksFirst::Nobody {
        "connected"
    } else {
        "answered"
    };
    let mut parts = vec![format!(
        "{} of {} {word}",
        shown.count("ok"),
        shown.count("attempts")
    )];
    for class in Outcome::ALL
        .into_iter()
        .filter(|class| *class != Outcome::Ok)
    {
        let n = shown.count(class.figure());
        if n > 0.0 {
            parts.push(format!("{n} {class}"));
        }
    }
    format!("{}.", parts.join(", "))
}

fn overflow(overflows: f64, shown: &Shown<'_>) -> String {
    let drops = shown.count("TcpExt.ListenDrops");
    if overflows == 0.0 {
        let syn_queue = shown.count("TcpExt.TCPReqQFullDrop");
        return if syn_queue > 0.0 {
            format!(
                "It was the SYN queue that overflowed, {syn_queue} times, and never the accept queue."
            )
        } else if drops > 0.0 {
            format!("The accept queue never overflowed, but the listener dropped {drops} packets.")
        } else {
            "No overflow.".into()
        };
    }
    let mut text = format!("The accept queue overflowed {overflows} times");
    if let Some(idle) = shown.get("idle-percent").filter(|idle| *idle >= 50.0) {
        text += &format!(" while the machine was {idle:.0} % idle");
    }
    let losers = shown.count("not-ok");
    if losers == 0.0 {
        if let Some(slowest_ms) = shown.get("answered-max-ms") {
            text += &format!(
                "; nobody failed, but the slowest waited {:.1} s",
                slowest_ms / 1_000.0
            );
        }
    } else if overflows > 1.05 * losers {
        text += &format!(
            ": {:.1} for each of the {losers} losing clients, since every packet of a handshake that meets the full queue counts, repeated ones again",
            overflows / losers
        );
    }
    text + "."
}

/// A queue that overflowed must have been full: said when no look saw it.
fn seen_full(overflows: f64, listeners: &[ListenerResult]) -> Option<String> {
    let full = |one: &ListenerResult| u64::from(one.recv_q_max) >= one.accept_queue_capacity;
    let deepest = listeners.iter().map(|one| one.recv_q_max).max()?;
    (overflows > 0.0 && !listeners.iter().any(full)).then(|| {
        format!(
            "It was never seen full (deepest look {deepest}): bursts shorter than the sampling interval."
        )
    })
}

fn ghosts(shown: &Shown<'_>) -> Option<String> {
    let ghosts = shown.count("ghosts");
    if ghosts == 0.0 {
        return None;
    }
    let kinds: Vec<String> = [
        ("ghosts-waiting", "waiting in the accept queue"),
        ("ghosts-half-open", "half-open at the server"),
        ("ghosts-lost", "of whom the server holds nothing"),
    ]
    .into_iter()
    .filter(|(figure, _)| shown.count(figure) > 0.0)
    .map(|(figure, words)| format!("{} {words}", shown.count(figure)))
    .collect();
    let mut text = format!(
        "Ghosts: {ghosts} connected as far as the client knows, and never accepted ({}).",
        kinds.join(", ")
    );
    let cookies = shown.count("TcpExt.SyncookiesSent");
    if shown.count("ghosts-lost") > 0.0 && cookies > 0.0 {
        // Where the ACK went is not the same everywhere: a wire can keep it too.
        let then = if shown.count(Cause::CookieAckDropped.name()) > 0.0 {
            " and drops its ACK at a full queue."
        } else if shown.get(OVERFLOWS) == Some(0.0) {
            " until its ACK comes. No queue dropped such an ACK: it did not come."
        } else {
            " until its ACK comes."
        };
        text += &format!(
            " {cookies} SYN cookies were sent: with one a client is connected at once, while the server remembers nothing{then}"
        );
    }
    Some(text)
}

fn wasted(shown: &Shown<'_>) -> Option<String> {
    let wasted = shown.count("wasted-accepts");
    (wasted > 0.0).then(|| {
        let accepted = shown.count("accepted");
        format!("{wasted} of {accepted} accepts were wasted on clients that had given up.")
    })
}

/// What a program accepted, and who says so.
fn by_the_kernel(trial: &TrialResult, shown: &Shown<'_>) -> Option<String> {
    let program = trial.program.as_ref()?;
    let name = program
        .command
        .first()
        .map_or("the program", String::as_str);
    let name = name.rsplit('/').next().unwrap_or(name);
    Some(match shown.get("accepted") {
        Some(accepted) => format!("{name} accepted {accepted} by the kernel's count."),
        None => format!("How many {name} accepted is unknown: it opened connections of its own."),
    })
}

/// Several addresses of a program have a queue each; their total is no queue.
fn one_by_one(listeners: &[ListenerResult]) -> Option<String> {
    let first = listeners.first()?;
    if listeners.iter().all(|one| one.address == first.address) {
        return None;
    }
    let each: Vec<String> = listeners
        .iter()
        .map(|one| {
            let address = std::net::SocketAddr::new(one.address, one.port);
            format!(
                "{address} {} of {}",
                one.recv_q_max, one.accept_queue_capacity
            )
        })
        .collect();
    Some(format!(
        "Deepest queue of each listener: {}.",
        each.join(", ")
    ))
}

/// The last place of a queue is worth nothing when its turn comes after the clients' patience.
fn too_long_a_queue(arm: &Arm, listeners: &[ListenerResult]) -> Option<String> {
    let deepest = listeners.iter().map(|one| one.recv_q_max).max()?;
    let (delay, timeout) = (arm.server.accept_delay()?, arm.client.timeout);
    let wait_us = u64::from(deepest).saturating_mul(delay.as_us());
    (arm.server.accept() == Some(&AcceptPolicy::Loop) && wait_us > timeout.as_us()).then(|| {
        format!(
            "{deepest} waiting at {delay:#} per accept take {}.{} s, longer than the timeout of {timeout:#}: beyond {} places a longer queue answers nobody.",
            wait_us / 1_000_000,
            wait_us / 100_000 % 10,
            timeout.as_us() / delay.as_us()
        )
    })
}

/// What a server without descriptors did, and what its clients saw of it.
fn out_of_descriptors(arm: &Arm, shown: &Shown<'_>) -> Option<String> {
    let spec = arm.server.own()?.descriptors?;
    let failures = shown.get("accept-failures").filter(|n| *n > 0.0)?;
    let mut text = format!("The server had no descriptor left: accept() failed {failures} times.");
    let waiting = shown.count("recv-q-final");
    if waiting > 0.0 && !spec.when_out.closes() {
        text += &format!(" {waiting} are connected, and are not served: they are in the queue.");
    }
    text += &format!(" {}", spec.when_out);
    let (cpu, lasted) = (shown.get("server-cpu-ms"), shown.get("trial-ms"));
    if let Some((cpu, lasted)) = cpu.zip(lasted.filter(|ms| *ms > 0.0)) {
        let percent = cpu / lasted * 100.0;
        text += &format!(" (its thread used {percent:.0} % of a processor)");
    }
    Some(text + ".")
}

/// How the clients came, and what their percentiles count from.
fn load_over_time(arm: &Arm, shown: &Shown<'_>) -> Option<String> {
    if arm.protocol.requests.are_several() {
        return None;
    }
    let value = |what: &str, p: &str| shown.get(&format!("{what}-{p}-ms"));
    let known: Vec<&str> = ["p50", "p90", "p99"]
        .into_iter()
        .filter(|p| value("intended", p).is_some())
        .collect();
    let of = |what: &str| {
        let told = known.iter().filter_map(|p| value(what, p).map(decimal));
        told.collect::<Vec<_>>().join("/")
    };
    let times = if known.is_empty() {
        "too few were answered for percentiles (the median needs 20)".to_owned()
    } else {
        format!(
            "{} {} ms from the intended start, {} ms from the actual one",
            known.join("/"),
            of("intended"),
            of("answered")
        )
    };
    shown.get("intended-max-ms")?;
    match arm.client.pacing() {
        Loop::Flood => None,
        Loop::Open(rate) => Some(format!("Open loop, {rate}: {times}.")),
        Loop::Closed => Some(format!(
            "Closed loop, {} at a time: {times}; during a stall nobody else came, so a stall is at most {} slow answers and the percentiles hardly see it.",
            arm.client.connections, arm.client.connections
        )),
    }
}

/// What became of the requests, where connections carry several.
fn requests(arm: &Arm, shown: &Shown<'_>) -> Option<String> {
    let answered = shown.get("requests-answered")?;
    let number = |n: f64| format!("{n:.0$}", usize::from(n < 100.0) + usize::from(n < 1.0));
    let rate = shown.get("requests-per-s").map(number);
    let rate = rate.map_or_else(String::new, |rate| format!(", {rate} per second"));
    let value = |what: &str, p: &str| shown.get(&format!("{what}-{p}-ms"));
    let known: Vec<&str> = ["p50", "p99"]
        .into_iter()
        .filter(|p| value("request", p).is_some())
        .collect();
    let of = |what: &str| {
        let told = known.iter().filter_map(|p| value(what, p).map(number));
        told.collect::<Vec<_>>().join("/")
    };
    let times = if known.is_empty() {
        String::new()
    } else {
        format!(
            "; {} {} ms from the sending, {} ms from the intended start",
            known.join("/"),
            of("request"),
            of("request-intended")
        )
    };
    let blind = match arm.client.pacing() {
        Loop::Closed => ", and during a stall nobody else came",
        Loop::Open(_) | Loop::Flood => "",
    };
    Some(format!(
        "Requests: {answered} answered over {} connections{rate}, {} failed{times}. Only the first of a connection meets the accept queue{blind}.",
        shown.count("attempts"),
        shown.count("requests-failed"),
    ))
}

/// A number of milliseconds, short ones with a decimal.
fn decimal(ms: f64) -> String {
    let decimals = usize::from(ms < 100.0);
    format!("{ms:.decimals$}")
}

/// What follows from the kind.
fn meaning(
    arm: &Arm,
    kind: Option<Kind>,
    trial: &TrialResult,
    shown: &Shown<'_>,
) -> Option<String> {
    match kind? {
        Kind::Clean | Kind::Overflowing => None,
        Kind::Slow => {
            let slowest = ["answered-max-ms", "request-max-ms"];
            let slowest = slowest.iter().filter_map(|figure| shown.get(figure));
            slowest.reduce(f64::max).map(|ms| {
                format!(
                    "Nobody failed, but the slowest waited {:.1} s of the {:#} that clients allow.",
                    ms / 1_000.0,
                    arm.client.timeout
                )
            })
        }
        Kind::Overloaded => Some(match shown.get("accept-rate-per-s") {
            Some(rate) => format!(
                "Clients gave up in the queue, which no drop counter tells: at {rate:.1} accepts per second a backlog of up to {:.0} is still useful, everybody behind it waits longer than {:#}.",
                (rate * arm.client.timeout.as_ms() / 1_000.0).floor(),
                arm.client.timeout
            ),
            None => "Clients gave up in the queue, which no drop counter tells.".into(),
        }),
        Kind::AcceptStopped => Some(match shown.get("accept-pause-ms") {
            Some(ms) if shown.count("accepted") > 0.0 => format!(
                "Nothing was accepted in the last {:.1} s, with {} waiting: a larger backlog would only fill later.",
                ms / 1_000.0,
                shown.count("recv-q-final")
            ),
            _ => "Nothing was accepted: a larger backlog would only fill later.".into(),
        }),
        Kind::DroppedBeforeTheListener => trial.packet_drops.server_rx.map(|drops| {
            format!(
                "The server's interfaces dropped {drops} packets before the listener saw them: no listen counter has them, and no backlog helps. A processor's queue holds net.core.netdev_max_backlog packets, and the repeated SYNs of many clients come at once."
            )
        }),
        Kind::Failing => Some("The queue is not the cause.".into()),
    }
}

/// Which of the two limits binds, and what a clamp has cost.
fn limit(arm: &Arm, trial: &TrialResult, shown: &Shown<'_>) -> Option<String> {
    let effective = trial.listeners.first()?.backlog_effective;
    let asked = arm.server.backlog();
    let is_as_asked = asked.is_some_and(|asked| u32::try_from(asked) == Ok(effective));
    if arm.server.program().is_some() {
        let somaxconn = trial.sysctls.get("net.core.somaxconn");
        let somaxconn = somaxconn.and_then(|value| value.as_deref()?.parse::<u32>().ok());
        let other = asked.filter(|_| !is_as_asked);
        return Some(match (somaxconn, other) {
            (Some(most), other) if effective < most => {
                let set_up = other.map_or_else(String::new, |asked| {
                    format!(", though it was set up for {asked}")
                });
                format!(
                    "The limit in force, {effective}, is what the program asked for{set_up}: net.core.somaxconn, {most}, allows more."
                )
            }
            (Some(most), Some(asked)) if effective == most => clamped(effective, asked, shown),
            (Some(most), None) if effective == most => format!(
                "The limit in force, {effective}, is net.core.somaxconn: the program asked for at least that."
            ),
            _ => format!("The limit in force is {effective}; who set it is unknown."),
        });
    }
    if is_as_asked {
        return (shown.count(OVERFLOWS) > 0.0 && arm.server.accept() != Some(&AcceptPolicy::Never))
            .then(|| format!("The limit in force, {effective}, is the listen() argument."));
    }
    Some(clamped(effective, asked?, shown))
}

fn clamped(effective: u32, asked: i32, shown: &Shown<'_>) -> String {
    let cost = match (shown.get(OVERFLOWS), shown.get("not-ok")) {
        (Some(0.0), _) => "clamped, no effect observed".into(),
        (None, _) | (_, None) => "what that cost is unknown".into(),
        (Some(_), Some(0.0)) => "clamped, and it cost time but no connect".into(),
        (Some(_), Some(losers)) => format!("clamped, and it cost {losers} connects"),
    };
    format!(
        "The limit in force, {effective}, is net.core.somaxconn: the program asked for {asked}; {cost}."
    )
}

/// A text that begins a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
