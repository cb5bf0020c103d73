//! A descriptor table of its own for the server's thread, with as many free places as an arm says.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit};
use socket2::Socket;

use crate::arm::Descriptors;
use crate::sys;

/// The highest limit of open files that is filled: the kernel's usual ceiling (`fs.nr_open`).
const MOST_FILES: u64 = 1 << 20;

/// What takes the places that are not free.
pub(super) struct Scarcity {
    spec: Descriptors,
    fillers: Vec<OwnedFd>,
    reserve: Option<OwnedFd>,
}

impl Scarcity {
    /// Leaves the table that the process's threads share (`CLONE_FILES`, unshare(2)), keeps its listening sockets and
    /// `any` of what stood there, and fills it with copies of `any` up to the limit. From here on the thread's
    /// descriptors are its own, and end with it.
    pub(super) fn begin(spec: Descriptors, sockets: &[Socket], any: impl AsFd) -> io::Result<Self> {
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        if limit > MOST_FILES {
            return Err(io::Error::other(format!(
                "a limit of {limit} open files is too high to be filled; run it after `ulimit -n 65536`"
            )));
        }
        unshare(CloneFlags::CLONE_FILES)?;
        let kept = sockets.iter().map(AsFd::as_fd).chain([any.as_fd()]);
        sys::close_all_but(&kept.collect::<Vec<_>>())?;
        let copy = || any.as_fd().try_clone_to_owned();
        let reserve = spec.reserves().then(copy).transpose()?;
        let mut fillers = Vec::new();
        while let Ok(filler) = copy() {
            fillers.push(filler);
        }
        fillers.truncate(fillers.len().saturating_sub(spec.free as usize));
        Ok(Self {
            spec,
            fillers,
            reserve,
        })
    }

    /// When the places become free.
    pub(super) fn due_us(&self) -> Option<u64> {
        let until = self.spec.until.filter(|_| !self.fillers.is_empty())?;
        Some(until.as_us())
    }

    /// Frees them when it is time.
    pub(super) fn free_if_due(&mut self, now_us: u64) {
        if self.due_us().is_some_and(|due_us| due_us <= now_us) {
            self.fillers.clear();
        }
    }

    /// Does something with the place that is kept, and takes it back.
    pub(super) fn with_reserve(&mut self, any: impl AsFd, act: impl FnOnce()) {
        if self.reserve.take().is_some() {
            act();
            self.reserve = any.as_fd().try_clone_to_owned().ok();
        }
    }
}
