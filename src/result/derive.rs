//! One observation to one trial result.

use std::collections::{BTreeMap, BTreeSet};

use super::deltas::{counters, growth};
use super::join::{Fate, Ghost, join};
use super::packets::Handshakes;
use super::stats::{Percentiles, ms};
use super::{
    AcceptTimes, AcceptedBy, Cause, Counters, Cpu, Evidence, Explained, Ghosts, Latencies,
    ListenerResult, LoadResult, Outcome, PacketDrops, RequestsResult, SelfCheck, Status,
    ToolResult, TrialResult, WireResult, books, explain, load, notes, outcome, self_check, tool,
    wire,
};
use crate::arm::Arm;
use crate::observation::{
    self, Attempt, BeforeAfter, Listener, Measured, Observation, ServerSide, ToolRun, TrialStatus,
};

/// Derives a trial's results. An observation without readings gives a result without figures.
pub fn trial_result(arm: &Arm, observation: &Observation) -> TrialResult {
    let mut result = match &observation.measured {
        Some(measured) => of_measured(arm, measured),
        None => empty(),
    };
    result.index = observation.index;
    match observation.status {
        TrialStatus::Measured => {}
        TrialStatus::Failed => result.status = Status::Failed,
        TrialStatus::Skipped => result.status = Status::Skipped,
    }
    if observation.reason.is_some() {
        result.reason.clone_from(&observation.reason);
    }
    result
}

fn empty() -> TrialResult {
    TrialResult {
        index: 0,
        status: Status::Ok,
        reason: None,
        notes: Vec::new(),
        tool: None,
        attempts: None,
        accepted: None,
        accepted_by: AcceptedBy::default(),
        accepted_by_acceptor: Vec::new(),
        accept_failures: BTreeMap::new(),
        wasted_accepts: None,
        ghosts: None,
        outcomes: None,
        errnos: BTreeMap::new(),
        listeners: Vec::new(),
        program: None,
        half_open_final: None,
        sysctls: BTreeMap::new(),
        counters: Counters::default(),
        packet_drops: PacketDrops::default(),
        latency_ms: Latencies::default(),
        load: LoadResult::default(),
        requests: None,
        cpu: Cpu::default(),
        start_skew_ms: None,
        causes: None,
        causes_from_totals: BTreeSet::new(),
        wire: None,
        accept_times: AcceptTimes::default(),
        self_check: SelfCheck::default(),
        books: Vec::new(),
        why_overflows: Vec::new(),
    }
}

fn of_measured(arm: &Arm, measured: &Measured) -> TrialResult {
    let attempts = &measured.attempts;
    let (fates, unknown_accepts) = join(measured);
    // A tool keeps no record of its attempts: no accept could belong to one.
    let unknown_accepts = if measured.tool.is_some() {
        0
    } else {
        unknown_accepts
    };
    let causes: Vec<Explained> = explain(measured, &fates).into_iter().flatten().collect();
    let mut outcomes: BTreeMap<Outcome, u32> = Outcome::ALL.map(|class| (class, 0)).into();
    let mut errnos = BTreeMap::new();
    for attempt in attempts {
        *outcomes.entry(outcome(attempt)).or_default() += 1;
        if let Some(errno) = &attempt.errno {
            let stage = format!("{:?}", attempt.stage).to_lowercase();
            *errnos.entry(format!("{stage}:{errno}")).or_default() += 1;
        }
    }
    let total: u32 = outcomes.values().sum();
    let connect_timeouts = outcomes.get(&Outcome::ConnectTimeout).copied().unwrap_or(0);
    let local_limits = outcomes.get(&Outcome::LocalLimit).copied().unwrap_or(0);
    let sent = if arm.server.is_unix() {
        0
    } else {
        total - local_limits
    };
    let (counters, went_back) = counters(measured, sent, connect_timeouts);
    let wire = measured.wire.as_ref().map(|log| {
        let repeated = Handshakes::of(measured, log).repeated(attempts);
        (log, WireResult::of(log, repeated))
    });
    let invalid = if !went_back.is_empty() {
        Some(format!("counters went backwards: {}", went_back.join(", ")))
    } else if let Some(wanted) = arm.client.attempts()
        && (total < wanted || total > wanted && !arm.protocol.requests.are_several())
        && measured.tool.is_none()
    {
        Some(format!("{total} of {wanted} attempts were recorded"))
    } else {
        wire.as_ref()
            .and_then(|(log, result)| wire::flaw(&arm.link, log, result))
    };
    let is_program = measured.program.is_some();
    let overflows = counters.server.get("TcpExt.ListenOverflows");
    let overflowed = overflows.copied().flatten().is_some_and(|n| n > 0);
    let mut result = TrialResult {
        status: if invalid.is_some() {
            Status::Invalid
        } else {
            Status::Ok
        },
        reason: invalid,
        notes: notes::notes(arm, measured, &outcomes, &counters, unknown_accepts),
        attempts: Some(total),
        accepted: if is_program {
            accepted_by_kernel(measured, &counters)
        } else {
            Some(count(measured.accepts.iter()))
        },
        accepted_by: if is_program {
            AcceptedBy::Kernel
        } else {
            AcceptedBy::Log
        },
        accepted_by_acceptor: by_acceptor(arm, measured),
        accept_failures: measured.accept_failures.clone(),
        wasted_accepts: (!is_program).then(|| unknown_accepts + wasted(attempts, &fates)),
        ghosts: ghosts(&fates),
        outcomes: Some(outcomes),
        errnos,
        listeners: listeners(measured),
        program: measured.program.clone(),
        half_open_final: (!arm.server.is_unix()).then(|| {
            let pending = measured.pending.iter();
            count(pending.filter(|one| one.state == ServerSide::HalfOpen))
        }),
        sysctls: sysctls(measured),
        counters,
        packet_drops: packet_drops(measured),
        latency_ms: latencies(measured, &fates),
        load: load::load(arm, measured, overflowed),
        requests: RequestsResult::of(arm, measured),
        cpu: cpu(measured),
        start_skew_ms: Some(Percentiles::of_us(
            attempts
                .iter()
                .map(|one| one.started_us.saturating_sub(one.intended_us))
                .collect(),
        )),
        causes: Some(by_cause(&causes)),
        causes_from_totals: causes
            .iter()
            .filter(|one| one.evidence == Evidence::Totals)
            .map(|one| one.cause)
            .collect(),
        wire: wire.map(|(_, result)| result),
        accept_times: accept_times(arm, measured),
        self_check: self_check::self_check(arm, measured, growth(measured.cpu.all_ticks)),
        ..empty()
    };
    if let Some(run) = &measured.tool {
        result = of_tool(arm, run, result);
    }
    if let Some((limit, reason)) = self_check::saturated(arm, measured, &result) {
        result.self_check.client_limit = Some(limit);
        if result.status == Status::Ok && reason.is_some() {
            (result.status, result.reason) = (Status::Invalid, reason);
        }
    }
    result.notes.extend(self_check::notes(arm, &result));
    result.notes.extend(load::note(arm, &result.load));
    let books = books::close(arm, measured, &fates, &result);
    (result.books, result.why_overflows) = (books.entries, books.why_overflows);
    let open: Vec<String> = result.open_books().map(notes::open_book).collect();
    result.notes.extend(open);
    result
}

/// A trial whose clients were a tool's: nothing is known of single attempts.
fn of_tool(arm: &Arm, run: &ToolRun, mut result: TrialResult) -> TrialResult {
    let tool = ToolResult::of(arm, run);
    result.notes.extend(tool::notes(arm, run, &tool));
    TrialResult {
        tool: Some(tool),
        attempts: None,
        wasted_accepts: None,
        ghosts: None,
        outcomes: None,
        latency_ms: Latencies::default(),
        start_skew_ms: None,
        causes: None,
        ..result
    }
}

fn by_cause(causes: &[Explained]) -> BTreeMap<Cause, u32> {
    let mut counts: BTreeMap<Cause, u32> = Cause::ALL.map(|cause| (cause, 0)).into();
    for one in causes {
        *counts.entry(one.cause).or_default() += 1;
    }
    counts
}

fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

/// Accepted connections whose client had given up or was about to.
fn wasted(attempts: &[Attempt], fates: &[Fate]) -> u32 {
    count(attempts.iter().zip(fates).filter(|(attempt, fate)| {
        fate.accepted_us.is_some()
            && !attempt.was_answered()
            && matches!(
                outcome(attempt),
                Outcome::ConnectTimeout | Outcome::ReadTimeout
            )
    }))
}

/// Ghosts by kind; `None` when the kind of any could not be read.
fn ghosts(fates: &[Fate]) -> Option<Ghosts> {
    let of = |kind| count(fates.iter().filter(|fate| fate.ghost == Some(kind)));
    (of(Ghost::Unknown) == 0).then(|| Ghosts {
        waiting: of(Ghost::Waiting),
        half_open: of(Ghost::HalfOpen),
        lost: of(Ghost::Lost),
    })
}

fn listeners(measured: &Measured) -> Vec<ListenerResult> {
    let accepted = |n| {
        let from_it = measured.accepts.iter().filter(|one| one.listener == n);
        measured.program.is_none().then(|| count(from_it))
    };
    let listeners = measured.listeners.iter().enumerate();
    listeners
        .map(|(n, one)| listener(one, accepted(n)))
        .collect()
}

/// How many each acceptor got, also those that got none; empty for a plain accept loop.
fn by_acceptor(arm: &Arm, measured: &Measured) -> Vec<u32> {
    let acceptors = arm.server.own().map_or(1, |own| own.acceptors);
    let of = |acceptor| {
        measured
            .accepts
            .iter()
            .filter(move |one| one.acceptor == acceptor)
    };
    (0..acceptors)
        .filter(|_| acceptors > 1)
        .map(|acceptor| count(of(acceptor)))
        .collect()
}

fn listener(listener: &Listener, accepted: Option<u32>) -> ListenerResult {
    let Listener {
        before,
        samples,
        after,
        ..
    } = listener;
    let looks = samples
        .recv_q
        .iter()
        .copied()
        .chain([before.recv_q, after.recv_q]);
    ListenerResult {
        address: listener.address.ip(),
        port: listener.address.port(),
        backlog_requested: listener.backlog_requested,
        backlog_effective: before.send_q,
        accept_queue_capacity: u64::from(before.send_q) + 1,
        recv_q_max: looks.max().unwrap_or(0),
        recv_q_final: after.recv_q,
        // The kernel's counter is 32 bits wide and wraps.
        drops: before
            .drops
            .zip(after.drops)
            .map(|(before, after)| after.wrapping_sub(before)),
        accepted,
        samples: samples.at_us.len(),
        sample_period_us: samples.period_us,
        samples_missed: samples.missed,
    }
}

fn sysctls(measured: &Measured) -> BTreeMap<String, Option<String>> {
    let client = measured.client.iter().flat_map(|client| &client.sysctls);
    let client = client.map(|(name, value)| (format!("client.{name}"), value.clone()));
    measured
        .server
        .sysctls
        .clone()
        .into_iter()
        .chain(client)
        .collect()
}

fn packet_drops(measured: &Measured) -> PacketDrops {
    let rx = |namespace: &observation::Namespace| {
        let sum = |drops: &BTreeMap<String, u64>| {
            let mut all = drops.values();
            all.try_fold(0_u64, |sum, drops| sum.checked_add(*drops))
        };
        growth(BeforeAfter {
            before: namespace.rx_dropped.before.as_ref().and_then(sum),
            after: namespace.rx_dropped.after.as_ref().and_then(sum),
        })
    };
    PacketDrops {
        server_rx: rx(&measured.server),
        client_rx: measured
            .client
            .as_ref()
            .map_or_else(|| rx(&measured.server), rx),
        softnet: growth(measured.softnet_dropped),
    }
}

/// What the kernel tells of a program's accepts: a handshake that is finished enters the queue and leaves it by
/// `accept()`. Unknown where the program has finished handshakes as a client too.
fn accepted_by_kernel(measured: &Measured, counters: &Counters) -> Option<u32> {
    if books::connects_itself(measured, counters) {
        return None;
    }
    let finished = counters.server.get("Tcp.PassiveOpens").copied().flatten()?;
    let queued = |of: fn(&Listener) -> u32| -> i64 {
        measured
            .listeners
            .iter()
            .map(|one| i64::from(of(one)))
            .sum()
    };
    let accepted = finished + queued(|one| one.before.recv_q) - queued(|one| one.after.recv_q);
    u32::try_from(accepted).ok()
}

/// How `accept()` went. A rate needs two accepts; of a program nobody tells.
#[expect(
    clippy::cast_precision_loss,
    reason = "a trial has far fewer than 2^53 accepts"
)]
fn accept_times(arm: &Arm, measured: &Measured) -> AcceptTimes {
    if measured.program.is_some() {
        return AcceptTimes::default();
    }
    let until_us = load::loaded_until_us(arm, measured).unwrap_or(u64::MAX);
    let under_load = measured.accepts.iter().map(|accept| accept.at_us);
    let under_load: Vec<u64> = under_load.take_while(|at_us| *at_us <= until_us).collect();
    let ends = under_load.first().zip(under_load.last());
    let took_us = ends.map(|(first, last)| last.saturating_sub(*first));
    let intervals = under_load.len().saturating_sub(1) as f64;
    let last_us = measured.accepts.last().map_or(0, |accept| accept.at_us);
    AcceptTimes {
        rate_per_s: took_us
            .filter(|us| *us > 0)
            .map(|us| intervals / (ms(us) / 1_000.0)),
        pause_ms: (!measured.listeners.is_empty())
            .then(|| ms(measured.ended_us.saturating_sub(last_us))),
    }
}

fn latencies(measured: &Measured, fates: &[Fate]) -> Latencies {
    let attempts = &measured.attempts;
    let since_start = |attempt: &Attempt, at_us: u64| at_us.saturating_sub(attempt.started_us);
    let of = |values: Vec<u64>| Some(Percentiles::of_us(values));
    let is_ok = |attempt: &&Attempt| outcome(attempt) == Outcome::Ok;
    Latencies {
        connect: of(attempts
            .iter()
            .filter_map(|one| Some(since_start(one, one.connected_us?)))
            .collect()),
        answered: of(attempts
            .iter()
            .filter(is_ok)
            .filter_map(|one| Some(since_start(one, one.first_byte_us?)))
            .collect()),
        answered_from_intended: of(attempts
            .iter()
            .filter(is_ok)
            .filter_map(|one| Some(one.first_byte_us?.saturating_sub(one.intended_us)))
            .collect()),
        not_ok: of(attempts
            .iter()
            .filter(|one| !is_ok(one))
            .map(|one| since_start(one, one.ended_us))
            .collect()),
        accept_wait: of(attempts
            .iter()
            .zip(fates)
            .filter_map(|(one, fate)| Some(fate.accepted_us?.saturating_sub(one.connected_us?)))
            .collect())
        .filter(|_| measured.program.is_none()),
    }
}

/// A shorter flood gives no idle share: the kernel accounts in ticks of 10 ms.
const LONG_ENOUGH_US: u64 = 250_000;

#[expect(
    clippy::cast_precision_loss,
    reason = "clock ticks since boot are far below 2^53"
)]
fn cpu(measured: &Measured) -> Cpu {
    let ticks = growth(measured.cpu.idle_ticks).zip(growth(measured.cpu.all_ticks));
    Cpu {
        server_ms: measured.cpu.server_us.map(ms),
        client_ms: measured.cpu.client_us.map(ms),
        idle_percent: ticks
            .filter(|(_, all)| *all > 0 && measured.ended_us >= LONG_ENOUGH_US)
            .map(|(idle, all)| (idle as f64 / all as f64 * 1_000.0).round() / 10.0),
    }
}
