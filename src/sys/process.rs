//! Foreign programs: contained in a PID namespace, signalled without a race.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lets `command` start with no signal blocked, and be killed when the thread that starts it ends, for whatever
/// reason (`PR_SET_PDEATHSIG`, prctl(2)).
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are made.
    unsafe {
        command.pre_exec(|| {
            unblock_signals()?;
            set_parent_death_signal(libc::SIGKILL)
        });
    }
}

fn unblock_signals() -> io::Result<()> {
    let mut none = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is initialised before it is read; no old set is asked for.
    let result = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    succeeded(result)
}

fn set_parent_death_signal(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: takes numbers.
    succeeded(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) })
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What the first process of a contained program can be asked to send to every other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broadcast {
    /// SIGTERM, and SIGCONT so that a stopped process takes it.
    Terminate,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
}

impl Broadcast {
    /// The signal that asks for it.
    const fn request(self) -> libc::c_int {
        match self {
            Self::Terminate => libc::SIGTERM,
            Self::Stop => libc::SIGUSR1,
            Self::Continue => libc::SIGUSR2,
        }
    }
}

/// Lets `command` start below a first process of its own, which takes over what the program leaves behind and
/// ends with the last of it. The calling thread must have unshared its PID namespace and must live as long as
/// the program: when the thread ends, also by SIGKILL, the kernel ends the first process and with it everything
/// in the namespace (`PR_SET_PDEATHSIG`, `pid_namespaces(7)`).
///
/// A [`Broadcast`] that the first process was asked for has been sent when a byte is written to `done`. The folder
/// `left_behind` goes with it when the calling thread ends first, which then cannot remove it.
pub(crate) fn contain(command: &mut Command, done: OwnedFd, left_behind: Option<PathBuf>) {
    // SAFETY: between fork and exec only async-signal-safe calls are made by the program's process. The first
    // process, which never executes another program, allocates at its end, which glibc allows after fork.
    unsafe {
        command.pre_exec(move || {
            unblock_signals()?;
            set_parent_death_signal(libc::SIGKILL)?;
            match libc::fork() {
                -1 => Err(io::Error::last_os_error()),
                0 => Ok(()),
                program => first_process(program, done.as_raw_fd(), left_behind.as_deref()),
            }
        });
    }
}

/// Gives `command` this limit of open files, soft and hard.
pub(crate) fn limit_files(command: &mut Command, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: between fork and exec one async-signal-safe call is made; `limit` is whole.
    unsafe {
        command.pre_exec(move || succeeded(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)));
    }
}

/// Closes every descriptor of the calling thread's table but the standard ones and those given. For a table that was
/// copied (`CLONE_FILES` of unshare(2)): what others close would stay open in the copy.
pub(crate) fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<libc::c_uint> = kept
        .iter()
        .filter_map(|fd| libc::c_uint::try_from(fd.as_raw_fd()).ok())
        .collect();
    kept.sort_unstable();
    let mut from = 3;
    for last in kept.into_iter().map(Some).chain([None]) {
        let until = last.map_or(libc::c_uint::MAX, |fd| fd.saturating_sub(1));
        if from <= until {
            // SAFETY: no descriptor that this thread owns is closed: those are the ones that are kept.
            let result = unsafe { libc::syscall(libc::SYS_close_range, from, until, 0) };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        from = last.map_or(from, |fd| from.max(fd + 1));
    }
    Ok(())
}

/// Whether the thread that started the first process has ended.
static LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// The signal that tells the first process so, once it has a handler for it.
const LEFT_ALONE_SIGNAL: libc::c_int = libc::SIGHUP;

/// Waits for every process of the namespace, then ends with the program's exit status.
fn first_process(program: libc::pid_t, done: libc::c_int, left_behind: Option<&Path>) -> ! {
    // SAFETY: plain system calls. No descriptor but 0 is used afterwards: the pipe on which the parent waits for
    // exec is among those that must be closed. Handlers are in place before that, and make one call each.
    unsafe {
        libc::dup2(done, 0);
        for asked in [Broadcast::Terminate, Broadcast::Stop, Broadcast::Continue] {
            libc::signal(
                asked.request(),
                broadcast as extern "C" fn(libc::c_int) as libc::sighandler_t,
            );
        }
        libc::signal(
            LEFT_ALONE_SIGNAL,
            end_everybody as extern "C" fn(libc::c_int) as libc::sighandler_t,
        );
    }
    close_from(1);
    // A failure leaves SIGKILL in its place: then only the folder stays.
    let _ = set_parent_death_signal(LEFT_ALONE_SIGNAL);
    let mut code = 0;
    loop {
        let mut status = 0;
        // SAFETY: `status` is writable.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended == program {
            code = if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                128 + libc::WTERMSIG(status)
            };
        } else if ended == -1 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            if let Some(folder) = left_behind.filter(|_| LEFT_ALONE.load(Ordering::Relaxed)) {
                // Nobody is left to be told of a failure.
                let _ = fs::remove_dir_all(folder);
            }
            // SAFETY: ends this process without running anything of the parent's.
            unsafe { libc::_exit(code) }
        }
    }
}

/// Closes every descriptor from `first` on. What stayed open would keep the parent waiting for exec.
fn close_from(first: libc::c_int) {
    // SAFETY: an async-signal-safe call; whoever calls this uses none of them afterwards.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
    if result != 0 {
        close_each_from(first);
    }
}

/// The same where there is no `close_range(2)`, before Linux 5.9: one by one, as far as they go by default (`fs.nr_open`,
/// proc(5)).
fn close_each_from(first: libc::c_int) {
    const NR_OPEN: libc::c_int = 1024 * 1024;
    for fd in first..NR_OPEN {
        // SAFETY: as above; a number without a file is refused.
        unsafe { libc::close(fd) };
    }
}

/// The first process's handler: -1 is every process of its namespace but itself (kill(2)).
extern "C" fn broadcast(asked: libc::c_int) {
    // SAFETY: async-signal-safe calls; the byte is readable, and 0 is the pipe that `first_process` put there.
    unsafe {
        let everybody = -1;
        if asked == Broadcast::Terminate.request() {
            libc::kill(everybody, libc::SIGTERM);
        }
        let and_then = if asked == Broadcast::Stop.request() {
            libc::SIGSTOP
        } else {
            libc::SIGCONT
        };
        libc::kill(everybody, and_then);
        libc::write(0, [0_u8].as_ptr().cast(), 1);
    }
}

/// The first process's handler for the end of the lab: then nothing goes on.
extern "C" fn end_everybody(_: libc::c_int) {
    LEFT_ALONE.store(true, Ordering::Relaxed);
    // SAFETY: an async-signal-safe call; -1 is every process of the namespace but this one.
    unsafe {
        libc::kill(-1, libc::SIGKILL);
    }
}

/// A process by a descriptor, which never means another one (`pidfd_open(2)`). Readable when it has ended.
#[derive(Debug)]
pub(crate) struct Pidfd(OwnedFd);

impl Pidfd {
    /// A child that has not been waited for.
    ///
    /// # Errors
    /// The error of `pidfd_open(2)`.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: takes two numbers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).map_err(io::Error::other)?;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Ends it with SIGKILL.
    ///
    /// # Errors
    /// The error of `pidfd_send_signal(2)`.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.signal(libc::SIGKILL)
    }

    /// Asks the first process of a contained program for a broadcast.
    ///
    /// # Errors
    /// The error of `pidfd_send_signal(2)`.
    pub(crate) fn ask(&self, what: Broadcast) -> io::Result<()> {
        self.signal(what.request())
    }

    fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and no information is passed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                no_info,
                0,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a process of its own, where nobody misses what is closed.
    #[test]
    fn without_close_range_every_descriptor_is_closed_all_the_same() {
        // SAFETY: the child makes async-signal-safe calls only, and ends without running anything of the parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: takes numbers.
            let is_open = |fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1;
            // SAFETY: takes numbers.
            let high = unsafe { libc::fcntl(2, libc::F_DUPFD, 200) };
            let was_open = high >= 200 && is_open(high);
            close_each_from(3);
            let is_right = was_open && !is_open(high) && is_open(2);
            // SAFETY: ends this process without running anything of the parent's.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: `status` is writable, and the child is nobody else's.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0));
    }
}
