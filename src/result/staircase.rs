//! Steps of one arm under more and more load: which it bears, where it breaks, what was to be expected, and what
//! limits it. A load that the client could not raise says nothing about the server.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::held::{Held, Tries, counted, held, median};
use super::load::too_short;
use super::prediction::predict;
use super::{ArmResult, Cause, ClientLimit, Kind, Summary, TrialResult};
use crate::arm::{Arm, LoadKind};

/// An arm's steps by their load.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Staircase {
    /// What the steps' names have in common.
    pub name: String,
    /// What is raised from step to step.
    pub by: LoadKind,
    /// Whether throughput and latency are those of requests, of which a connection carries several.
    pub per_request: bool,
    /// The steps, the lightest load first.
    pub steps: Vec<Step>,
    /// The highest load that was borne, below the lowest one that was not.
    pub holds: Option<f64>,
    /// The lowest load that was not borne.
    pub breaks: Option<f64>,
    /// The breaking point that was to be expected; `null` where the settings do not say.
    pub predicted: Option<f64>,
    /// Why, in words.
    pub prediction: Option<String>,
    /// `holds` and `breaks` over `predicted`, where all three are known.
    pub over_predicted: Option<[f64; 2]>,
    /// What stands in the way of more; `null` where every step was borne.
    pub limit: Option<Limit>,
    /// The same in words.
    pub limit_told: Option<String>,
}

/// A step: medians over its trials that count, or over all valid ones where none does. Unknown is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// The arm.
    pub arm: String,
    /// The load.
    pub load: f64,
    /// Whether it was borne.
    pub held: Held,
    /// In how many trials.
    pub tries: Tries,
    /// Clients served per second while there was load: while connections were started; in a flood, until the accept queue
    /// first ran empty. Of connections that carry several requests, these.
    pub answered_per_s: Option<f64>,
    /// Median time from the intended start to the answer.
    pub p50_ms: Option<f64>,
    /// 99th percentile of it.
    pub p99_ms: Option<f64>,
    /// Clients that were not well.
    pub not_ok: Option<f64>,
    /// Growth of `TcpExt.ListenOverflows`.
    pub overflows: Option<f64>,
    /// When the first packet was dropped at the listener.
    pub first_overflow_ms: Option<f64>,
    /// When it was to be expected.
    pub predicted_overflow_ms: Option<f64>,
    /// Whether it ended before its queue was to be full, so that it shows nothing.
    pub too_short: bool,
    /// The server's thread, in percent of a processor.
    pub server_cpu_percent: Option<f64>,
    /// The client's threads together, in percent of a processor.
    pub client_cpu_percent: Option<f64>,
    /// The machine's idle share.
    pub idle_percent: Option<f64>,
}

/// What stands in the way of more load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The places of the accept queue.
    Backlog,
    /// What the server accepts per second.
    AcceptRate,
    /// Queues of the interfaces, before the listener.
    Interfaces,
    /// Something else at the server.
    Other,
    /// Threads of the client.
    ClientThreads,
    /// Local ports of the client.
    ClientPorts,
    /// Open files of the client.
    ClientDescriptors,
    /// Anything else that the client's kernel ran out of.
    ClientMemory,
    /// The client's starts were late.
    ClientSchedule,
    /// Processor time: the machine had none left, and the server did not use it.
    ClientProcessor,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Backlog => "the backlog",
            Self::AcceptRate => "the accept rate",
            Self::Interfaces => "queues before the listener",
            Self::Other => "something other than the queue",
            Self::ClientThreads => "the client's threads",
            Self::ClientPorts => "the client's ports",
            Self::ClientDescriptors => "the client's open files",
            Self::ClientMemory => "the client's memory",
            Self::ClientSchedule => "the client's lateness",
            Self::ClientProcessor => "the machine's processor time",
        })
    }
}

impl Limit {
    /// Whether it is the client's, and says nothing of the server.
    pub const fn is_clients(self) -> bool {
        !matches!(
            self,
            Self::Backlog | Self::AcceptRate | Self::Interfaces | Self::Other
        )
    }
}

impl From<ClientLimit> for Limit {
    fn from(limit: ClientLimit) -> Self {
        match limit {
            ClientLimit::Threads => Self::ClientThreads,
            ClientLimit::Ports => Self::ClientPorts,
            ClientLimit::Descriptors => Self::ClientDescriptors,
            ClientLimit::Memory => Self::ClientMemory,
            ClientLimit::Schedule => Self::ClientSchedule,
            ClientLimit::Processor => Self::ClientProcessor,
        }
    }
}

/// The staircases of a run: arms that differ in nothing but one kind of load, at least two of them.
pub(super) fn staircases(arms: &[ArmResult]) -> Vec<Staircase> {
    let mut groups: Vec<(Arm, LoadKind, Vec<&ArmResult>)> = Vec::new();
    for arm in arms {
        let named = Arm {
            name: arm.name.clone(),
            ..arm.settings.clone()
        };
        let (common, (by, _)) = (named.without_load(), named.load());
        match groups
            .iter_mut()
            .find(|(one, kind, _)| (one, *kind) == (&common, by))
        {
            Some((_, _, steps)) => steps.push(arm),
            None => groups.push((common, by, vec![arm])),
        }
    }
    groups
        .into_iter()
        .filter(|(_, _, steps)| steps.len() > 1)
        .map(|(common, by, steps)| staircase(common.name, by, steps))
        .collect()
}

fn staircase(name: String, by: LoadKind, mut arms: Vec<&ArmResult>) -> Staircase {
    let load = |arm: &ArmResult| arm.settings.load().1;
    arms.sort_by(|a, b| load(a).total_cmp(&load(b)));
    let steps: Vec<Step> = arms.iter().map(|arm| step(arm)).collect();
    let first = |held: &[Held]| steps.iter().position(|step| held.contains(&step.held));
    let end = first(&[Held::Breaks, Held::ClientLimited]);
    let below = &steps[..end.unwrap_or(steps.len())];
    let broken = first(&[Held::Breaks]).map(|n| arms[n]);
    let predicted = arms.first().and_then(|arm| predict(arm, broken));
    let limit = end.map(|n| limit(arms[n], by, steps[n].held));
    let (predicted, prediction) = predicted.unzip();
    let (limit, limit_told) = limit.unzip();
    let holds = below.iter().rfind(|step| step.held == Held::Holds);
    let holds = holds.map(|step| step.load);
    let breaks = first(&[Held::Breaks]).map(|n| steps[n].load);
    let over = |load: f64| {
        let ratio = load / predicted.filter(|load| *load > 0.0)?;
        Some((ratio * 1_000.0).round() / 1_000.0)
    };
    Staircase {
        name,
        by,
        per_request: arms.first().is_some_and(|arm| has_requests(arm)),
        holds,
        breaks,
        predicted,
        prediction,
        over_predicted: holds
            .zip(breaks)
            .and_then(|(low, high)| Some([over(low)?, over(high)?])),
        limit,
        limit_told,
        steps,
    }
}

/// Whether connections carry several requests.
fn has_requests(arm: &ArmResult) -> bool {
    arm.settings.protocol.requests.are_several()
}

/// An arm as a step.
pub fn step(arm: &ArmResult) -> Step {
    // Processor time is counted until the last client has ended.
    let percent = |of: &dyn Fn(&TrialResult) -> Option<f64>| {
        let shares = counted(arm).into_iter().filter_map(of).collect();
        Summary::of(shares).map(|summary| summary.median)
    };
    let share = |used: Option<f64>, trial: &TrialResult| {
        Some((used? / trial.load.lasted_ms? * 1_000.0).round() / 10.0)
    };
    let either = |of_requests, of_clients| {
        let figure = if has_requests(arm) {
            of_requests
        } else {
            of_clients
        };
        median(arm, figure)
    };
    let predicted_overflow_ms = median(arm, "predicted-overflow-ms");
    let first_overflow_ms = median(arm, "first-overflow-ms");
    let (held, tries) = held(arm);
    Step {
        arm: arm.name.clone(),
        load: arm.settings.load().1,
        held,
        tries,
        answered_per_s: either("requests-per-s", "answered-per-s"),
        p50_ms: either("request-intended-p50-ms", "intended-p50-ms"),
        p99_ms: either("request-intended-p99-ms", "intended-p99-ms"),
        not_ok: median(arm, "not-ok"),
        overflows: median(arm, "TcpExt.ListenOverflows"),
        first_overflow_ms,
        predicted_overflow_ms,
        too_short: first_overflow_ms.is_none() && too_short(&arm.settings, predicted_overflow_ms),
        server_cpu_percent: percent(&|one| share(one.cpu.server_ms, one)),
        client_cpu_percent: percent(&|one| share(one.cpu.client_ms, one)),
        idle_percent: median(arm, "idle-percent"),
    }
}

/// What stands in the way at the first step that was not borne.
fn limit(arm: &ArmResult, by: LoadKind, held: Held) -> (Limit, String) {
    let mut limits = arm.trials.iter().filter_map(|one| {
        let why = one.reason.clone();
        Some((Limit::from(one.self_check.client_limit?), why))
    });
    if held == Held::ClientLimited
        && let Some((limit, why)) = limits.next()
    {
        let why =
            why.unwrap_or_else(|| "none was left, and the server's thread did not use it".into());
        return (limit, why);
    }
    let overflows = median(arm, "TcpExt.ListenOverflows").unwrap_or(0.0);
    let accepted = median(arm, "accept-rate-per-s");
    let places = median(arm, "accept-queue-capacity").unwrap_or(0.0);
    let load = arm.settings.load().1;
    let slower = accepted.filter(|per_s| by == LoadKind::Rate && *per_s < load);
    match (arm.verdict.kind, slower) {
        (Some(Kind::DroppedBeforeTheListener), _) => (
            Limit::Interfaces,
            "the interfaces dropped more than the listener".into(),
        ),
        (Some(Kind::AcceptStopped), _) => (
            Limit::AcceptRate,
            "accept has stopped: a larger backlog would only fill later".into(),
        ),
        (_, Some(per_s)) if overflows > 0.0 => (
            Limit::AcceptRate,
            format!(
                "{load}/s came and {per_s:.1}/s were accepted; the {places} places of the queue only decide when that shows"
            ),
        ),
        _ if overflows > 0.0 => (
            Limit::Backlog,
            format!("the queue has {places} places, and more came than it could hold"),
        ),
        (Some(Kind::Overloaded), _) => (
            Limit::AcceptRate,
            format!(
                "nothing was dropped, and clients waited longer than their timeout of {:#}",
                arm.settings.client.timeout
            ),
        ),
        _ if median(arm, Cause::UnixQueueFull.name()).is_some_and(|sent_away| sent_away > 0.0) => (
            Limit::Backlog,
            "the queue of the AF_UNIX socket was full, and sent clients away".into(),
        ),
        _ => (
            Limit::Other,
            "clients failed, and the queue never overflowed".into(),
        ),
    }
}
