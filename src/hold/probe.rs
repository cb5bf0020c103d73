//! The client's end of a proof: a non-blocking connection of the fixture's own.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags};
use socket2::{Domain, Protocol, Socket, Type};

/// How far a connection has come.
#[derive(Debug)]
pub(super) enum Reached {
    /// The handshake has not finished.
    Nothing,
    /// Established.
    Connected,
    /// `connect()` failed.
    Failed(io::Error),
}

/// A connection to the held port.
#[derive(Debug)]
pub(super) struct Probe {
    socket: Socket,
}

impl Probe {
    /// Sends the SYN. On the loopback the handshake has usually finished when this returns.
    pub(super) fn begin(target: SocketAddr) -> io::Result<(Self, Reached)> {
        let socket = Socket::new(
            Domain::for_address(target),
            Type::STREAM.nonblocking(),
            Some(Protocol::TCP),
        )?;
        let reached = match socket.connect(&target.into()) {
            Ok(()) => Reached::Connected,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Reached::Nothing,
            Err(error) => Reached::Failed(error),
        };
        let probe = Self { socket };
        Ok(match reached {
            Reached::Nothing => {
                let reached = probe.reached(Instant::now())?;
                (probe, reached)
            }
            reached => (probe, reached),
        })
    }

    /// Waits for the handshake to end, until `until` at most.
    pub(super) fn reached(&self, until: Instant) -> io::Result<Reached> {
        let mut poll = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        super::wait(&mut poll, until)?;
        if poll[0].any() != Some(true) {
            return Ok(Reached::Nothing);
        }
        Ok(match self.socket.take_error()? {
            None => Reached::Connected,
            Some(error) => Reached::Failed(error),
        })
    }

    /// Sends a request.
    pub(super) fn ask(&mut self) -> io::Result<()> {
        self.socket.write_all(b"GET / HTTP/1.0\r\n\r\n")
    }

    /// What has come back: `None` for nothing yet.
    pub(super) fn heard(&mut self) -> Option<io::Result<Vec<u8>>> {
        let mut bytes = [0; 512];
        match self.socket.read(&mut bytes) {
            Ok(length) => Some(Ok(bytes[..length].to_vec())),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl AsFd for Probe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
