//! A network namespace owned by a thread.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};

use super::{NetnsError, Refusal, link};

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace: a fresh one with its loopback interface up, or one that others made. A fresh one lives
/// as long as its thread, the threads that were spawned inside it, and the sockets that were opened in it.
pub struct Namespace {
    role: &'static str,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    fd: OwnedFd,
}

impl Namespace {
    /// Creates one for `role`, the word for it in messages and thread names.
    ///
    /// # Errors
    /// The kernel's refusal, or the loopback interface that would not come up.
    pub fn create(role: &'static str) -> Result<Self, NetnsError> {
        Self::start(role, create)
    }

    /// Joins the one behind `path`, a link such as `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// The path cannot be opened, or the kernel does not let this process in (setns(2)).
    pub fn join(role: &'static str, path: &Path) -> Result<Self, NetnsError> {
        let path = path.to_owned();
        Self::start(role, move || join(&path))
    }

    /// The namespace in which this process is, seen from a thread for `role`. Nothing of it is changed.
    ///
    /// # Errors
    /// The namespace cannot be opened.
    pub fn here(role: &'static str) -> Result<Self, NetnsError> {
        Self::start(role, current)
    }

    fn start(
        role: &'static str,
        enter: impl FnOnce() -> Result<OwnedFd, NetnsError> + Send + 'static,
    ) -> Result<Self, NetnsError> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (ready, is_ready) = mpsc::sync_channel(1);
        let body = move || match enter() {
            Err(error) => drop(ready.send(Err(error))),
            Ok(fd) => {
                drop(ready.send(Ok(fd)));
                for job in inbox {
                    job();
                }
            }
        };
        let lost = |problem: String| NetnsError::Thread { role, problem };
        let thread = thread::Builder::new()
            .name(role.into())
            .spawn(body)
            .map_err(|error| lost(format!("could not be started: {error}")))?;
        let fd = is_ready.recv().map_err(|_| lost("has ended".into()))??;
        Ok(Self {
            role,
            jobs: Some(jobs),
            thread: Some(thread),
            fd,
        })
    }

    /// Runs `job` on the owning thread and waits for it. Threads that the job spawns stay in the namespace.
    ///
    /// # Errors
    /// The job panicked.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NetnsError> {
        let lost = || NetnsError::Thread {
            role: self.role,
            problem: "has ended, or its task has panicked".into(),
        };
        let (done, result) = mpsc::sync_channel(1);
        let job = Box::new(move || drop(done.send(job())));
        let jobs = self.jobs.as_ref().ok_or_else(lost)?;
        jobs.send(job).map_err(|_| lost())?;
        result.recv().map_err(|_| lost())
    }

    /// The namespace itself.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A job that panicked has already been reported by `run`.
            let _ = thread.join();
        }
    }
}

/// Moves the calling thread, and it alone, into the namespace behind `path`.
fn join(path: &Path) -> Result<OwnedFd, NetnsError> {
    let failed = |source: std::io::Error| NetnsError::Join {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    #[expect(clippy::disallowed_methods, reason = "this thread owns its namespace")]
    setns(&file, CloneFlags::CLONE_NEWNET).map_err(|errno| failed(errno.into()))?;
    Ok(file.into())
}

/// Moves the calling thread, and it alone, into a fresh namespace.
fn create() -> Result<OwnedFd, NetnsError> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|errno| Refusal::here("unshare(CLONE_NEWNET)", errno))?;
    let fd = current()?;
    link::loopback_up()?;
    Ok(fd)
}

/// The calling thread's namespace.
fn current() -> Result<OwnedFd, NetnsError> {
    let path = "/proc/thread-self/ns/net";
    let file = File::open(path).map_err(|error| {
        let errno = error
            .raw_os_error()
            .map_or(Errno::UnknownErrno, Errno::from_raw);
        Refusal::here(format!("opening {path}"), errno)
    })?;
    Ok(file.into())
}
