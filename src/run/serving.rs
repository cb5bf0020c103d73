//! Who serves in a trial: the lab's own server, or a program that is started, awaited, paused and ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use socket2::Socket;

use super::attend::{FilesWatch, Pausing};
use super::program::{Started, last_words, missing_below};
use super::sampler::{Watched, Watching};
use super::{RunFolder, StoreError, TrialError};
use crate::arm::{self, ProgramServer};
use crate::load::{Clock, Interrupt, Server, ServerLog};
use crate::netns::{Ended, Topology, exit_in_words};
use crate::observation::{EndedBy, ServerProgram};
use crate::plan::{Plan, Trial};
use crate::probe::diag::{Diag, ListenRow};

/// A server that listens.
pub(super) enum Serving {
    /// The lab's own.
    Own(Server),
    /// A program.
    Program(Box<Running>),
}

/// A program that listens.
pub(super) struct Running {
    started: Started,
    spec: ProgramServer,
    address: SocketAddr,
    output: Option<(RunFolder, String)>,
    ready: Duration,
    pause: Option<Pausing>,
    files: Option<FilesWatch>,
}

/// A server that accepts no more; its queues stand as they are until it is dropped or ended.
pub(super) struct Stopped {
    /// What the lab's own server saw.
    pub(super) log: ServerLog,
    still: Still,
}

enum Still {
    Own { _sockets: Arc<Vec<Socket>> },
    Program(Box<Running>, Left),
}

/// What is known of a program when the clients have ended.
#[derive(Clone, Copy)]
struct Left {
    open_files: Option<(u64, u64)>,
    paused_us: Option<(u64, Option<u64>)>,
}

/// How often a program is looked at until it listens.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What a program may take to end by SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

impl Serving {
    /// Starts who serves, and waits until the clients' address reaches a listening socket. A program's output goes
    /// to the run's folder, if there is one.
    ///
    /// # Errors
    /// A program that is missing, that ended, or that did not come to listen there in time.
    pub(super) fn open(
        topology: &Topology,
        trial: Trial<'_>,
        output: Option<&RunFolder>,
        interrupt: &Interrupt,
    ) -> Result<Self, TrialError> {
        let ip = topology.server_ip;
        match &trial.arm.settings.server {
            arm::Server::Own(spec) => {
                let (spec, protocol) = (spec.clone(), trial.arm.settings.protocol.clone());
                let open = move || Server::open(ip, &spec, &protocol);
                Ok(Self::Own(topology.server.run(open)??))
            }
            arm::Server::Program(spec) => {
                let mut diag = topology.server.run(Diag::open)??;
                let stem = Plan::file_stem(&trial.arm.name, trial.index);
                let begun = Instant::now();
                let running = Running {
                    started: Started::new(&topology.server, &spec.program)?,
                    spec: spec.clone(),
                    address: SocketAddr::new(ip, spec.port),
                    output: output.map(|folder| (folder.clone(), stem)),
                    ready: Duration::ZERO,
                    pause: None,
                    files: None,
                };
                let running = running.when_ready(&mut diag, begun, interrupt)?;
                Ok(Self::Program(Box::new(running)))
            }
        }
    }

    /// The addresses that clients connect to, in turn.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Own(server) => server.addresses().to_vec(),
            Self::Program(running) => vec![running.address],
        }
    }

    /// The sockets to look at: all that listen on the port, first the one that the clients reach. From here on the
    /// files of a program are counted.
    pub(super) fn watched(
        &mut self,
        diag: &mut Diag,
        closes_first: bool,
    ) -> Result<Watched, TrialError> {
        let sockets = match self {
            Self::Own(server) => {
                let cookies = server.cookies().map_err(TrialError::failed)?;
                // One socket on each port, or several on the only one.
                let addresses = server.addresses().iter().cycle();
                let pairs = cookies.into_iter().zip(addresses);
                pairs
                    .map(|(cookie, &address)| Watching { address, cookie })
                    .collect()
            }
            Self::Program(running) => {
                let address = running.address;
                let reached = diag.reached(address)?;
                let mut rows: Vec<ListenRow> = diag.listeners()?;
                rows.retain(|row| row.address.port() == address.port());
                rows.sort_by_key(|row| (Some(row.cookie) != reached, row.address, row.cookie));
                running.files = FilesWatch::begin(&rows.iter().map(|row| row.inode).collect());
                let rows = rows.into_iter();
                rows.map(
                    |ListenRow {
                         address, cookie, ..
                     }| Watching { address, cookie },
                )
                .collect()
            }
        };
        Ok(Watched {
            sockets,
            closes_first,
        })
    }

    /// The clients are about to start.
    pub(super) fn begin(&mut self, clock: Clock) -> Result<(), TrialError> {
        match self {
            Self::Own(server) => Ok(server.begin(clock)?),
            Self::Program(running) => {
                if let Some(pause) = running.spec.pause {
                    let control = running.started.program.control();
                    running.pause = Some(Pausing::begin(pause, control, clock)?);
                }
                Ok(())
            }
        }
    }

    /// Lets it accept no more, without draining its queues: a program's processes are stopped.
    pub(super) fn stop(self) -> Result<Stopped, TrialError> {
        match self {
            Self::Own(server) => {
                let (log, sockets) = server.stop()?;
                Ok(Stopped {
                    log,
                    still: Still::Own { _sockets: sockets },
                })
            }
            Self::Program(mut running) => {
                let paused_us = running.pause.take().and_then(Pausing::end);
                // Fails only when it has ended, which its end tells.
                let _ = running.started.program.control().pause();
                let left = Left {
                    open_files: running.files.take().and_then(FilesWatch::end),
                    paused_us,
                };
                Ok(Stopped {
                    log: ServerLog::default(),
                    still: Still::Program(running, left),
                })
            }
        }
    }
}

impl Stopped {
    /// Ends it. Of a program, what there is to tell, and why the trial is not whole: it had ended before, or its
    /// output could not be stored.
    ///
    /// # Errors
    /// The wait for its end failed.
    pub(super) fn end(self) -> Result<(Option<ServerProgram>, Option<String>), TrialError> {
        match self.still {
            Still::Own { .. } => Ok((None, None)),
            Still::Program(running, left) => running.told(left),
        }
    }
}

impl Running {
    /// Waits until the clients' address reaches a socket that listens, and then for a while in which its workers
    /// can start.
    fn when_ready(
        mut self,
        diag: &mut Diag,
        begun: Instant,
        interrupt: &Interrupt,
    ) -> Result<Self, TrialError> {
        let within = self.spec.ready_within;
        while diag.reached(self.address)?.is_none() {
            if interrupt.raised().is_some() {
                return Err(TrialError::Interrupted);
            }
            let has_ended = self.has_ended_within(LOOK_EVERY)?;
            if has_ended || begun.elapsed() > within.as_duration() {
                let found = listening_on(diag)?;
                return Err(self.never_listened(has_ended, &found)?);
            }
        }
        self.ready = begun.elapsed();
        if self.has_ended_within(self.spec.settle.as_duration())? {
            return Err(self.never_listened(true, "none")?);
        }
        Ok(self)
    }

    fn has_ended_within(&mut self, within: Duration) -> Result<bool, TrialError> {
        let ended = self.started.program.ended(within);
        Ok(ended.map_err(TrialError::failed)?.is_some())
    }

    /// Why there is no trial: it ended, or it listens elsewhere or not at all.
    fn never_listened(self, has_ended: bool, found: &str) -> Result<TrialError, TrialError> {
        let name = self.started.program.name().to_owned();
        let (spec, address) = (self.spec.clone(), self.address);
        let (ended, _) = self.end()?;
        let words = last_words(&ended);
        if has_ended {
            let how = exit_in_words(ended.status);
            let missing = missing_below(&name, ended.status, spec.program.package.as_deref());
            if let Some(missing) = missing {
                return Ok(missing);
            }
            return Ok(TrialError::failed(format!(
                "{name} {how} before it listened on {address}{words}"
            )));
        }
        let limit = spec.program.nofile.or_else(open_files_allowed);
        let hint = limit.and_then(hint_at_a_huge_limit).unwrap_or_default();
        Ok(TrialError::failed(format!(
            "{name} never listened on {address} within {} (found: {found}){hint}{words}",
            spec.ready_within
        )))
    }

    /// Ends it and stores what it has printed; beside its end, why that could not be stored.
    fn end(self) -> Result<(Ended, Option<StoreError>), TrialError> {
        let Self {
            started, output, ..
        } = self;
        let ended = started.program.end(PATIENCE).map_err(TrialError::failed)?;
        let streams = [("stdout", &ended.stdout), ("stderr", &ended.stderr)];
        let store = |(folder, stem): (RunFolder, String)| {
            let mut printed = streams.iter().filter(|(_, kept)| kept.total() > 0);
            printed.try_for_each(|(stream, kept)| {
                let name = format!("output/{stem}.server.{stream}.txt");
                folder.write(&name, kept.text().as_bytes())
            })
        };
        let unstored = output.and_then(|place| store(place).err());
        Ok((ended, unstored))
    }

    fn told(self, left: Left) -> Result<(Option<ServerProgram>, Option<String>), TrialError> {
        let name = self.started.program.name().to_owned();
        let (command, ready) = (self.spec.program.command.clone(), self.ready);
        let (ended, unstored) = self.end()?;
        let how = exit_in_words(ended.status);
        let died = (ended.by == EndedBy::Itself).then(|| {
            format!(
                "the server died during the trial: {name} {how}{}",
                last_words(&ended)
            )
        });
        let program = ServerProgram {
            command,
            ready_us: u64::try_from(ready.as_micros()).unwrap_or(u64::MAX),
            open_files: left.open_files,
            paused_us: left.paused_us,
            ended_by: ended.by,
            ended: how,
            stubborn: ended.stubborn,
            output_bytes: ended.stdout.total() + ended.stderr.total(),
            output_left_out: ended.stdout.left_out() + ended.stderr.left_out(),
        };
        let unstored = || unstored.map(|error| error.to_string());
        Ok((Some(program), died.or_else(unstored)))
    }
}

/// Every address that is listened on in the namespace, for a message.
pub(super) fn listening_on(diag: &mut Diag) -> Result<String, TrialError> {
    let rows = diag.listeners()?;
    let found: Vec<String> = rows.iter().map(|row| row.address.to_string()).collect();
    Ok(if found.is_empty() {
        "none".to_owned()
    } else {
        found.join(", ")
    })
}

/// This process's soft limit of open files; `None` where the kernel does not tell.
pub(super) fn open_files_allowed() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE)
        .map(|(soft, _)| soft)
        .ok()
}

/// Programs that close every descriptor that they could have take minutes for a limit of a thousand million.
fn hint_at_a_huge_limit(limit: u64) -> Option<String> {
    const HUGE: u64 = 1_048_576;
    (limit > HUGE).then(|| {
        format!(
            "; its limit of open files is {limit}, and some programs go through all of them at their start: set server.nofile = 65536"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_limit_of_files_is_hinted_at() {
        assert_eq!(hint_at_a_huge_limit(1_048_576), None);
        let hint = hint_at_a_huge_limit(1_073_741_816).unwrap();
        assert!(
            hint.contains("1073741816") && hint.contains("server.nofile"),
            "{hint}"
        );
    }
}
