//! Socket options of listening sockets.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd};

/// The queue of a listening socket, asked of the socket itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenQueue {
    /// Connections that wait for accept.
    pub(crate) waiting: u32,
    /// The limit in force: the effective backlog.
    pub(crate) limit: u32,
}

/// The queue of a listening socket: on a LISTEN socket the kernel's `tcp_get_info` reports the connections that
/// wait as `tcpi_unacked` and the limit in force as `tcpi_sacked`.
///
/// # Errors
/// The error of getsockopt(2).
pub(crate) fn listen_queue(socket: impl AsFd) -> io::Result<ListenQueue> {
    let mut info = [0_u8; size_of::<libc::tcp_info>()];
    let mut length = libc::socklen_t::try_from(info.len()).map_err(io::Error::other)?;
    // SAFETY: `info` is writable for `length` bytes, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let field = |offset: usize| {
        info.get(offset..length as usize)
            .and_then(<[u8]>::first_chunk::<4>)
            .map(|bytes| u32::from_ne_bytes(*bytes))
            .ok_or_else(|| io::Error::other("TCP_INFO is too short"))
    };
    Ok(ListenQueue {
        waiting: field(offset_of!(libc::tcp_info, tcpi_unacked))?,
        limit: field(offset_of!(libc::tcp_info, tcpi_sacked))?,
    })
}

/// Sets `TCP_DEFER_ACCEPT` (tcp(7)).
///
/// # Errors
/// The error of setsockopt(2).
#[cfg(feature = "lab")]
pub(crate) fn defer_accept(socket: impl AsFd, seconds: u32) -> io::Result<()> {
    let value = libc::c_int::try_from(seconds).map_err(io::Error::other)?;
    // SAFETY: `value` is readable for its size and outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const value).cast(),
            libc::socklen_t::try_from(size_of::<libc::c_int>()).map_err(io::Error::other)?,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
