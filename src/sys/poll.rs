//! Waiting for descriptors.

use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, ppoll};
use nix::sys::time::TimeSpec;

/// Polls for at most `rest`, for ever without one. Returns whether something is ready; a signal ends it early.
pub(crate) fn wait(poll: &mut [PollFd<'_>], rest: Option<Duration>) -> Result<bool, Errno> {
    match ppoll(poll, rest.map(TimeSpec::from_duration), None) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
