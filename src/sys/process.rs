//! Foreign programs: contained in a PID namespace, signalled without a race.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets `command` start with no signal blocked, and be killed when the thread that starts it ends, for whatever
/// reason (`PR_SET_PDEATHSIG`, prctl(2)).
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are made.
    unsafe {
        command.pre_exec(|| {
            let mut none = std::mem::MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            if libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            set_parent_death_signal()
        });
    }
}

fn set_parent_death_signal() -> io::Result<()> {
    // SAFETY: takes numbers.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Lets `command` start below a first process of its own, which takes over what the program leaves behind and
/// ends with the last of it. The calling thread must have unshared its PID namespace and must live as long as
/// the program: when the thread ends, also by SIGKILL, the kernel ends the first process and with it everything
/// in the namespace (`PR_SET_PDEATHSIG`, `pid_namespaces(7)`).
pub(crate) fn contain(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are made.
    unsafe {
        command.pre_exec(|| {
            set_parent_death_signal()?;
            match libc::fork() {
                -1 => Err(io::Error::last_os_error()),
                0 => Ok(()),
                program => first_process(program),
            }
        });
    }
}

/// Waits for every process of the namespace, then ends with the program's exit status.
fn first_process(program: libc::pid_t) -> ! {
    // SAFETY: plain system calls; no descriptor is used afterwards. The pipe on which the parent waits for exec
    // is among those that must be closed.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
    }
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
            // SAFETY: ends this process without running anything of the parent's.
            unsafe { libc::_exit(code) }
        }
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
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and no information is passed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                libc::SIGKILL,
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
