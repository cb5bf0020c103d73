//! Who attempts connections in a trial: the lab's own flood, or a load tool that is started, awaited and ended.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::TrialError;
use super::program::{Started, missing_below};
use crate::arm::ProgramSpec;
use crate::load::{Clock, Flood, Harvest, Interrupt, Progress, Schedule, Series, Target};
use crate::netns::{Topology, exit_in_words};
use crate::observation::ToolRun;
use crate::plan::Trial;
use crate::probe::diag::Diag;

/// Clients that are ready to start.
pub(super) enum Clients<'a> {
    /// The lab's own: workers at their barrier.
    Own(Flood),
    /// A program that is not started yet.
    Tool(Box<Tool<'a>>),
}

/// A tool, aimed at the server.
pub(super) struct Tool<'a> {
    topology: &'a Topology,
    spec: ProgramSpec,
    limit: Duration,
    interrupt: Interrupt,
}

/// Clients that are on their way.
pub(super) enum Running {
    Own(Flood),
    Tool(Box<RunningTool>),
}

/// A tool that runs.
pub(super) struct RunningTool {
    started: Started,
    command: Vec<String>,
    started_us: u64,
    limit: Duration,
    interrupt: Interrupt,
    package: Option<String>,
}

impl<'a> Clients<'a> {
    pub(super) fn prepare(
        topology: &'a Topology,
        trial: Trial<'_>,
        addresses: &[SocketAddr],
        progress: &Arc<Progress>,
        interrupt: &Interrupt,
    ) -> Result<Self, TrialError> {
        let arm = &trial.arm.settings;
        let client = &arm.client;
        if client.is_tool() {
            return Ok(Self::Tool(Box::new(Tool {
                topology,
                spec: client.aimed_at(addresses[0]),
                limit: client.most().as_duration(),
                interrupt: interrupt.clone(),
            })));
        }
        let target = Target {
            addresses: addresses.to_vec(),
            sources: client.sources,
            bind: client.bind,
            speaks_first: arm.protocol.speaks_first,
            http: arm.protocol.http.clone(),
            series: Series::new(client, &arm.protocol),
            timeout_us: client.timeout.as_us(),
            hold_us: client.hold.as_us(),
            diag: Mutex::new(topology.server.run(Diag::open)??),
            blind: Mutex::default(),
            progress: Arc::clone(progress),
            interrupt: interrupt.clone(),
        };
        let spec = client.clone();
        let schedule = Schedule::new(&spec, arm.protocol.requests, trial.seed);
        let flood = topology
            .client()
            .run(move || Flood::prepare(&spec, schedule, target))??;
        Ok(Self::Own(flood))
    }

    /// Lets them go.
    ///
    /// # Errors
    /// The arm is skipped where the tool is missing.
    pub(super) fn release(self, clock: Clock) -> Result<Running, TrialError> {
        match self {
            Self::Own(flood) => {
                flood.release(clock);
                Ok(Running::Own(flood))
            }
            Self::Tool(tool) => {
                let started_us = clock.now_us();
                Ok(Running::Tool(Box::new(RunningTool {
                    started: Started::new(tool.topology.client(), &tool.spec)?,
                    started_us,
                    command: tool.spec.command,
                    package: tool.spec.package,
                    limit: tool.limit,
                    interrupt: tool.interrupt,
                })))
            }
        }
    }
}

impl Running {
    /// Waits for their end.
    pub(super) fn join(self, clock: Clock) -> Result<(Harvest, Option<ToolRun>), TrialError> {
        match self {
            Self::Own(flood) => Ok((flood.join()?, None)),
            Self::Tool(tool) => Ok((Harvest::default(), Some(tool.join(clock)?))),
        }
    }
}

impl RunningTool {
    /// Waits until it and whatever it has started are gone, at most until its limit; then it is ended.
    fn join(mut self, clock: Clock) -> Result<ToolRun, TrialError> {
        /// What it may take to end by SIGTERM.
        const PATIENCE: Duration = Duration::from_secs(2);
        /// How often the interruption is asked for.
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        let limit_us = u64::try_from(self.limit.as_micros()).unwrap_or(u64::MAX);
        let until_us = self.started_us.saturating_add(limit_us);
        let mut in_time = false;
        while !in_time && self.interrupt.raised().is_none() {
            let rest = clock.until(until_us);
            if rest.is_zero() {
                break;
            }
            let ended = self.started.program.ended(rest.min(LOOK_EVERY));
            in_time = ended.map_err(TrialError::failed)?.is_some();
        }
        let ended_us = clock.now_us();
        let name = self.started.program.name().to_owned();
        let ended = self.started.program.end(PATIENCE);
        let ended = ended.map_err(TrialError::failed)?;
        if let Some(missing) = missing_below(&name, ended.status, self.package.as_deref()) {
            return Err(missing);
        }
        Ok(ToolRun {
            command: self.command,
            started_us: self.started_us,
            ended_us,
            in_time,
            exit_code: ended.status.code(),
            ended: exit_in_words(ended.status),
            stdout: ended.stdout.text(),
            stderr: ended.stderr.text(),
            left_out_bytes: ended.stdout.left_out() + ended.stderr.left_out(),
        })
    }
}
