//! Descriptors that an event loop waits for.

use std::io;
use std::os::fd::BorrowedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the event loop of the calling thread, until what is returned is dropped.
///
/// # Errors
/// The error of `epoll_ctl(2)`.
pub(crate) fn watch(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    // SAFETY: a borrowed descriptor names the same open file as long as it is borrowed.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}
