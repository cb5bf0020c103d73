//! A foreign program in a namespace, with every process that it starts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::time::TimeSpec;
use nix::unistd::{pipe2, read};

use super::{Kept, Namespace, NetnsError, Refusal};
use crate::observation::EndedBy;
use crate::sys::{self, Broadcast, Pidfd};

/// How a program is to be started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program and its arguments. A path is meant from the lab's own folder.
    pub command: Vec<OsString>,
    /// Its working directory; the lab's own when there is none.
    pub directory: Option<PathBuf>,
    /// Variables beside those of the lab's own environment.
    pub environment: BTreeMap<String, String>,
    /// Its limit of open files, soft and hard; the lab's own when there is none.
    pub open_files: Option<u64>,
    /// What becomes of what it prints.
    pub output: Output,
    /// A folder that vanishes with it when the lab is killed, and cannot remove it.
    pub left_behind: Option<PathBuf>,
}

/// What becomes of what a program prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// It goes to the lab's standard error.
    Shown,
    /// Its beginning and its end are kept, in bounds.
    Kept,
}

impl Launch {
    /// A program with the lab's own directory, environment and limits, whose output is shown.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            directory: None,
            environment: BTreeMap::new(),
            open_files: None,
            output: Output::Shown,
            left_behind: None,
        }
    }

    /// The program's name for messages.
    pub fn name(&self) -> String {
        let program = self.command.first().map(Path::new);
        let name = program.and_then(Path::file_name).unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// A program that runs in a network namespace, inside a PID namespace of its own. When this is dropped, and also
/// when the lab is killed, no process of it remains: double forks and new sessions included.
pub struct Program {
    name: String,
    child: Child,
    control: Arc<Control>,
    /// What it prints, by the threads that read it: standard output and standard error.
    output: Vec<JoinHandle<Kept>>,
    /// The thread that started it, which must live as long as it does.
    parent: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

/// A hand on a program that runs.
pub struct Control {
    pidfd: Pidfd,
    /// Gets a byte for each broadcast that has been sent.
    done: OwnedFd,
}

/// How a program came to its end.
#[derive(Debug)]
pub struct Ended {
    /// What ended it.
    pub by: EndedBy,
    /// How its first process ended: that of the program, once everything that it had started was gone.
    pub status: ExitStatus,
    /// The processes that ignored SIGTERM, by name.
    pub stubborn: Vec<String>,
    /// What it wrote to standard output, if that was kept.
    pub stdout: Kept,
    /// What it wrote to standard error, if that was kept.
    pub stderr: Kept,
}

/// `exited with 3`, or what a status above 128 means by a shell's convention.
pub fn exit_in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code @ 129..=192), _) => format!("ended by signal {}", code - 128),
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

impl Program {
    /// Starts a program in the namespace.
    ///
    /// # Errors
    /// The kernel's refusal, or the program cannot be started.
    pub fn start(namespace: &Namespace, launch: Launch) -> Result<Self, NetnsError> {
        namespace.run(move || Self::start_here(launch))?
    }

    fn start_here(launch: Launch) -> Result<Self, NetnsError> {
        let name = launch.name();
        let failed = |source: io::Error| NetnsError::Program {
            name: name.clone(),
            source,
        };
        let (done, tell) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(|errno| failed(errno.into()))?;
        let (stop, stopped) = mpsc::channel::<()>();
        let (started, is_started) = mpsc::sync_channel(1);
        let body = move || {
            drop(started.send(spawn(&launch, tell)));
            // Ends when the sender is dropped.
            let _ = stopped.recv();
        };
        let thread = thread::Builder::new()
            .name("program".into())
            .spawn(body)
            .map_err(failed)?;
        let mut child = is_started
            .recv()
            .map_err(|_| failed(io::Error::other("its thread has ended")))??;
        let pidfd = Pidfd::open(child.id()).map_err(failed)?;
        let pipes = [
            child.stdout.take().map(|pipe| Box::new(pipe) as Pipe),
            child.stderr.take().map(|pipe| Box::new(pipe) as Pipe),
        ];
        let mut program = Self {
            name: name.clone(),
            child,
            control: Arc::new(Control { pidfd, done }),
            output: Vec::new(),
            parent: Some((stop, thread)),
        };
        // Dropped on an error, it is ended and waited for.
        for pipe in pipes.into_iter().flatten() {
            program.output.push(keep(pipe).map_err(failed)?);
        }
        Ok(program)
    }

    /// Its name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until it and everything that it started has ended, at most `within`; `None` when it still runs.
    ///
    /// # Errors
    /// The wait failed.
    pub fn ended(&mut self, within: Duration) -> io::Result<Option<ExitStatus>> {
        let mut poll = [PollFd::new(self.control.pidfd.as_fd(), PollFlags::POLLIN)];
        sys::wait(&mut poll, Some(within))?;
        self.child.try_wait()
    }

    /// What stops it and lets it go on, also from another thread.
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Ends it: SIGTERM to all of its processes, and SIGKILL to those that are left after `patience`.
    ///
    /// # Errors
    /// The wait failed.
    pub fn end(mut self, patience: Duration) -> io::Result<Ended> {
        let (mut by, mut stubborn) = (EndedBy::Itself, Vec::new());
        let mut status = self.ended(Duration::ZERO)?;
        if status.is_none() {
            by = EndedBy::Sigterm;
            // Fails only when it has ended meanwhile, which the wait tells.
            let _ = self.control.pidfd.ask(Broadcast::Terminate);
            status = self.ended(patience)?;
        }
        let status = if let Some(status) = status {
            status
        } else {
            by = EndedBy::Sigkill;
            stubborn = self.processes();
            let _ = self.control.pidfd.kill();
            self.child.wait()?
        };
        let mut output = std::mem::take(&mut self.output).into_iter();
        let mut kept = || {
            let reader = output.next().map(JoinHandle::join);
            // A reader does nothing that could panic.
            reader.and_then(Result::ok).unwrap_or_default()
        };
        Ok(Ended {
            by,
            status,
            stubborn,
            stdout: kept(),
            stderr: kept(),
        })
    }

    /// The names of its processes, as far as they can be seen.
    fn processes(&self) -> Vec<String> {
        let first = self.child.id().to_string();
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let Some(own) = namespace(&first) else {
            return Vec::new();
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let others = pids.filter(|pid| *pid != first && namespace(pid).as_ref() == Some(&own));
        let names = others.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        let mut names: Vec<String> = names.map(|name| name.trim_end().to_owned()).collect();
        names.sort();
        names
    }
}

impl Control {
    /// Stops all of its processes (SIGSTOP). The kernel goes on for them: handshakes are finished and queued.
    ///
    /// # Errors
    /// It could not be asked for.
    pub fn pause(&self) -> io::Result<()> {
        self.broadcast(Broadcast::Stop)
    }

    /// Lets all of its processes go on (SIGCONT).
    ///
    /// # Errors
    /// It could not be asked for.
    pub fn resume(&self) -> io::Result<()> {
        self.broadcast(Broadcast::Continue)
    }

    fn broadcast(&self, what: Broadcast) -> io::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(1);
        self.pidfd.ask(what)?;
        let mut poll = [PollFd::new(self.done.as_fd(), PollFlags::POLLIN)];
        let patience = TimeSpec::from_duration(PATIENCE);
        loop {
            match ppoll(&mut poll, Some(patience), None) {
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => break,
            }
        }
        let mut byte = [0];
        match read(&self.done, &mut byte)? {
            0 => Err(io::Error::other("it has ended")),
            _ => Ok(()),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only when it has ended by itself. The kernel ends the rest of the namespace before it lets
        // the wait for the first process return.
        let _ = self.control.pidfd.kill();
        let _ = self.child.wait();
        if let Some((stop, thread)) = self.parent.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

type Pipe = Box<dyn Read + Send>;

/// Reads a pipe to its end, so that the program never waits for a reader.
fn keep(mut pipe: Pipe) -> io::Result<JoinHandle<Kept>> {
    let body = move || {
        let mut kept = Kept::default();
        let mut bytes = [0; 8192];
        loop {
            match pipe.read(&mut bytes) {
                Ok(0) => return kept,
                Ok(length) => kept.take(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What can be read no more has ended.
                Err(_) => return kept,
            }
        }
    };
    thread::Builder::new()
        .name("program-output".into())
        .spawn(body)
}

/// Starts it from the calling thread, whose children live in a PID namespace from here on.
fn spawn(launch: &Launch, done: OwnedFd) -> Result<Child, NetnsError> {
    let failed = |source| NetnsError::Program {
        name: launch.name(),
        source,
    };
    let [program, arguments @ ..] = launch.command.as_slice() else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    unshare(CloneFlags::CLONE_NEWPID)
        .map_err(|errno| Refusal::here("unshare(CLONE_NEWPID)", errno))?;
    // A path is meant from here, also when the program is to run elsewhere.
    let program = if program.to_string_lossy().contains('/') {
        std::path::absolute(program).map_err(failed)?.into()
    } else {
        program.clone()
    };
    let shown = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let (stdout, stderr) = match launch.output {
        Output::Shown => (shown().map_err(failed)?, Stdio::inherit()),
        Output::Kept => (Stdio::piped(), Stdio::piped()),
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(&launch.environment)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    if let Some(directory) = &launch.directory {
        command.current_dir(directory);
    }
    if let Some(most) = launch.open_files {
        sys::limit_files(&mut command, most);
    }
    sys::contain(&mut command, done, launch.left_behind.clone());
    command.spawn().map_err(failed)
}
