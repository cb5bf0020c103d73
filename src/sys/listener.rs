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
    /// Whether the socket listens; else the other two mean something else.
    pub(crate) listens: bool,
}

/// The state of a socket that listens (`include/net/tcp_states.h`).
const TCP_LISTEN: u8 = 10;

/// The queue of a listening socket: on a LISTEN socket the kernel's `tcp_get_info` reports the connections that
/// wait as `tcpi_unacked` and the limit in force as `tcpi_sacked`.
///
/// # Errors
/// The error of getsockopt(2).
pub(crate) fn listen_queue(socket: impl AsFd) -> io::Result<ListenQueue> {
    let mut info = [0; size_of::<libc::tcp_info>()];
    let info = option(&socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    Ok(ListenQueue {
        waiting: word(info, offset_of!(libc::tcp_info, tcpi_unacked))?,
        limit: word(info, offset_of!(libc::tcp_info, tcpi_sacked))?,
        listens: info[offset_of!(libc::tcp_info, tcpi_state)] == TCP_LISTEN,
    })
}

/// The drop counter of a socket: the word `SK_MEMINFO_DROPS` of `SO_MEMINFO` (since Linux 4.12).
///
/// # Errors
/// The error of getsockopt(2).
#[cfg(feature = "lab")]
pub(crate) fn drops(socket: impl AsFd) -> io::Result<u32> {
    const SK_MEMINFO_DROPS: usize = 8;
    let mut info = [0; (SK_MEMINFO_DROPS + 1) * size_of::<u32>()];
    let info = option(&socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut info)?;
    word(info, SK_MEMINFO_DROPS * size_of::<u32>())
}

/// A socket's option as the bytes that the kernel wrote.
fn option<'a>(
    socket: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    bytes: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let mut length = libc::socklen_t::try_from(bytes.len()).map_err(io::Error::other)?;
    // SAFETY: `bytes` is writable for `length` bytes, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(&bytes[..length as usize])
    } else {
        Err(io::Error::last_os_error())
    }
}

fn word(bytes: &[u8], offset: usize) -> io::Result<u32> {
    bytes
        .get(offset..)
        .and_then(<[u8]>::first_chunk::<4>)
        .map(|bytes| u32::from_ne_bytes(*bytes))
        .ok_or_else(|| io::Error::other("the kernel's answer is too short"))
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
