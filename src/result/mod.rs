//! What observations mean: outcomes, deltas, latencies, expectations, verdicts. Pure.
//!
//! These types are the results document (docs/format.md). Unknown is `null`, never 0.

mod against;
mod balance;
mod books;
mod causes;
mod claims;
mod compare;
mod deltas;
mod derive;
mod expect;
mod figures;
mod held;
mod join;
mod kind;
mod load;
mod notes;
mod outcome;
mod packets;
mod ports;
mod prediction;
mod requests;
mod self_check;
mod setup;
mod staircase;
mod stats;
mod syn_schedule;
mod tool;
mod until;
mod verdict;
mod why;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

pub(crate) use books::OVERFLOWS_TAKEN_APART;
pub use books::{Entry, Term};
pub use causes::{Cause, Evidence, Explained, explain};
pub use claims::{Claim, Predicted, Prediction, Ruled, Ruling, claims};
pub use compare::{ArmComparison, Comparison, ERROR_RATE, FigureComparison, METHOD, compare};
pub use derive::trial_result;
pub use expect::{Judged, Verdict};
pub use held::{Held, Tries, held, held_in, median};
pub use join::{Fate, Ghost, join};
pub use kind::Kind;
pub use load::LoadResult;
pub use outcome::{Outcome, outcome};
pub use packets::Owners;
pub use ports::Ports;
pub use prediction::expected_breaking_load;
pub use requests::RequestsResult;
pub use self_check::{ClientLimit, SelfCheck};
pub use staircase::{Limit, Staircase, Step, step};
pub(crate) use stats::ms;
pub use stats::{Percentiles, Summary};
pub use syn_schedule::SynSchedule;
pub use tool::ToolResult;
pub use until::{Reached, wants_more};
pub(crate) use verdict::capital;
pub use wire::{Direction, Repeated, WireError, WireResult};

use crate::arm::{Arm, Override};
use crate::manifest::{Host, Manifest, Tool};
use crate::observation::{Observation, SCHEMA_VERSION, ServerProgram};
use crate::plan::{Plan, PlannedArm, Schedule};

/// A run's results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Results {
    /// The document's version.
    pub schema_version: u32,
    /// The run's id.
    pub run_id: String,
    /// When the run began.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// Whether every planned trial has ended.
    pub complete: bool,
    /// The command that began it.
    pub command: Vec<String>,
    /// The program that measured.
    pub tool: Tool,
    /// The machine.
    pub host: Host,
    /// The seed of every random decision.
    pub seed: u64,
    /// Keys that were overridden for this run.
    pub overrides: Vec<Override>,
    /// How the trials were carried out.
    pub schedule: Schedule,
    /// The arms in the order asked.
    pub arms: Vec<ArmResult>,
    /// Arms that differ in nothing but their load, as the steps that they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub staircases: Vec<Staircase>,
}

/// An arm's results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ArmResult {
    /// The full name.
    pub name: String,
    /// One line.
    pub title: String,
    /// Every resolved setting, in the arm file's own words.
    pub settings: Arm,
    /// The trials by index.
    pub trials: Vec<TrialResult>,
    /// Every figure over the valid trials.
    pub summary: BTreeMap<String, Summary>,
    /// How far it has come, where trials go on until a figure is tight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Reached>,
    /// What the arm shows, and whether it met what was expected.
    pub verdict: Verdict,
}

/// How a trial counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is valid.
    Ok,
    /// It broke off.
    Failed,
    /// It ran, and must not be believed.
    Invalid,
    /// This machine does not allow it.
    Skipped,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Skipped => "skipped",
        })
    }
}

/// A trial's results. Whatever was not measured is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TrialResult {
    /// Its number within the arm.
    pub index: u32,
    /// How it counts.
    pub status: Status,
    /// Why it is not "ok".
    pub reason: Option<String>,
    /// What to keep in mind about its figures, a sentence each.
    pub notes: Vec<String>,
    /// The load tool that ran in place of the lab's own clients; absent with these. Where there is one, whatever is
    /// told of attempts is `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolResult>,
    /// Connections attempted: the sum of the outcomes.
    pub attempts: Option<u32>,
    /// Connections that `accept()` returned.
    pub accepted: Option<u32>,
    /// Who says so.
    pub accepted_by: AcceptedBy,
    /// Accepted connections of each acceptor, where several share a socket; else absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted_by_acceptor: Vec<u32>,
    /// `accept()` calls that failed, by errno.
    pub accept_failures: BTreeMap<String, u64>,
    /// Accepted connections whose client had given up.
    pub wasted_accepts: Option<u32>,
    /// Connections that the client held as established and the server never accepted.
    pub ghosts: Option<Ghosts>,
    /// Attempts by outcome.
    pub outcomes: Option<BTreeMap<Outcome, u32>>,
    /// Failed system calls of the client, by stage and errno.
    pub errnos: BTreeMap<String, u32>,
    /// The listening sockets.
    pub listeners: Vec<ListenerResult>,
    /// The program that served; absent when it was the lab's own server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<ServerProgram>,
    /// Half-open requests at the end.
    pub half_open_final: Option<u32>,
    /// The sysctls in force; those of a client in a namespace of its own as `client.NAME`. `null` where the kernel
    /// does not show one.
    pub sysctls: BTreeMap<String, Option<String>>,
    /// Growth of the kernel's counters.
    pub counters: Counters,
    /// Packets dropped before TCP saw them.
    pub packet_drops: PacketDrops,
    /// Latencies in milliseconds, from the actual start where nothing else is said.
    pub latency_ms: Latencies,
    /// The load over time.
    pub load: LoadResult,
    /// The requests, where connections carry several; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsResult>,
    /// Processor time.
    pub cpu: Cpu,
    /// How late the client's starts were, in milliseconds.
    pub start_skew_ms: Option<Percentiles>,
    /// Attempts that are not ok, by cause; their sum is attempts - ok.
    pub causes: Option<BTreeMap<Cause, u32>>,
    /// Those of the causes that were found from counters of the whole trial.
    pub causes_from_totals: BTreeSet<Cause>,
    /// What the wire did; absent on other links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireResult>,
    /// How `accept()` went.
    pub accept_times: AcceptTimes,
    /// How the lab's own parts did.
    pub self_check: SelfCheck,
    /// Totals that must agree.
    pub books: Vec<Entry>,
    /// The terms whose sum is `TcpExt.ListenOverflows`; empty when there were none, or a term is unknown.
    pub why_overflows: Vec<Term>,
}

impl TrialResult {
    /// The totals that do not agree.
    pub fn open_books(&self) -> impl Iterator<Item = &Entry> {
        self.books.iter().filter(|entry| entry.holds == Some(false))
    }
}

/// Who says how many connections were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AcceptedBy {
    /// The log of the lab's own server: each of them, with its time.
    #[default]
    Log,
    /// The kernel: finished handshakes minus what stands in the queues. It says neither when nor whose.
    Kernel,
}

/// Ghosts by what the server held of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Ghosts {
    /// In the accept queue.
    pub waiting: u32,
    /// A half-open request.
    pub half_open: u32,
    /// Nothing.
    pub lost: u32,
}

impl Ghosts {
    /// All of them.
    pub fn total(self) -> u32 {
        self.waiting + self.half_open + self.lost
    }
}

/// A listening socket's results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListenerResult {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// The `listen()` argument; `null` where it is a program's own.
    pub backlog_requested: Option<i32>,
    /// The limit in force: Send-Q.
    pub backlog_effective: u32,
    /// What the queue holds: one more than the limit.
    pub accept_queue_capacity: u64,
    /// The deepest queue that was seen: Recv-Q.
    pub recv_q_max: u32,
    /// The queue at the end.
    pub recv_q_final: u32,
    /// Growth of the socket's drop counter.
    pub drops: Option<u32>,
    /// Connections that `accept()` returned from it; of a program nobody tells.
    pub accepted: Option<u32>,
    /// Looks at it.
    pub samples: usize,
    /// The period that was asked for.
    pub sample_period_us: u64,
    /// Looks that were due and did not happen.
    pub samples_missed: u64,
}

/// Growth of the kernel's counters during the trial, by the kernel's names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Counters {
    /// Whether client and server share a namespace.
    pub shared: bool,
    /// Why the counters are unknown or not to be believed.
    pub problem: Option<String>,
    /// The server's namespace.
    pub server: BTreeMap<String, Option<i64>>,
    /// The client's namespace; the server's again when they share one.
    pub client: BTreeMap<String, Option<i64>>,
}

/// Packets dropped before TCP saw them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct PacketDrops {
    /// By the interfaces of the server's namespace on receipt.
    pub server_rx: Option<u64>,
    /// By the interfaces of the client's namespace on receipt.
    pub client_rx: Option<u64>,
    /// By the whole machine's per-CPU queues.
    pub softnet: Option<u64>,
}

/// Latencies, each with its population.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Latencies {
    /// Start to connected, of the connected.
    pub connect: Option<Percentiles>,
    /// Start to the answer, of the answered.
    pub answered: Option<Percentiles>,
    /// Intended start to the answer, of the answered: also the time that a client spent on not having started yet.
    pub answered_from_intended: Option<Percentiles>,
    /// Start to the end, of those that were not answered.
    pub not_ok: Option<Percentiles>,
    /// Connected to accepted, of the accepted.
    pub accept_wait: Option<Percentiles>,
}

/// How `accept()` went.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct AcceptTimes {
    /// Accepts per second, from the first to the last while there was load: while connections were started; in a
    /// flood, until the accept queue first ran empty.
    pub rate_per_s: Option<f64>,
    /// From the last accept to the trial's end; the whole trial when there was none.
    pub pause_ms: Option<f64>,
}

/// Processor time during the flood.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Cpu {
    /// The server's thread.
    pub server_ms: Option<f64>,
    /// The client's threads.
    pub client_ms: Option<f64>,
    /// The machine's idle share.
    pub idle_percent: Option<f64>,
}

/// The JSON Schema of the results document.
pub fn results_schema() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Results>();
    schema.insert("title".into(), "Results document of backlog-lab".into());
    schema
}

/// Derives a run's results from its manifest and its observations.
pub fn results(manifest: &Manifest, observations: &[Observation]) -> Results {
    let plan = &manifest.plan;
    let of_arm = |arm: &PlannedArm| {
        let own = observations.iter().filter(|one| one.arm == arm.name);
        let trials = own.map(|one| trial_result(&arm.settings, one)).collect();
        arm_result(&arm.settings, plan, &manifest.host, trials)
    };
    let mut arms: Vec<ArmResult> = plan.arms.iter().map(of_arm).collect();
    against::say_what_moved(&mut arms);
    let is_complete = |arm: &PlannedArm| {
        let ended = observations.iter().filter(|one| one.arm == arm.name);
        ended.count() == plan.trials_of(arm) as usize
            || (plan.schedule.until.is_some() && !wants_more(plan, arm, observations))
    };
    Results {
        schema_version: SCHEMA_VERSION,
        run_id: manifest.run_id.clone(),
        started_at: manifest.started_at,
        complete: plan.arms.iter().all(is_complete),
        command: manifest.command.clone(),
        tool: manifest.tool.clone(),
        host: manifest.host.clone(),
        seed: plan.seed,
        overrides: plan.overrides.clone(),
        schedule: plan.schedule.clone(),
        staircases: staircase::staircases(&arms),
        arms,
    }
}

fn arm_result(arm: &Arm, plan: &Plan, host: &Host, trials: Vec<TrialResult>) -> ArmResult {
    let summary = figures::summary(arm, &trials);
    let kind = kind::kind(arm, &trials, &summary);
    ArmResult {
        name: arm.name.clone(),
        title: arm.title.clone(),
        verdict: Verdict {
            kind,
            text: verdict::text(arm, kind, &trials, &summary),
            ..expect::judge(arm, plan, host, &trials)
        },
        settings: arm.clone(),
        until: plan
            .schedule
            .until
            .as_ref()
            .map(|until| until::reached(until, &trials)),
        trials,
        summary,
    }
}

impl Results {
    /// The exit code that they deserve; the most serious one wins: 3 this machine did not allow or did not show
    /// something, 4 a trial failed or is invalid or did not take place, 1 an expectation was not met or a figure did not
    /// become as tight as was asked for, 0 all well.
    pub fn exit_code(&self) -> u8 {
        let trials = || self.arms.iter().flat_map(|arm| &arm.trials);
        let valid = || trials().filter(|trial| trial.status == Status::Ok);
        let unknown = |arm: &ArmResult| {
            let judged = arm.verdict.not_judged.is_none() && !arm.summary.is_empty();
            judged && arm.verdict.expectations.iter().any(|one| one.met.is_none())
        };
        if self.has(Status::Skipped)
            || valid().any(|trial| trial.counters.problem.is_some())
            || self.arms.iter().any(unknown)
        {
            3
        } else if self.has(Status::Failed) || self.has(Status::Invalid) || !self.complete {
            4
        } else {
            let missed = |arm: &ArmResult| {
                let is_open = arm.until.as_ref().is_some_and(|until| !until.reached);
                is_open || arm.verdict.met == Some(false)
            };
            u8::from(self.arms.iter().any(missed))
        }
    }

    /// Whether any trial is of this status.
    pub fn has(&self, status: Status) -> bool {
        self.arms
            .iter()
            .flat_map(|arm| &arm.trials)
            .any(|trial| trial.status == status)
    }
}
