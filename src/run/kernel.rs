//! The lab on the real kernel: one trial, step by step, in namespaces of its own.

use std::fmt::Display;
use std::iter;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::clients::Clients;
use super::sampler::{Sampler, Watched};
use super::serving::{Serving, listening_on, open_files_allowed};
use super::{Lab, RunFolder, TrialError};
use crate::arm::{Family, LinkKind, ServerSpec};
use crate::load::{Clock, FloodError, Harvest, Interrupt, Progress, ServerError, ServerLog};
use crate::netns::{Namespace, NetnsError, Topology};
use crate::observation::{
    BeforeAfter, Cpu, Generator, Listener, Look, Measured, Namespace as Readings, Pending, Samples,
    ServerProgram, ServerSide, ToolRun, WireLog,
};
use crate::plan::Trial;
use crate::probe::diag::{Diag, DiagError};
use crate::probe::{counters, drops, host};
use crate::wire::{self, Cpus, Relay, WireError};

/// The real kernel.
#[derive(Debug, Clone, Default)]
pub struct KernelLab {
    /// Ends the running trial before its time.
    pub interrupt: Interrupt,
    /// Where what programs print is kept; without a folder it is not.
    pub output: Option<RunFolder>,
}

/// How often the listening sockets are looked at.
const SAMPLE_PERIOD_US: u64 = 1_000;

/// The calling thread's view of its namespace.
const NET: &str = "/proc/thread-self/net";

impl From<NetnsError> for TrialError {
    fn from(error: NetnsError) -> Self {
        match error {
            NetnsError::Refused(refusal) => Self::Refused(refusal),
            error @ (NetnsError::Sysctl(_) | NetnsError::Unsupported { .. }) => {
                Self::Skipped(error.to_string())
            }
            error => Self::failed(error),
        }
    }
}

impl From<DiagError> for TrialError {
    fn from(error: DiagError) -> Self {
        Self::failed(error)
    }
}

impl From<WireError> for TrialError {
    fn from(error: WireError) -> Self {
        Self::failed(error)
    }
}

impl From<ServerError> for TrialError {
    fn from(error: ServerError) -> Self {
        Self::failed(error)
    }
}

impl From<FloodError> for TrialError {
    fn from(error: FloodError) -> Self {
        Self::failed(error)
    }
}

impl Lab for KernelLab {
    fn ready(&self) -> Result<(), TrialError> {
        Namespace::create("probe")?;
        Ok(())
    }

    fn observe(&self, trial: Trial<'_>, progress: &Arc<Progress>) -> Result<Measured, TrialError> {
        let arm = &trial.arm.settings;
        let topology = Topology::build(&arm.link, &arm.sysctl)?;
        if let Some(sources) = &arm.client.sources {
            topology.add_sources(sources)?;
        }
        let relay = start_relay(&topology, trial)?;
        let mut server = Serving::open(&topology, trial, self.output.as_ref(), &self.interrupt)?;
        let addresses = server.addresses();
        // Where nobody listens, and of an AF_UNIX socket, the TCP tables have no row.
        let is_seen = arm.server.listens() && !arm.server.is_unix();
        let mut diag = topology.server.run(Diag::open)??;
        let own = arm.server.own();
        let closes_first = own.is_some_and(ServerSpec::may_close);
        let watched = server.watched(&mut diag, closes_first)?;
        let before = if is_seen {
            listening(&watched, &mut diag)?
        } else {
            Vec::new()
        };
        let clients = Clients::prepare(&topology, trial, &addresses, progress, &self.interrupt)?;

        let mut readings = Take::before(&topology)?;
        let clock = Clock::start();
        let sampler = if is_seen {
            let (watched, diag) = (watched.clone(), topology.server.run(Diag::open)??);
            let start = move || Sampler::start(watched, diag, SAMPLE_PERIOD_US, clock);
            Some(topology.server.run(start)?.map_err(TrialError::failed)?)
        } else {
            None
        };
        server.begin(clock)?;
        let running = clients.release(clock)?;
        let (harvest, tool) = running.join(clock)?;
        let Harvest {
            attempts,
            held,
            cpu_us: client_cpu_us,
            blind,
            workers,
            problem,
            starved,
        } = harvest;
        if self.interrupt.raised().is_some() {
            return Err(TrialError::Interrupted);
        }
        readings.note(blind);
        let ended_us = clock.now_us();
        readings.cpu(Moment::After);
        let mut server = server.stop()?;
        // The clients' records are there, and are kept: a reading that fails from here on is unknown.
        let mut flaw = Flaw(None);
        let wire = relay.and_then(|relay| flaw.known(relay.stop(clock.origin())));
        let (samples, broke_off) = sampler.map_or_else(Default::default, Sampler::stop);
        let pending = flaw.known(pending(&mut diag, &addresses));
        flaw.known(readings.namespaces(&topology, Moment::After));
        // The socket's own counter last: what it counts until now is in it, and never more in the others.
        let after = flaw.known(watched.look(&mut diag)).unwrap_or_default();
        drop(held);
        let log = std::mem::take(&mut server.log);
        let (program, died) = server.end()?;
        drop(topology);

        let measured = readings.measured(Parts {
            listeners: listeners(
                &watched,
                arm.server.backlog(),
                before,
                samples,
                after,
                log.first_closed_us,
            ),
            attempts,
            client_cpu_us,
            generator: Generator {
                workers: tool.is_none().then_some(workers),
                problem,
                starved,
                open_files: open_files_allowed(),
            },
            log,
            program,
            tool,
            pending,
            ended_us,
            wire,
        });
        let broke_off = broke_off.map(|reason| format!("the sampler broke off: {reason}"));
        match died.or(broke_off).or(flaw.0) {
            None => Ok(measured),
            Some(reason) => Err(TrialError::Failed {
                reason,
                measured: Some(Box::new(measured)),
            }),
        }
    }
}

/// Why a trial that has run is not whole: the first reading that failed.
struct Flaw(Option<String>);

impl Flaw {
    /// The reading, if it succeeded.
    fn known<T>(&mut self, reading: Result<T, impl Display>) -> Option<T> {
        match reading {
            Ok(reading) => Some(reading),
            Err(error) => {
                self.0.get_or_insert_with(|| error.to_string());
                None
            }
        }
    }
}

/// Sets the relay of a wire to work, on a processor that the other threads of the trial are kept away from.
fn start_relay(topology: &Topology, trial: Trial<'_>) -> Result<Option<wire::Running>, TrialError> {
    let link = &trial.arm.settings.link;
    let (LinkKind::Wire(spec), Some(between)) = (&link.kind, &topology.between) else {
        return Ok(None);
    };
    let protocol = match link.family {
        Family::Ipv4 => libc::ETH_P_IP,
        Family::Ipv6 => libc::ETH_P_IPV6,
    };
    let protocol = u16::try_from(protocol).map_err(TrialError::failed)?;
    let (to_server, to_client) = (between.to_server, between.to_client);
    let relay = between
        .namespace
        .run(move || Relay::open(to_server, to_client, protocol))??;
    let cpus = Cpus::share()?;
    if let Some(cpus) = &cpus {
        for namespace in [&topology.server, topology.client()] {
            let cpus = cpus.clone();
            namespace.run(move || cpus.leave())??;
        }
    }
    let relay = relay.start(spec.clone(), trial.seed, cpus, trial.capture_bytes)?;
    topology.prove()?;
    Ok(Some(relay))
}

/// The first look, which also proves that every socket listens before a client is started.
fn listening(watched: &Watched, diag: &mut Diag) -> Result<Vec<Look>, TrialError> {
    let looks: Vec<Option<Look>> = watched.look(diag)?;
    let sockets = watched.sockets.iter().zip(&looks);
    let silent: Vec<String> = sockets
        .filter(|(_, look)| look.is_none())
        .map(|(socket, _)| socket.address.to_string())
        .collect();
    if silent.is_empty() {
        return Ok(looks.into_iter().flatten().collect());
    }
    let found = listening_on(diag)?;
    Err(TrialError::failed(format!(
        "the server never listened on {} (found: {found})",
        silent.join(", ")
    )))
}

/// Half-open requests, and full sockets that `accept()` has not returned.
fn pending(diag: &mut Diag, addresses: &[SocketAddr]) -> Result<Vec<Pending>, TrialError> {
    let mut all = Vec::new();
    for address in addresses {
        let mut pending = diag.connections(address.port())?;
        pending.retain(|one| one.state != ServerSide::Accepted);
        for one in &mut pending {
            one.server_port = (addresses.len() > 1).then_some(address.port());
        }
        all.extend(pending);
    }
    Ok(all)
}

fn listeners(
    watched: &Watched,
    backlog_requested: Option<i32>,
    before: Vec<Look>,
    samples: Vec<Samples>,
    after: Vec<Option<Look>>,
    first_closed_us: Option<u64>,
) -> Vec<Listener> {
    let looks = before
        .into_iter()
        .zip(samples)
        .zip(after.into_iter().chain(iter::repeat(None)));
    looks
        .zip(&watched.sockets)
        .enumerate()
        .filter_map(|(n, (((before, samples), after), socket))| {
            let last = || last_look(before, &samples);
            Some(Listener {
                address: socket.address,
                backlog_requested,
                before,
                after: after.or_else(last)?,
                samples,
                closed_us: first_closed_us.filter(|_| n == 0),
            })
        })
        .collect()
}

fn last_look(before: Look, samples: &Samples) -> Option<Look> {
    Some(Look {
        recv_q: *samples.recv_q.last()?,
        send_q: before.send_q,
        drops: *samples.drops.last()?,
    })
}

/// What the clients, the server and the probes bring together.
struct Parts {
    listeners: Vec<Listener>,
    attempts: Vec<crate::observation::Attempt>,
    client_cpu_us: Option<u64>,
    generator: Generator,
    log: ServerLog,
    program: Option<ServerProgram>,
    tool: Option<ToolRun>,
    pending: Option<Vec<Pending>>,
    ended_us: u64,
    wire: Option<WireLog>,
}

/// The readings before and after; what could not be read stands in the notes.
struct Take {
    notes: Vec<String>,
    server: Readings,
    client: Option<Readings>,
    softnet_dropped: BeforeAfter<u64>,
    cpu: Cpu,
}

impl Take {
    fn before(topology: &Topology) -> Result<Self, NetnsError> {
        let mut take = Self {
            notes: Vec::new(),
            server: topology.server_settings.clone(),
            client: topology.client_settings.clone(),
            softnet_dropped: BeforeAfter::default(),
            cpu: Cpu::default(),
        };
        take.namespaces(topology, Moment::Before)?;
        take.cpu(Moment::Before);
        Ok(take)
    }

    /// Reads the counters and drops of both namespaces.
    fn namespaces(&mut self, topology: &Topology, moment: Moment) -> Result<(), NetnsError> {
        let server = NamespaceReadings::take(&topology.server)?;
        *moment.of(&mut self.server.counters) = server.counters;
        *moment.of(&mut self.server.rx_dropped) = server.rx_dropped;
        *moment.of(&mut self.softnet_dropped) = server.softnet_dropped;
        self.note(server.problems);
        if let Some(readings) = &mut self.client {
            let client = NamespaceReadings::take(topology.client())?;
            *moment.of(&mut readings.counters) = client.counters;
            *moment.of(&mut readings.rx_dropped) = client.rx_dropped;
            self.note(client.problems);
        }
        Ok(())
    }

    /// Reads the machine's processor time.
    fn cpu(&mut self, moment: Moment) {
        match host::ticks() {
            Ok(ticks) => {
                *moment.of(&mut self.cpu.idle_ticks) = Some(ticks.idle);
                *moment.of(&mut self.cpu.all_ticks) = Some(ticks.all);
            }
            Err(error) => self.note(vec![error.to_string()]),
        }
    }

    fn note(&mut self, problems: Vec<String>) {
        for problem in problems {
            if !self.notes.contains(&problem) {
                self.notes.push(problem);
            }
        }
    }

    fn measured(mut self, parts: Parts) -> Measured {
        for (errno, times) in &parts.log.failures {
            self.notes.push(format!(
                "the server's accept() failed with {errno}, {times} times"
            ));
        }
        self.cpu.server_us = parts.log.cpu_us;
        self.cpu.client_us = parts.client_cpu_us;
        Measured {
            notes: self.notes,
            server: self.server,
            client: self.client,
            softnet_dropped: self.softnet_dropped,
            listeners: parts.listeners,
            attempts: parts.attempts,
            accepts: parts.log.accepts,
            program: parts.program,
            accept_failures: parts.log.failures,
            pending: parts.pending,
            cpu: self.cpu,
            generator: parts.generator,
            tool: parts.tool,
            ended_us: parts.ended_us,
            wire: parts.wire,
        }
    }
}

/// When a reading is taken: before the clients start, or after the last has ended.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Before,
    After,
}

impl Moment {
    /// Where a reading of this moment belongs.
    fn of<T>(self, reading: &mut BeforeAfter<T>) -> &mut Option<T> {
        match self {
            Self::Before => &mut reading.before,
            Self::After => &mut reading.after,
        }
    }
}

/// One reading of a namespace, taken on its own thread.
struct NamespaceReadings {
    counters: Option<crate::observation::Counters>,
    rx_dropped: Option<std::collections::BTreeMap<String, u64>>,
    softnet_dropped: Option<u64>,
    problems: Vec<String>,
}

impl NamespaceReadings {
    fn take(namespace: &Namespace) -> Result<Self, NetnsError> {
        namespace.run(|| {
            let net = Path::new(NET);
            let snapshot = counters::snapshot(net);
            let mut problems = snapshot.problems;
            let mut known = |problem: String| problems.push(problem);
            Self {
                rx_dropped: drops::rx_dropped(net)
                    .map_err(|e| known(e.to_string()))
                    .ok(),
                softnet_dropped: drops::softnet_dropped(net)
                    .map_err(|e| known(e.to_string()))
                    .ok(),
                counters: (!snapshot.counters.is_empty()).then_some(snapshot.counters),
                problems,
            }
        })
    }
}
