//! `refuse`: the port is bound and nothing listens. `connect()` meets a RST, and nobody else can bind the port.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use socket2::Socket;

use super::probe::{Probe, Reached};
use super::{Keeper, Turn, readable, wait};

/// How often the promise is checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Binds without listening, so that nobody else can listen on the port.
///
/// Without `SO_REUSEADDR`, with which others could bind the port as well. Connections in `TIME_WAIT`, as the mode that
/// held the port before leaves them, forbid that for a minute. Then the socket listens for an instant, as the kernel
/// allows beside them: it refuses that where anybody else has the port, and from the moment that `SO_REUSEADDR` is
/// taken back it lets nobody else listen (`inet_csk_bind_conflict` in `net/ipv4/inet_connection_sock.c`).
pub(super) fn bind(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match socket.bind(&address.into()) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && address.port() != 0 => {}
        done => return done,
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(0)?;
    socket.set_reuse_address(false)?;
    // A port that was asked for stays bound when its socket ceases to listen.
    socket.shutdown(Shutdown::Read)
}

pub(super) struct Reserve {
    _socket: Socket,
    target: SocketAddr,
    due: Instant,
    proved: bool,
}

impl Reserve {
    pub(super) fn new(socket: Socket, target: SocketAddr) -> Self {
        Self {
            _socket: socket,
            target,
            due: Instant::now(),
            proved: false,
        }
    }
}

impl Reserve {
    /// What a client meets.
    fn knock(&self) -> io::Result<Reached> {
        let (probe, reached) = Probe::begin(self.target)?;
        match reached {
            Reached::Nothing => probe.reached(Instant::now() + CHECK_EVERY),
            reached => Ok(reached),
        }
    }
}

impl Keeper for Reserve {
    fn turn(&mut self, stop: BorrowedFd<'_>) -> io::Result<Turn> {
        loop {
            if wait(&mut [readable(stop)], self.due)? {
                return Ok(Turn::Stop);
            }
            if Instant::now() < self.due {
                continue;
            }
            self.due = Instant::now() + CHECK_EVERY;
            match self.knock() {
                Err(error) => return Ok(Turn::Broke(format!("it cannot be checked: {error}"))),
                Ok(Reached::Failed(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                    if !self.proved {
                        self.proved = true;
                        return Ok(Turn::Proved);
                    }
                }
                Ok(Reached::Failed(error)) => {
                    return Ok(Turn::Broke(format!("connect() failed with: {error}")));
                }
                Ok(Reached::Connected) => return Ok(Turn::Broke("connect() succeeded".into())),
                Ok(Reached::Nothing) => {
                    return Ok(Turn::Broke("connect() was not answered".into()));
                }
            }
        }
    }
}
