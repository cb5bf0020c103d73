//! A foreign program in a namespace, with every process that it starts.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::time::TimeSpec;

use super::{KernelSteps, Namespace, NetnsError, Refusal, Steps};
use crate::sys::{self, Pidfd};

/// A program that runs in a network namespace, inside a PID namespace of its own. When this is dropped, and also
/// when the lab is killed, no process of it remains: double forks and new sessions included.
pub struct Program {
    child: Child,
    pidfd: Pidfd,
    /// The thread that started it, which must live as long as it does.
    parent: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Program {
    /// Starts `command` (a program and its arguments) in the namespace. What it prints goes to standard error.
    ///
    /// # Errors
    /// The kernel's refusal, or the program cannot be started.
    pub fn start(namespace: &Namespace, command: Vec<OsString>) -> Result<Self, NetnsError> {
        namespace.run(move || Self::start_here(command))?
    }

    fn start_here(command: Vec<OsString>) -> Result<Self, NetnsError> {
        let name = command
            .first()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let failed = |source: io::Error| NetnsError::Program {
            name: name.clone(),
            source,
        };
        let (stop, stopped) = mpsc::channel::<()>();
        let (started, is_started) = mpsc::sync_channel(1);
        let body = move || {
            drop(started.send(spawn(&command)));
            // Ends when the sender is dropped.
            let _ = stopped.recv();
        };
        let thread = thread::Builder::new()
            .name("program".into())
            .spawn(body)
            .map_err(failed)?;
        let child = is_started
            .recv()
            .map_err(|_| failed(io::Error::other("its thread has ended")))??;
        let pidfd = Pidfd::open(child.id()).map_err(failed)?;
        Ok(Self {
            child,
            pidfd,
            parent: Some((stop, thread)),
        })
    }

    /// Waits until it and everything that it started has ended, at most `within`; `None` when it still runs.
    ///
    /// # Errors
    /// The wait failed.
    pub fn ended(&mut self, within: Duration) -> io::Result<Option<ExitStatus>> {
        let mut poll = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut poll, Some(TimeSpec::from_duration(within)), None) {
            Ok(_) | Err(Errno::EINTR) => self.child.try_wait(),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only when it has ended by itself. The kernel ends the rest of the namespace before it lets
        // the wait for the first process return.
        let _ = self.pidfd.kill();
        let _ = self.child.wait();
        if let Some((stop, thread)) = self.parent.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Starts it from the calling thread, whose children live in a PID namespace from here on.
fn spawn(command: &[OsString]) -> Result<Child, NetnsError> {
    let [program, arguments @ ..] = command else {
        return Err(NetnsError::Program {
            name: "the program".into(),
            source: io::ErrorKind::InvalidInput.into(),
        });
    };
    let failed = |source| NetnsError::Program {
        name: program.to_string_lossy().into_owned(),
        source,
    };
    unshare(CloneFlags::CLONE_NEWPID).map_err(|errno| {
        Refusal::new("unshare(CLONE_NEWPID)", errno, |name| {
            KernelSteps.sysctl(name)
        })
    })?;
    let output = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output().map_err(failed)?);
    sys::contain(&mut command);
    command.spawn().map_err(failed)
}
