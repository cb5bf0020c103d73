//! `backlog-lab hold`.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use serde::Serialize;

use super::{print, signals};
use crate::cli::{HoldArgs, HoldMode};
use crate::error::Error;
use crate::hold::{self, Held, Mode};
use crate::sys;

/// What the command that runs while a port is held finds its address in.
const ADDRESS: &str = "BACKLOG_LAB_ADDR";

/// How often the keeper is asked whether the promise is kept.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How long a command may take to end after it was signalled.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The ready line of `--json`.
#[derive(Serialize)]
struct Announcement {
    mode: &'static str,
    address: String,
    port: u16,
    ready_ms: f64,
}

pub(super) fn hold(args: &HoldArgs) -> Result<ExitCode, Error> {
    let begun = Instant::now();
    // Before the first thread starts, so that no thread is interrupted.
    let waited = block_signals().map_err(Error::Signals)?;
    let mode = match args.mode {
        HoldMode::Full => Mode::Full,
        HoldMode::Ghost => Mode::Ghost,
        HoldMode::Slow => Mode::Slow(args.delay.as_duration()),
        HoldMode::Reset => Mode::Reset,
        HoldMode::Close => Mode::Close,
        HoldMode::Refuse => Mode::Refuse,
    };
    let held = hold::at(mode, SocketAddr::new(args.bind, args.port))?;
    let ready = ready(&held, begun.elapsed(), args.json)?;
    let mut child = if args.command.is_empty() {
        print(&ready)?;
        None
    } else {
        eprint!("{ready}");
        Some(start(args, &held)?)
    };
    let mut wait = Wait {
        held,
        until: args.duration.map(|span| begun + span.as_duration()),
        kill_at: None,
        broke: false,
    };
    loop {
        if let Some(code) = wait.step(&waited, child.as_mut())? {
            return Ok(ExitCode::from(code));
        }
    }
}

fn block_signals() -> Result<SignalFd, Errno> {
    let mut set = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGCHLD,
    ] {
        set.add(signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

fn ready(held: &Held, took: Duration, json: bool) -> Result<String, Error> {
    let address = held.address();
    if !json {
        return Ok(format!(
            "{} {address} ready: {}\n",
            held.mode().name(),
            held.mode()
        ));
    }
    let ready = Announcement {
        mode: held.mode().name(),
        address: address.ip().to_string(),
        port: address.port(),
        ready_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
    };
    let line = serde_json::to_string(&ready).map_err(|error| Error::Print(error.into()))?;
    Ok(line + "\n")
}

fn start(args: &HoldArgs, held: &Held) -> Result<Child, Error> {
    let name = &args.command[0];
    let mut command = Command::new(name);
    command
        .args(&args.command[1..])
        .env(ADDRESS, held.address().to_string());
    sys::die_with_parent(&mut command);
    command
        .spawn()
        .map_err(|error| Error::Usage(format!("cannot start {}: {error}", name.to_string_lossy())))
}

/// What is waited for while the port is held.
struct Wait {
    held: Held,
    until: Option<Instant>,
    /// When a command that was signalled is killed.
    kill_at: Option<Instant>,
    broke: bool,
}

impl Wait {
    /// Waits a little. Returns the exit code when the hold is over.
    fn step(&mut self, waited: &SignalFd, child: Option<&mut Child>) -> Result<Option<u8>, Error> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Error::Program(format!("cannot {what}: {error}"))
        };
        let now = Instant::now();
        let rest = self.until.map_or(ASK_EVERY, |until| {
            until.saturating_duration_since(now).min(ASK_EVERY)
        });
        let mut poll = [PollFd::new(waited.as_fd(), PollFlags::POLLIN)];
        sys::wait(&mut poll, Some(rest)).map_err(Error::Signals)?;
        let mut ended_by = None;
        while let Some(signal) = waited.read_signal().map_err(Error::Signals)? {
            if signal.ssi_signo.cast_signed() != Signal::SIGCHLD as i32 {
                // The terminal has sent its signals to the command as well; those have no sender.
                ended_by = Some((signal.ssi_signo, signal.ssi_pid != 0));
            }
        }
        while let Some(problem) = self.held.broke(Duration::ZERO) {
            self.broke = true;
            eprintln!(
                "backlog-lab: {} {}: the promise broke: {problem}",
                self.held.mode().name(),
                self.held.address()
            );
        }
        let is_over = self.until.is_some_and(|until| Instant::now() >= until);
        let Some(child) = child else {
            return Ok(match ended_by {
                Some((signal, _)) => Some(signals::exit_code(signal.cast_signed())),
                None if is_over => Some(if self.broke { 4 } else { 0 }),
                None => None,
            });
        };
        if let Some(status) = child
            .try_wait()
            .map_err(|error| failed("wait for the command", &error))?
        {
            return Ok(Some(code(status)));
        }
        let signal = match ended_by {
            Some((signal, true)) => Signal::try_from(signal.cast_signed()).ok(),
            None if is_over && self.kill_at.is_none() => Some(Signal::SIGTERM),
            _ => None,
        };
        if let (Some(signal), Ok(pid)) = (signal, i32::try_from(child.id())) {
            // It has not been waited for, so the id is still its own.
            kill(Pid::from_raw(pid), signal)
                .map_err(|errno| failed("signal the command", &errno))?;
        }
        if signal.is_some() || ended_by.is_some() {
            self.kill_at.get_or_insert(Instant::now() + END_WITHIN);
        }
        if self.kill_at.is_some_and(|at| Instant::now() >= at) {
            child
                .kill()
                .map_err(|error| failed("end the command", &error))?;
        }
        Ok(None)
    }
}

/// The exit status as a shell gives it.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => signals::exit_code(signal.unwrap_or_default()),
    }
}
