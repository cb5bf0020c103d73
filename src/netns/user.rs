//! The way to `CAP_SYS_ADMIN` without root: a user namespace, entered before the first thread starts.

use std::fs;
use std::io;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};

use super::Refusal;
use super::refusal::{MAX_NET, MAX_USER};

/// What entering a user namespace asks of the system; a seam, so that every refusal can be staged.
pub trait Steps {
    /// Whether this process may create network namespaces as it is.
    fn has_sys_admin(&self) -> bool;
    /// `unshare(2)`.
    fn unshare(&self, flags: CloneFlags) -> Result<(), Errno>;
    /// Writes a file.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;
    /// Reads a sysctl by dotted name.
    fn sysctl(&self, name: &str) -> Option<String>;
}

/// The real system.
#[derive(Debug, Clone, Copy)]
pub struct KernelSteps;

/// The limits on namespaces that held before a user namespace was entered. They go on to hold, and inside only the
/// new namespace's own can be read, which are unlimited.
static OUTER_LIMITS: OnceLock<[(&str, Option<String>); 2]> = OnceLock::new();

fn read_sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(text.trim().to_owned())
}

impl Steps for KernelSteps {
    fn has_sys_admin(&self) -> bool {
        const CAP_SYS_ADMIN: u32 = 21;
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        effective
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
            .is_some_and(|set| set & (1 << CAP_SYS_ADMIN) != 0)
    }

    fn unshare(&self, flags: CloneFlags) -> Result<(), Errno> {
        if flags.contains(CloneFlags::CLONE_NEWUSER) {
            OUTER_LIMITS.get_or_init(|| [MAX_USER, MAX_NET].map(|name| (name, read_sysctl(name))));
        }
        unshare(flags)
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        fs::write(path, text)
    }

    fn sysctl(&self, name: &str) -> Option<String> {
        let mut outer = OUTER_LIMITS.get().into_iter().flatten();
        match outer.find(|(limit, _)| *limit == name) {
            Some((_, value)) => value.clone(),
            None => read_sysctl(name),
        }
    }
}

/// Makes sure that this process may create network namespaces: with `CAP_SYS_ADMIN` as it is, else in a user
/// namespace of its own, in which it keeps its user and group. Must be called while there is only one thread.
///
/// Its own id is mapped to itself: mapped to 0, programs that it starts would try to change owner and fail.
///
/// # Errors
/// The step that the kernel refused, with the setting behind it and the ways out.
pub fn enter(steps: &impl Steps) -> Result<(), Refusal> {
    if steps.has_sys_admin() {
        return Ok(());
    }
    let (uid, gid) = (geteuid(), getegid());
    let refused = |step: &str, errno| Refusal::new(step, errno, |name| steps.sysctl(name));
    steps
        .unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|errno| refused("unshare(CLONE_NEWUSER)", errno))?;
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{uid} {uid} 1")),
        ("/proc/self/gid_map", format!("{gid} {gid} 1")),
    ] {
        steps.write(path, &text).map_err(|error| {
            let errno = error
                .raw_os_error()
                .map_or(Errno::UnknownErrno, Errno::from_raw);
            refused(&format!("writing {path}"), errno)
        })?;
    }
    Ok(())
}

/// Enters the user namespace of a process, if this process has no `CAP_SYS_ADMIN` and the kernel lets it in: a user may
/// enter those that they made, and from there the network namespaces that belong to them (`user_namespaces(7)`).
/// Where it does not, nothing has changed. Must be called while there is only one thread.
pub fn enter_that_of(pid: u32) {
    if KernelSteps.has_sys_admin() {
        return;
    }
    if let Ok(user) = fs::File::open(format!("/proc/{pid}/ns/user")) {
        // Whoever looks into the network namespace next is told why that cannot be.
        #[expect(
            clippy::disallowed_methods,
            reason = "a user namespace is the whole process's"
        )]
        let _ = setns(user, CloneFlags::CLONE_NEWUSER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A system that refuses one step.
    struct Staged {
        refuses: &'static str,
        errno: Errno,
        done: RefCell<Vec<String>>,
    }

    impl Staged {
        fn step(&self, name: &str) -> Result<(), Errno> {
            self.done.borrow_mut().push(name.to_owned());
            if name == self.refuses {
                Err(self.errno)
            } else {
                Ok(())
            }
        }
    }

    impl Steps for Staged {
        fn has_sys_admin(&self) -> bool {
            false
        }

        fn unshare(&self, flags: CloneFlags) -> Result<(), Errno> {
            assert_eq!(flags, CloneFlags::CLONE_NEWUSER);
            self.step("unshare")
        }

        fn write(&self, path: &str, _: &str) -> io::Result<()> {
            self.step(path)
                .map_err(|errno| io::Error::from_raw_os_error(errno as i32))
        }

        fn sysctl(&self, name: &str) -> Option<String> {
            (name == "kernel.apparmor_restrict_unprivileged_userns").then(|| "1".to_owned())
        }
    }

    #[test]
    fn the_step_that_was_refused_is_named_and_nothing_follows_it() {
        for (n, refuses, named) in [
            (1, "unshare", "unshare(CLONE_NEWUSER) failed with EPERM"),
            (
                3,
                "/proc/self/uid_map",
                "writing /proc/self/uid_map failed with EPERM",
            ),
            (
                4,
                "/proc/self/gid_map",
                "writing /proc/self/gid_map failed with EPERM",
            ),
        ] {
            let staged = Staged {
                refuses,
                errno: Errno::EPERM,
                done: RefCell::default(),
            };
            let text = enter(&staged).unwrap_err().to_string();
            assert!(text.contains(named), "{text}");
            assert!(
                text.contains("apparmor_restrict_unprivileged_userns = 1"),
                "{text}"
            );
            assert_eq!(staged.done.borrow().len(), n, "{:?}", staged.done);
        }
    }
}
