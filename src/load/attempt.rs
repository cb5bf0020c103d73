//! One attempt: a non-blocking socket from connect to close, driven by whoever polls it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use super::Clock;
use super::conversation::{Conversation, Said};
use super::schedule::Turn;
use super::target::Target;
use super::unix;
use crate::arm::{Bind, SpeaksFirst};
use crate::observation::{Attempt, Ended, Request, Stage};

/// An attempt on its way.
pub(super) struct Running {
    socket: Arc<Socket>,
    record: Attempt,
    deadline_us: u64,
    conversation: Conversation,
    /// How many requests are still to be answered.
    left: u32,
    /// When the next request is due, between an answer and that.
    next_us: Option<u64>,
}

/// What a step leads to.
pub(super) enum Step {
    /// The attempt goes on.
    Goes(Running),
    /// The attempt has ended.
    Ended(Done),
}

/// An attempt that has ended.
pub(super) struct Done {
    pub(super) record: Attempt,
    /// Its socket, if it has one.
    pub(super) socket: Option<Arc<Socket>>,
    /// When that is to be closed.
    pub(super) close: Close,
    /// The requests that it leaves over, when the server has closed the connection between two of them.
    pub(super) left: u32,
}

/// When the socket of an attempt that has ended is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    /// At once.
    Now,
    /// At this time.
    AtUs(u64),
    /// When the trial has been read.
    Last,
}

impl Running {
    /// Opens the socket and sends the SYN.
    pub(super) fn begin(turn: Turn, target: &Target, clock: Clock) -> Step {
        let Turn { n, intended_us, .. } = turn;
        let started_us = clock.now_us();
        let mut record = Attempt {
            n,
            intended_us,
            started_us,
            connected_us: None,
            first_byte_us: None,
            ended_us: started_us,
            stage: Stage::Socket,
            ended: Ended::Error,
            errno: None,
            local_port: None,
            source: target.source(n),
            server_port: None,
            server_side: None,
            requests: Vec::new(),
        };
        let address = target.destination(n);
        if target.addresses.len() > 1 {
            record.server_port = address.map(|address| address.port());
        }
        let (domain, protocol) = match address {
            Some(address) => (Domain::for_address(address), Some(Protocol::TCP)),
            None => (Domain::UNIX, None),
        };
        let socket = match Socket::new(domain, Type::STREAM.nonblocking(), protocol) {
            Ok(socket) => socket,
            Err(error) => {
                record.errno = Some(errno_of(&error));
                record.ended_us = clock.now_us();
                return Step::Ended(Done {
                    record,
                    socket: None,
                    close: Close::Now,
                    left: 0,
                });
            }
        };
        let bound = match (record.source, address) {
            (Some(source), _) => {
                record.stage = Stage::Bind;
                bind(&socket, source, target.bind)
            }
            (None, Some(_)) => Ok(()),
            (None, None) => {
                record.stage = Stage::Bind;
                unix::client(n).and_then(|name| socket.bind(&name))
            }
        };
        let connect = bound.and_then(|()| {
            record.stage = Stage::Connect;
            let server = address.map_or_else(unix::server, |address| Ok(address.into()))?;
            socket.connect(&server)
        });
        let mut running = Self {
            deadline_us: started_us.saturating_add(target.timeout_us),
            socket: Arc::new(socket),
            record,
            conversation: Conversation::new(target.http(n), target.series.requests.are_several()),
            left: turn.requests,
            next_us: None,
        };
        match connect {
            // Of AF_UNIX: no write has to find out, and an empty one fails where the server has answered and gone.
            Ok(()) => {
                running.connected(clock.now_us(), target);
                if target.speaks_first != SpeaksFirst::Client {
                    running.record.stage = Stage::Receive;
                    return Step::Goes(running);
                }
                running.record.stage = Stage::Send;
                running.send(target, clock)
            }
            // On loopback the handshake is over by now.
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {
                running.send(target, clock)
            }
            Err(error) => running.failed(&error, clock),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The socket, for who must know it open while the attempt goes on.
    pub(super) fn socket(&self) -> Arc<Socket> {
        Arc::clone(&self.socket)
    }

    /// What to poll for.
    pub(super) fn interest(&self) -> PollFlags {
        match self.record.stage {
            Stage::Socket | Stage::Bind | Stage::Connect | Stage::Send => PollFlags::POLLOUT,
            Stage::Receive => PollFlags::POLLIN,
        }
    }

    /// How long its time still lasts.
    pub(super) fn time_left(&self, clock: Clock) -> Duration {
        clock.until(self.next_us.unwrap_or(self.deadline_us))
    }

    /// The socket is ready for what was polled for.
    pub(super) fn ready(self, target: &Target, clock: Clock) -> Step {
        match self.record.stage {
            Stage::Socket | Stage::Bind | Stage::Connect | Stage::Send => self.send(target, clock),
            Stage::Receive => self.receive(target, clock),
        }
    }

    /// Its time is up, or the next request is due.
    pub(super) fn expired(mut self, target: &Target, clock: Clock) -> Step {
        if let Some(due_us) = self.next_us {
            self.conversation.ask();
            self.asks(due_us, clock.now_us(), target);
            self.record.stage = Stage::Send;
            return self.send(target, clock);
        }
        let said = match self.record.stage {
            Stage::Receive => self.conversation.said(),
            Stage::Socket | Stage::Bind | Stage::Connect | Stage::Send => Said::Nothing,
        };
        let ended = match said {
            Said::Right => Ended::Answered,
            Said::Wrong => Ended::WrongAnswer,
            Said::Nothing
                if self.record.stage == Stage::Receive
                    && target.speaks_first == SpeaksFirst::Nobody =>
            {
                Ended::Held
            }
            Said::Nothing | Said::Part => Ended::TimeUp,
        };
        if self.record.connected_us.is_some() && matches!(ended, Ended::Held | Ended::TimeUp) {
            self.record.server_side = target.server_side(self.record.n, self.local());
            // An unanswered client resets: a FIN would be repeated and counted as further overflows.
            if let Err(error) = self.socket.set_linger(Some(Duration::ZERO)) {
                self.record.errno = Some(errno_of(&error));
            }
        }
        let close = match ended {
            Ended::Held => Close::Last,
            _ => Close::Now,
        };
        self.end(ended, close, clock)
    }

    /// It was seen to be connected at this time.
    fn connected(&mut self, now_us: u64, target: &Target) {
        self.record.connected_us = Some(now_us);
        self.record.local_port = self.local().map(|local| local.port());
        self.deadline_us = now_us.saturating_add(target.timeout_us);
        target.progress.connected();
        if target.speaks_first == SpeaksFirst::Client {
            self.asks(self.record.intended_us, now_us, target);
        }
    }

    /// A request that was meant for one time is sent at another.
    fn asks(&mut self, intended_us: u64, sent_us: u64, target: &Target) {
        self.next_us = None;
        self.deadline_us = sent_us.saturating_add(target.timeout_us);
        if target.series.requests.are_several() {
            self.record.requests.push(Request {
                intended_us,
                sent_us,
                first_byte_us: None,
                answered_us: None,
                right: false,
            });
        }
    }

    /// Says what is to be said: nothing, where the client does not speak first. This also tells whether there is a
    /// connection: `EAGAIN` while the handshake lasts, then what `SO_ERROR` holds (`sk_stream_wait_connect` in
    /// `net/core/stream.c`). So the time just before it is when the connection is seen.
    fn send(mut self, target: &Target, clock: Clock) -> Step {
        let question = match target.speaks_first {
            SpeaksFirst::Client => self.conversation.question(),
            SpeaksFirst::Server | SpeaksFirst::Nobody => &[],
        };
        let now_us = clock.now_us();
        // A question of few bytes fits the send buffer whole: it is empty, for what went before has been answered.
        match (&*self.socket).write(question) {
            Ok(_) => {
                if self.record.connected_us.is_none() {
                    self.connected(now_us, target);
                }
                self.record.stage = Stage::Receive;
                Step::Goes(self)
            }
            Err(error) if later(&error) => Step::Goes(self),
            Err(error) => self.failed(&error, clock),
        }
    }

    /// Reads what there is: whoever waits by edges is not woken again for the rest.
    fn receive(mut self, target: &Target, clock: Clock) -> Step {
        loop {
            let mut bytes = [0; 4096];
            match (&*self.socket).read(&mut bytes) {
                // Between two requests there is nothing to hear but the close.
                Ok(0) if self.next_us.is_some() => return self.closed_between(clock),
                Ok(_) if self.next_us.is_some() => {
                    return self.end(Ended::WrongAnswer, Close::Now, clock);
                }
                Ok(0) => {
                    self.conversation.hear(&[]);
                    return match self.conversation.said() {
                        Said::Nothing => self.end(Ended::EndOfStream, Close::Now, clock),
                        said => self.heard(said, target, clock),
                    };
                }
                Ok(length) => {
                    self.first_byte(clock);
                    self.conversation.hear(&bytes[..length]);
                    if self.conversation.is_over() {
                        let said = self.conversation.said();
                        return self.heard(said, target, clock);
                    }
                    // A stream without an end ends with the client's time.
                    if self.time_left(clock).is_zero() {
                        return Step::Goes(self);
                    }
                }
                Err(error) if later(&error) => {
                    return match self.next_us {
                        Some(due_us) if clock.until(due_us).is_zero() => {
                            self.expired(target, clock)
                        }
                        _ => Step::Goes(self),
                    };
                }
                Err(error) if self.next_us.is_some() => {
                    self.record.errno = Some(errno_of(&error));
                    return self.closed_between(clock);
                }
                Err(error) => return self.failed(&error, clock),
            }
        }
    }

    fn first_byte(&mut self, clock: Clock) {
        let request = self.record.requests.last_mut();
        let request = request.filter(|request| request.first_byte_us.is_none());
        if self.record.first_byte_us.is_none() || request.is_some() {
            let now_us = clock.now_us();
            self.record.first_byte_us.get_or_insert(now_us);
            if let Some(request) = request {
                request.first_byte_us = Some(now_us);
            }
        }
    }

    /// An answer is over. The next request follows where there is to be one; else the client may keep its connection
    /// for a while.
    fn heard(mut self, said: Said, target: &Target, clock: Clock) -> Step {
        let now_us = clock.now_us();
        let mut last_us = self.record.intended_us;
        if let Some(request) = self.record.requests.last_mut() {
            last_us = request.intended_us;
            request.answered_us = Some(now_us);
            request.right = said == Said::Right;
        }
        if said != Said::Right {
            return Step::Ended(self.end_at(Ended::WrongAnswer, Close::Now, now_us));
        }
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            if !self.conversation.goes_on() {
                return self.closed_between(clock);
            }
            self.next_us = target.series.next_us(last_us, now_us);
            if self.next_us.is_some() {
                return self.receive(target, clock);
            }
        }
        let close = match target.hold_us {
            0 => Close::Now,
            hold_us => Close::AtUs(now_us.saturating_add(hold_us)),
        };
        Step::Ended(self.end_at(Ended::Answered, close, now_us))
    }

    /// The server has closed, or is about to, before every request was asked.
    fn closed_between(self, clock: Clock) -> Step {
        let left = self.left;
        Step::Ended(Done {
            left,
            ..self.end_at(Ended::Answered, Close::Now, clock.now_us())
        })
    }

    /// A system call on its behalf failed.
    pub(super) fn failed(mut self, error: &io::Error, clock: Clock) -> Step {
        self.record.errno = Some(errno_of(error));
        self.end(Ended::Error, Close::Now, clock)
    }

    /// Closes the record.
    fn end(self, ended: Ended, close: Close, clock: Clock) -> Step {
        Step::Ended(self.end_at(ended, close, clock.now_us()))
    }

    fn end_at(mut self, ended: Ended, close: Close, now_us: u64) -> Done {
        if self.record.local_port.is_none() {
            self.record.local_port = self.local().map(|local| local.port());
        }
        self.record.ended = ended;
        self.record.ended_us = now_us;
        Done {
            record: self.record,
            socket: Some(self.socket),
            close,
            left: 0,
        }
    }

    fn local(&self) -> Option<SocketAddr> {
        let address = self.socket.local_addr().ok()?.as_socket()?;
        (address.port() != 0).then_some(address)
    }
}

/// Binds to a source address; with [`Bind::NoPort`] the port is chosen when the destination is known.
fn bind(socket: &Socket, source: IpAddr, mode: Bind) -> io::Result<()> {
    if mode == Bind::NoPort {
        setsockopt(socket, sockopt::IpBindAddressNoPort, &true)?;
    }
    socket.bind(&SocketAddr::new(source, 0).into())
}

fn later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The errno's name, `ECONNRESET`; an error without one is named by its kind.
pub(super) fn errno_of(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => format!("{:?}", Errno::from_raw(code)),
        None => format!("{:?}", error.kind()),
    }
}
