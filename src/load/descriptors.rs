//! A descriptor table of its own for the server's thread, with as many free places as an arm says.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::sched::{CloneFlags, unshare};

use crate::arm::Descriptors;

/// What takes the places that are not free.
pub(super) struct Scarcity {
    spec: Descriptors,
    fillers: Vec<OwnedFd>,
    reserve: Option<OwnedFd>,
}

impl Scarcity {
    /// Leaves the table that the process's threads share (`CLONE_FILES`, unshare(2)), and fills it with copies of
    /// `any` up to the limit. From here on the thread's descriptors are its own, and end with it.
    pub(super) fn begin(spec: Descriptors, any: impl AsFd) -> io::Result<Self> {
        unshare(CloneFlags::CLONE_FILES)?;
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
