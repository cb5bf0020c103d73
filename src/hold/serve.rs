//! `slow`, `reset` and `close`: a listening socket whose connections end in a promised manner.
//!
//! One thread serves everybody, and from time to time is its own client: that is the proof.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::PollFd;
use socket2::Socket;

use super::probe::{Probe, Reached};
use super::{Keeper, Turn, readable, wait};

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// With an answer after this time.
    Answer(Duration),
    /// With RST.
    Reset,
    /// With FIN.
    Close,
}

/// A client that says nothing is served after this time: `connect()` has long returned by then.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long after its end one proof is followed by the next.
const PROVE_EVERY: Duration = Duration::from_secs(1);

/// An answer that is to come later has not come yet after this time: enough to be ready.
const SILENCE: Duration = Duration::from_millis(10);

/// What comes later than promised by more than this has broken the promise.
const LATE: Duration = Duration::from_secs(2);

/// The pause after an `accept()` that failed for want of descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nOK\n";

pub(super) struct Serve {
    listener: Socket,
    target: SocketAddr,
    manner: Manner,
    guests: Vec<Guest>,
    witness: Witness,
    proved: bool,
    accept_from: Instant,
    /// The last `accept()` failed, and that has been told.
    cannot_accept: bool,
}

/// An accepted connection.
struct Guest {
    socket: Socket,
    /// When it is served at the latest.
    due: Instant,
    /// It has been served; what is still to come is the client's end.
    served: bool,
    /// The client's end has come.
    ended: bool,
}

/// The fixture's own connection.
enum Witness {
    /// The next one begins then.
    Due(Instant),
    /// It has asked, at that time.
    Asked(Probe, Instant),
}

/// What the witness saw.
enum Testimony {
    Kept,
    Broken(String),
}

impl Serve {
    pub(super) fn new(listener: Socket, target: SocketAddr, manner: Manner) -> Self {
        let now = Instant::now();
        Self {
            listener,
            target,
            manner,
            guests: Vec::new(),
            witness: Witness::Due(now),
            proved: false,
            accept_from: now,
            cannot_accept: false,
        }
    }

    /// Accepts whoever waits. Returns why it cannot, if so.
    fn accept(&mut self) -> Option<String> {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    self.cannot_accept = false;
                    if let Err(error) = socket.set_nonblocking(true) {
                        return Some(format!("a connection cannot be served: {error}"));
                    }
                    let patience = match self.manner {
                        Manner::Answer(delay) => delay,
                        Manner::Reset | Manner::Close => PATIENCE,
                    };
                    self.guests.push(Guest {
                        socket,
                        due: Instant::now() + patience,
                        served: false,
                        ended: false,
                    });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.accept_from = Instant::now() + AFTER_FAILURE;
                    if std::mem::replace(&mut self.cannot_accept, true) {
                        return None;
                    }
                    return Some(format!("a connection cannot be accepted: {error}"));
                }
            }
        }
    }

    /// The witness's part: begins, and says what it saw when it has seen it.
    fn testify(&mut self) -> Option<Testimony> {
        let now = Instant::now();
        let testimony = match &mut self.witness {
            Witness::Due(at) if *at > now => return None,
            Witness::Due(_) => match self.knock(now) {
                Ok(None) => return None,
                Ok(Some(problem)) => Testimony::Broken(problem),
                Err(error) => Testimony::Broken(format!("it cannot be checked: {error}")),
            },
            Witness::Asked(probe, asked) => {
                let (heard, after) = (probe.heard(), now - *asked);
                match self.manner.judge(heard, after) {
                    Some(testimony) => testimony,
                    // So far it is kept, and the witness goes on waiting for the answer.
                    None if matches!(self.manner, Manner::Answer(_)) && after >= SILENCE => {
                        return (!self.proved).then_some(Testimony::Kept);
                    }
                    None => return None,
                }
            }
        };
        self.witness = Witness::Due(Instant::now() + PROVE_EVERY);
        Some(testimony)
    }

    /// Begins a proof. Returns what it met instead of a connection, if so.
    fn knock(&mut self, now: Instant) -> io::Result<Option<String>> {
        let (mut probe, reached) = Probe::begin(self.target)?;
        let reached = match reached {
            Reached::Nothing => probe.reached(now + LATE)?,
            reached => reached,
        };
        Ok(match reached {
            Reached::Connected => {
                probe.ask()?;
                self.witness = Witness::Asked(probe, now);
                None
            }
            Reached::Nothing => Some("connect() did not succeed".into()),
            Reached::Failed(error) => Some(format!("connect() failed with: {error}")),
        })
    }

    /// When the next thing is to be done, if nothing arrives.
    fn next_due(&self) -> Instant {
        let witness = match &self.witness {
            Witness::Due(at) => *at,
            Witness::Asked(_, asked) => match self.manner {
                Manner::Answer(_) if !self.proved => *asked + SILENCE,
                Manner::Answer(delay) => *asked + delay + LATE,
                Manner::Reset | Manner::Close => *asked + PATIENCE + LATE,
            },
        };
        let guests = self
            .guests
            .iter()
            .filter(|guest| !guest.served)
            .map(|guest| guest.due);
        guests.min().map_or(witness, |guest| guest.min(witness))
    }
}

impl Manner {
    /// What the witness makes of what it heard so long after it asked; `None` while it must go on waiting.
    fn judge(self, heard: Option<io::Result<Vec<u8>>>, after: Duration) -> Option<Testimony> {
        let limit = match self {
            Self::Answer(delay) => delay + LATE,
            Self::Reset | Self::Close => PATIENCE + LATE,
        };
        Some(match (self, heard) {
            (_, None) if after < limit => return None,
            (_, None) => Testimony::Broken(format!("nothing came within {limit:?}")),
            (Self::Answer(delay), Some(Ok(bytes))) if bytes == ANSWER => {
                if after >= delay {
                    Testimony::Kept
                } else {
                    Testimony::Broken(format!("the answer came after {after:?}"))
                }
            }
            (Self::Reset, Some(Err(error))) if error.kind() == ErrorKind::ConnectionReset => {
                Testimony::Kept
            }
            (Self::Close, Some(Ok(bytes))) if bytes.is_empty() => Testimony::Kept,
            (_, Some(Ok(bytes))) if bytes.is_empty() => {
                Testimony::Broken("the connection was closed".into())
            }
            (_, Some(Ok(_))) => Testimony::Broken("another answer came".into()),
            (_, Some(Err(error))) => {
                Testimony::Broken(format!("the connection failed with: {error}"))
            }
        })
    }
}

impl Guest {
    /// Reads what there is, serves when it is time. Returns whether there is anything left to do.
    fn goes_on(&mut self, manner: Manner, is_readable: bool) -> bool {
        let mut has_spoken = false;
        if is_readable && (manner != Manner::Reset || self.served) {
            match drain(&mut self.socket) {
                Drained::Bytes => has_spoken = true,
                Drained::Nothing => {}
                Drained::End => self.ended = true,
                Drained::Broken => return false,
            }
        }
        let now = Instant::now();
        let is_due = match manner {
            Manner::Answer(_) => now >= self.due,
            Manner::Reset => is_readable || now >= self.due,
            Manner::Close => has_spoken || self.ended || now >= self.due,
        };
        if is_due && !self.served {
            self.served = true;
            match manner {
                Manner::Reset => {
                    // Closing with a linger of 0 sends RST (socket(7)). If it cannot be set, the close still ends
                    // the connection, and the witness tells what it saw.
                    let _ = self.socket.set_linger(Some(Duration::ZERO));
                    return false;
                }
                Manner::Answer(_) => {
                    // The answer fits the empty send buffer of a fresh connection; a client that has gone shows
                    // at the next read.
                    let _ = self.socket.write_all(ANSWER);
                }
                Manner::Close => {}
            }
            let _ = self.socket.shutdown(Shutdown::Write);
        }
        !(self.served && self.ended)
    }
}

enum Drained {
    Bytes,
    Nothing,
    End,
    Broken,
}

/// Reads everything there is and drops it: what is left unread at the close would make it a RST.
fn drain(socket: &mut Socket) -> Drained {
    let mut drained = Drained::Nothing;
    let mut bytes = [0; 16 * 1024];
    loop {
        match socket.read(&mut bytes) {
            Ok(0) => return Drained::End,
            Ok(_) => drained = Drained::Bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return drained,
            Err(_) => return Drained::Broken,
        }
    }
}

impl Keeper for Serve {
    fn turn(&mut self, stop: BorrowedFd<'_>) -> io::Result<Turn> {
        loop {
            match self.testify() {
                Some(Testimony::Broken(problem)) => return Ok(Turn::Broke(problem)),
                Some(Testimony::Kept) if !self.proved => {
                    self.proved = true;
                    return Ok(Turn::Proved);
                }
                Some(Testimony::Kept) | None => {}
            }
            let now = Instant::now();
            let accepts = now >= self.accept_from;
            let until = if accepts {
                self.next_due()
            } else {
                self.next_due().min(self.accept_from)
            };
            // The stop signal, the witness or once more the stop signal, the guests, the listener.
            let mut poll: Vec<PollFd<'_>> = vec![readable(stop)];
            poll.push(match &self.witness {
                Witness::Asked(probe, _) => readable(probe.as_fd()),
                Witness::Due(_) => readable(stop),
            });
            let open: Vec<usize> = (0..self.guests.len())
                .filter(|n| !self.guests[*n].ended)
                .collect();
            poll.extend(
                open.iter()
                    .map(|n| readable(self.guests[*n].socket.as_fd())),
            );
            if accepts {
                poll.push(readable(self.listener.as_fd()));
            }
            if wait(&mut poll, until)? {
                return Ok(Turn::Stop);
            }
            let ready: Vec<bool> = poll.iter().map(|fd| fd.any() == Some(true)).collect();
            drop(poll);
            let mut is_readable = vec![false; self.guests.len()];
            for (n, ready) in open.iter().zip(&ready[2..]) {
                is_readable[*n] = *ready;
            }
            let (manner, mut readable) = (self.manner, is_readable.into_iter());
            self.guests
                .retain_mut(|guest| guest.goes_on(manner, readable.next().unwrap_or(false)));
            if accepts
                && ready.last() == Some(&true)
                && let Some(problem) = self.accept()
            {
                return Ok(Turn::Broke(problem));
            }
        }
    }
}
