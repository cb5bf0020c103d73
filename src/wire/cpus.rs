//! One processor for the relay, the others for everybody else.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::WireError;

/// How the processors are shared.
#[derive(Debug, Clone)]
pub struct Cpus {
    relay: usize,
    others: CpuSet,
}

impl Cpus {
    /// The last processor that this process may use is the relay's; `None` where there is only one.
    ///
    /// # Errors
    /// The error of `sched_getaffinity(2)`.
    pub fn share() -> Result<Option<Self>, WireError> {
        let mut others = sched_getaffinity(CALLER).map_err(failed("learn the processors"))?;
        let allowed: Vec<usize> = (0..CpuSet::count())
            .filter(|&cpu| others.is_set(cpu).unwrap_or(false))
            .collect();
        let [_, .., relay] = allowed.as_slice() else {
            return Ok(None);
        };
        others
            .unset(*relay)
            .map_err(failed("share the processors"))?;
        Ok(Some(Self {
            relay: *relay,
            others,
        }))
    }

    /// The relay's processor.
    pub fn relay(&self) -> usize {
        self.relay
    }

    /// Moves the calling thread to the relay's processor.
    ///
    /// # Errors
    /// The error of `sched_setaffinity(2)`.
    pub fn enter(&self) -> Result<(), WireError> {
        let mut only = CpuSet::new();
        only.set(self.relay)
            .and_then(|()| sched_setaffinity(CALLER, &only))
            .map_err(failed("take a processor"))
    }

    /// Keeps the calling thread, and those that it will start, away from the relay's processor.
    ///
    /// # Errors
    /// The error of `sched_setaffinity(2)`.
    pub fn leave(&self) -> Result<(), WireError> {
        sched_setaffinity(CALLER, &self.others).map_err(failed("leave a processor"))
    }
}

/// For the scheduler's calls, 0 is the calling thread.
const CALLER: Pid = Pid::from_raw(0);

fn failed(operation: &'static str) -> impl FnOnce(Errno) -> WireError {
    move |errno| WireError::io(operation)(errno.into())
}
