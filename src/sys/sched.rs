//! The scheduler's view of a thread.

use std::io;
use std::mem::size_of;
use std::time::Duration;

/// The shortest turn on a processor that the kernel grants.
const SHORTEST_TURN: Duration = Duration::from_micros(100);

/// What every request here has in common.
fn ordinary() -> io::Result<libc::sched_attr> {
    Ok(libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).map_err(io::Error::other)?,
        sched_policy: u32::try_from(libc::SCHED_OTHER).map_err(io::Error::other)?,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    })
}

/// Lets the calling thread give way to every other that has something to do: the lowest priority of `SCHED_OTHER`
/// (nice 19), for which no privilege is needed and from which there is no way back.
///
/// # Errors
/// The error of `sched_setattr(2)`; the thread runs as every other.
pub(crate) fn give_way() -> io::Result<()> {
    set(libc::sched_attr {
        sched_nice: 19,
        ..ordinary()?
    })
}

/// Lets the calling thread run as soon as it has something to do, as far as this process may ask for that:
/// before all ordinary threads (`SCHED_FIFO`, with `CAP_SYS_NICE`); else with short turns, which since Linux 6.12
/// let a thread that wakes up take the place of one with longer turns at once.
///
/// # Errors
/// The error of `sched_setattr(2)`; the thread runs as every other.
pub(crate) fn run_promptly() -> io::Result<()> {
    let attributes = ordinary()?;
    let before_all = libc::sched_attr {
        sched_policy: u32::try_from(libc::SCHED_FIFO).map_err(io::Error::other)?,
        sched_priority: 1,
        ..attributes
    };
    let short_turns = libc::sched_attr {
        sched_runtime: u64::try_from(SHORTEST_TURN.as_nanos()).map_err(io::Error::other)?,
        ..attributes
    };
    set(before_all).or_else(|_| set(short_turns))
}

fn set(attributes: libc::sched_attr) -> io::Result<()> {
    // SAFETY: `attributes` is readable for the size that it names, and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
