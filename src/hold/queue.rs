//! `full` and `ghost`: a listening socket that accepts nobody.
//!
//! A queue with the limit B holds B + 1 connections, and only `accept()` frees a place: a connection whose peer has
//! gone still counts. So a full queue stays full by itself; the probes of a full queue do not enter it, and one that
//! does enter has found a free place and fills it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use socket2::Socket;

use super::probe::{Probe, Reached};
use super::{Keeper, Turn, readable, wait};
use crate::sys::{ListenQueue, listen_queue};

/// How often a queue is looked at; a look costs a microsecond and no packet.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a probe must have met silence to prove that nothing comes. On the loopback an answer takes microseconds.
const SILENCE: Duration = Duration::from_millis(10);

/// A kernel that lets nobody in at all also times `connect()` out: so much silence proves it without a full queue.
/// (Before 6.13, listen(0) with `tcp_syncookies` = 0 has no place for a half-open connection.)
const LONG_SILENCE: Duration = Duration::from_millis(500);

/// `connect()` times out.
pub(super) struct Full {
    listener: Socket,
    target: SocketAddr,
    /// Connections in the queue.
    fillers: Vec<Probe>,
    /// Whether the promise was proved by a full queue; `None` before it was.
    overflows: Option<bool>,
}

impl Full {
    pub(super) fn new(listener: Socket, target: SocketAddr) -> Self {
        Self {
            listener,
            target,
            fillers: Vec::new(),
            overflows: None,
        }
    }

    /// Fills the queue until a probe meets silence. Returns what it met instead, if so.
    fn fill(&mut self) -> io::Result<Option<String>> {
        loop {
            let queue = listen_queue(&self.listener)?;
            let (probe, mut reached) = Probe::begin(self.target)?;
            let begun = Instant::now();
            if let Reached::Nothing = reached {
                reached = probe.reached(begun + SILENCE)?;
            }
            let mut is_full = is_full(listen_queue(&self.listener)?);
            if let (Reached::Nothing, false) = (&reached, is_full) {
                reached = probe.reached(begun + LONG_SILENCE)?;
                is_full = self::is_full(listen_queue(&self.listener)?);
            }
            match reached {
                Reached::Nothing => {
                    self.overflows = Some(is_full);
                    return Ok(None);
                }
                Reached::Connected
                    if self.fillers.len() as u64 <= u64::from(queue.limit) + MOST_BEYOND =>
                {
                    self.fillers.push(probe);
                }
                Reached::Connected => {
                    return Ok(Some("the queue took more connections than it holds".into()));
                }
                Reached::Failed(error) => {
                    return Ok(Some(format!("connect() failed with: {error}")));
                }
            }
        }
    }
}

/// A queue can be overrun by one connection per processor, and a place lost is filled by a connection more.
const MOST_BEYOND: u64 = 1_000;

fn is_full(queue: ListenQueue) -> bool {
    queue.waiting > queue.limit
}

impl Keeper for Full {
    fn turn(&mut self, stop: BorrowedFd<'_>) -> io::Result<Turn> {
        let Some(overflows) = self.overflows else {
            return Ok(match self.fill()? {
                None => Turn::Proved,
                Some(problem) => Turn::Broke(problem),
            });
        };
        loop {
            if wait(&mut [readable(stop)], Instant::now() + LOOK_EVERY)? {
                return Ok(Turn::Stop);
            }
            let queue = listen_queue(&self.listener)?;
            if overflows && !is_full(queue) {
                let lost = format!(
                    "the queue lost a place ({} of {} waiting)",
                    queue.waiting, queue.limit
                );
                return Ok(Turn::Broke(match self.fill()? {
                    None => format!("{lost}; it has been filled again"),
                    Some(problem) => format!("{lost} and could not be filled again: {problem}"),
                }));
            }
        }
    }
}

/// `connect()` succeeds, and nothing ever answers.
///
/// Connections stay in the queue. Once it is half full, the oldest are taken out of it to make room: those whose
/// client still holds them are kept open, unread; those whose client has sent FIN are closed.
pub(super) struct Ghost {
    listener: Socket,
    target: SocketAddr,
    /// The fixture's own connection.
    witness: Option<Probe>,
    taken: VecDeque<Socket>,
    proved: bool,
    /// The queue was full at the last look, and that has been told.
    was_full: bool,
}

impl Ghost {
    pub(super) fn new(listener: Socket, target: SocketAddr) -> Self {
        Self {
            listener,
            target,
            witness: None,
            taken: VecDeque::new(),
            proved: false,
            was_full: false,
        }
    }

    /// What broke the promise, if anything did.
    fn check(&mut self) -> io::Result<Option<String>> {
        if let Some(witness) = &mut self.witness
            && let Some(heard) = witness.heard()
        {
            self.witness = None;
            return Ok(Some(match heard {
                Ok(bytes) if bytes.is_empty() => "a connection was closed".into(),
                Ok(_) => "a connection was answered".into(),
                Err(error) => format!("a connection failed with: {error}"),
            }));
        }
        let queue = listen_queue(&self.listener)?;
        let mut obstacle = None;
        if queue.waiting * 2 > queue.limit {
            self.taken.retain(|socket| !has_gone(socket));
            for _ in 0..(queue.waiting - queue.limit / 2) {
                match self.listener.accept() {
                    Ok((socket, _)) if has_gone(&socket) => {}
                    Ok((socket, _)) => self.taken.push_back(socket),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // There still is room for as long as the queue is not full.
                    Err(error) => {
                        obstacle = Some(error);
                        break;
                    }
                }
            }
        }
        let was_full = std::mem::replace(&mut self.was_full, is_full(queue));
        Ok((self.was_full && !was_full).then(|| match obstacle {
            None => "the queue was full for a moment: connect() had to wait".into(),
            Some(error) => format!("the queue is full, and no room can be made in it: {error}"),
        }))
    }
}

/// Whether the client has sent FIN or RST.
fn has_gone(socket: &Socket) -> bool {
    let mut poll = [PollFd::new(
        socket.as_fd(),
        PollFlags::from_bits_retain(libc::POLLRDHUP),
    )];
    // Without an answer it counts as being there; a flag that `nix` has no name for is the one asked for.
    wait(&mut poll, Instant::now()).is_ok() && poll[0].any() != Some(false)
}

impl Keeper for Ghost {
    fn turn(&mut self, stop: BorrowedFd<'_>) -> io::Result<Turn> {
        if self.witness.is_none() {
            let (probe, reached) = Probe::begin(self.target)?;
            let reached = match reached {
                Reached::Nothing => probe.reached(Instant::now() + LONG_SILENCE)?,
                reached => reached,
            };
            match reached {
                Reached::Connected => self.witness = Some(probe),
                Reached::Nothing => return Ok(Turn::Broke("connect() did not succeed".into())),
                Reached::Failed(error) => {
                    return Ok(Turn::Broke(format!("connect() failed with: {error}")));
                }
            }
        }
        let pause = if self.proved { LOOK_EVERY } else { SILENCE };
        loop {
            if wait(&mut [readable(stop)], Instant::now() + pause)? {
                return Ok(Turn::Stop);
            }
            if let Some(problem) = self.check()? {
                return Ok(Turn::Broke(problem));
            }
            if !self.proved {
                self.proved = true;
                return Ok(Turn::Proved);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpStream};

    #[test]
    fn a_ghost_that_was_full_says_it_and_has_room_again() {
        let socket =
            super::super::bound(super::super::Mode::Full, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let target = socket.local_addr().unwrap().as_socket().unwrap();
        let mut ghost = Ghost::new(socket, target);
        let _client = TcpStream::connect(target).unwrap();
        let problem = ghost.check().unwrap().unwrap();
        assert!(problem.contains("full for a moment"), "{problem}");
        assert_eq!(ghost.check().unwrap(), None);
        TcpStream::connect(target).unwrap();
    }

    #[test]
    fn a_queue_that_loses_a_place_is_filled_again() {
        let socket =
            super::super::bound(super::super::Mode::Full, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let target = socket.local_addr().unwrap().as_socket().unwrap();
        let thief = socket.try_clone().unwrap();
        let mut full = Full::new(socket, target);
        let stop = nix::sys::eventfd::EventFd::new().unwrap();
        assert!(matches!(full.turn(stop.as_fd()).unwrap(), Turn::Proved));
        thief.accept().unwrap();
        let Turn::Broke(problem) = full.turn(stop.as_fd()).unwrap() else {
            panic!("it did not notice")
        };
        assert!(problem.contains("filled again"), "{problem}");
        let timeout = Duration::from_millis(100);
        assert_eq!(
            TcpStream::connect_timeout(&target, timeout)
                .unwrap_err()
                .kind(),
            ErrorKind::TimedOut
        );
    }
}
