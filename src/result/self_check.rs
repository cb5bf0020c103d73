//! What the lab says of itself: whether its client and its sampler kept up. A trial whose load was not raised as
//! the arm says is invalid: what it lacks is no failure of the server.

use schemars::JsonSchema;
use serde::Serialize;

use super::load::nominal_capacity;
use super::ports::{Ports, ports};
use super::stats::ms;
use super::{Outcome, Percentiles, TrialResult};
use crate::arm::{AcceptPolicy, Arm, Engine, Loop, Span, Start};
use crate::figure::Figure;
use crate::observation::Measured;

/// How the lab's own parts did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct SelfCheck {
    /// Client threads that the arm asks for; `null` for event loops, whose number is the machine's.
    pub workers_wanted: Option<u32>,
    /// Client threads that ran.
    pub workers: Option<u32>,
    /// The limit of open files, which client and server share.
    pub open_files: Option<u64>,
    /// The client's share of the whole machine's processor time.
    pub client_cpu_percent: Option<f64>,
    /// The longest time without a look at the listeners.
    pub sampler_gap_max_ms: Option<f64>,
    /// Where the client's ports ended, if they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// Attempts of an open loop that found no thread free at their time.
    pub starved: u32,
    /// What kept the client from raising the load that the arm describes.
    pub client_limit: Option<ClientLimit>,
}

/// A limit of the client's machine: what a load beyond it meets is no failure of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientLimit {
    /// Threads that attempt connections.
    Threads,
    /// Local ports.
    Ports,
    /// Open files.
    Descriptors,
    /// Anything else that the client's kernel ran out of.
    Memory,
    /// Starts were late.
    Schedule,
    /// Processor time: the machine had none left, and the server's thread did not use it.
    Processor,
}

impl ClientLimit {
    /// Whether other work on the machine may have made it, so that another trial may be free of it.
    pub(super) const fn may_pass(self) -> bool {
        matches!(self, Self::Schedule | Self::Processor)
    }
}

/// A client that starts later than this has met another queue than the arm meant.
const LATE_MS: f64 = 100.0;
/// From here on a late start is next to the first repeated SYN, and the flood is none.
const TOO_LATE_MS: f64 = 500.0;
/// A queue can rise and fall unseen in less.
const BLIND_MS: f64 = 100.0;
/// With less than this idle, something waited for a processor.
const BUSY_IDLE_PERCENT: f64 = 5.0;
/// Descriptors of the lab that are no connections: namespaces, netlink, files.
const OWN_FILES: u64 = 64;

pub(super) fn self_check(arm: &Arm, measured: &Measured, all_ticks: Option<u64>) -> SelfCheck {
    SelfCheck {
        workers_wanted: (measured.tool.is_none() && arm.client.engine == Engine::Threads)
            .then(|| arm.client.threads()),
        workers: measured.generator.workers,
        open_files: measured.generator.open_files,
        client_cpu_percent: share_percent(measured.cpu.client_us, all_ticks),
        sampler_gap_max_ms: longest_gap_us(measured).map(ms),
        ports: ports(arm, measured),
        starved: measured.generator.starved,
        client_limit: None,
    }
}

/// The share of `used_us` in `ticks` of a hundredth of a second (`USER_HZ`).
#[expect(
    clippy::cast_precision_loss,
    reason = "times of a trial are far below 2^53 microseconds"
)]
fn share_percent(used_us: Option<u64>, ticks: Option<u64>) -> Option<f64> {
    const TICK_US: f64 = 10_000.0;
    // The fewer the ticks, the coarser the share.
    const ENOUGH_TICKS: u64 = 25;
    let (used_us, ticks) = used_us.zip(ticks.filter(|ticks| *ticks >= ENOUGH_TICKS))?;
    Some((used_us as f64 / (ticks as f64 * TICK_US) * 1_000.0).round() / 10.0)
}

fn longest_gap_us(measured: &Measured) -> Option<u64> {
    let looks = &measured.listeners.first()?.samples.at_us;
    let ends = looks.iter().copied().chain([measured.ended_us]);
    let starts = [0].into_iter().chain(looks.iter().copied());
    ends.zip(starts)
        .map(|(end, start)| end.saturating_sub(start))
        .max()
}

/// What kept the client from raising the load that the arm describes, and why the trial does not count then. One
/// that only had no processor time left still counts.
pub(super) fn saturated(
    arm: &Arm,
    measured: &Measured,
    result: &TrialResult,
) -> Option<(ClientLimit, Option<String>)> {
    let check = &result.self_check;
    if let Some((got, wanted)) = check.workers.zip(check.workers_wanted)
        && got < wanted
    {
        let problem = measured.generator.problem.as_deref();
        let why = format!(
            "the client had {got} of {wanted} threads: {}",
            problem.unwrap_or("for an unknown reason")
        );
        return Some((ClientLimit::Threads, Some(why)));
    }
    if check.starved > 0 {
        let why = format!(
            "{} attempts found no thread free at their time, so the loop was not open; raise client.workers, or lower client.timeout",
            check.starved
        );
        return Some((ClientLimit::Threads, Some(why)));
    }
    let limited = result.count(Outcome::LocalLimit).unwrap_or(0);
    if limited > 0 {
        let errnos: Vec<&str> = result.errnos.keys().map(String::as_str).collect();
        let has = |names: [&str; 2]| {
            let mut met = errnos.iter().filter_map(|one| one.rsplit(':').next());
            met.any(|errno| names.contains(&errno))
        };
        let limit = if has(["EADDRNOTAVAIL", "EADDRINUSE"]) {
            ClientLimit::Ports
        } else if has(["EMFILE", "ENFILE"]) {
            ClientLimit::Descriptors
        } else {
            ClientLimit::Memory
        };
        let is_the_point = arm.expects_local_limit();
        let why = format!(
            "{limited} attempts met a limit of the client's machine and never reached the server ({}); raise the limit, or let the arm expect local-limit",
            errnos.join(", ")
        );
        return Some((limit, (!is_the_point).then_some(why)));
    }
    let is_late = |skew: &Percentiles| {
        skew.p50.is_some_and(|ms| ms > LATE_MS) || skew.max.is_some_and(|ms| ms > TOO_LATE_MS)
    };
    if let Some(skew) = lateness_of(arm, result).filter(is_late) {
        let why = format!(
            "the client did not keep its schedule ({}): give the machine less other work, or the arm fewer client.workers",
            lateness(&skew)
        );
        return Some((ClientLimit::Schedule, Some(why)));
    }
    // What kept connections ask for later may use all of the machine; the queue had them before.
    let overflows = result.figure(&Figure::server_counter("TcpExt.ListenOverflows"));
    let met_the_queue =
        arm.protocol.requests.are_several() && overflows.is_some_and(|count| count > 0.0);
    (uses_all(arm, measured, result) && !met_the_queue).then_some((ClientLimit::Processor, None))
}

/// Whether the machine had no processor time to spare while the server's thread was not busy, and the client used
/// most of it or the server did not get what its settings need.
fn uses_all(arm: &Arm, measured: &Measured, result: &TrialResult) -> bool {
    const MOST_PERCENT: f64 = 40.0;
    const BUSY_SERVER: f64 = 0.8;
    const AS_MEANT: f64 = 0.8;
    let server = result
        .cpu
        .server_ms
        .map(|used| used / ms(measured.ended_us));
    let idle = result.cpu.idle_percent;
    let client = result.self_check.client_cpu_percent;
    let slower = match nominal_capacity(arm) {
        Some(per_s) => {
            let rate = result.accept_times.rate_per_s;
            rate.is_some_and(|rate| rate < per_s * AS_MEANT)
        }
        None => arm.server.own().is_some_and(|own| {
            own.accept == AcceptPolicy::Loop && own.accept_from == Span::default()
        }),
    };
    idle.is_some_and(|idle| idle < BUSY_IDLE_PERCENT)
        && server.is_some_and(|share| share < BUSY_SERVER)
        && (slower || client.is_some_and(|share| share > MOST_PERCENT))
}

/// How late attempts began. One by one without a spread, each begins when it is its turn, and none is late.
fn lateness_of(arm: &Arm, result: &TrialResult) -> Option<Percentiles> {
    let client = &arm.client;
    let has_times = client.start == Start::Together
        || client.pacing() != Loop::Flood
        || client.spread.max(client.jitter) != Span::default();
    result.start_skew_ms.filter(|_| has_times)
}

fn lateness(skew: &Percentiles) -> String {
    let max = skew.max.unwrap_or_default();
    match skew.p50 {
        Some(p50) => {
            format!("half of the attempts began {p50:.0} ms late, the last one {max:.0} ms")
        }
        None => format!("an attempt began {max:.0} ms late"),
    }
}

/// What to keep in mind about a trial that counts.
pub(super) fn notes(arm: &Arm, result: &TrialResult) -> Vec<String> {
    let check = &result.self_check;
    let mut notes: Vec<String> = check.ports.map(Ports::note).into_iter().collect();
    if let Some(skew) = lateness_of(arm, result)
        && skew.max.is_some_and(|ms| ms > LATE_MS)
    {
        notes.push(format!("starts were late: {}", lateness(&skew)));
    }
    if let Some(gap) = check.sampler_gap_max_ms.filter(|ms| *ms > BLIND_MS) {
        notes.push(format!(
            "nobody looked at the listener for {gap:.0} ms: a peak in between was not seen"
        ));
    }
    if let Some(idle) = result
        .cpu
        .idle_percent
        .filter(|idle| *idle < BUSY_IDLE_PERCENT)
    {
        let client = check.client_cpu_percent;
        let client = client.map_or_else(
            || "an unknown share".into(),
            |share| format!("{share:.0} %"),
        );
        notes.push(format!(
            "the machine was only {idle:.0} % idle, and the lab's clients used {client} of it: times are those of a busy machine"
        ));
    }
    let needed = u64::from(arm.client.at_once()) * 2 + OWN_FILES;
    if let Some(limit) = check.open_files.filter(|limit| *limit < needed)
        && result.tool.is_none()
    {
        notes.push(format!(
            "the limit of {limit} open files is below the {needed} that all connections at once would need (ulimit -n)"
        ));
    }
    notes
}
