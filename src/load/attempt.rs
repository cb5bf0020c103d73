//! One attempt: a non-blocking socket from connect to close, driven by whoever polls it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};

use super::Clock;
use super::conversation::{Conversation, Said};
use super::target::Target;
use crate::arm::SpeaksFirst;
use crate::observation::{Attempt, Ended, Stage};

/// An attempt on its way.
pub(super) struct Running {
    socket: Socket,
    record: Attempt,
    deadline_us: u64,
    conversation: Conversation,
}

/// What a step leads to.
pub(super) enum Step {
    /// The attempt goes on.
    Goes(Running),
    /// The attempt has ended; a connection that is to be held until the trial has been read comes with it.
    Ended(Attempt, Option<Socket>),
}

impl Running {
    /// Opens the socket and sends the SYN.
    pub(super) fn begin(n: u32, intended_us: u64, target: &Target, clock: Clock) -> Step {
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
            server_side: None,
        };
        let domain = Domain::for_address(target.address);
        let socket = match Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP)) {
            Ok(socket) => socket,
            Err(error) => {
                record.errno = Some(errno_of(&error));
                record.ended_us = clock.now_us();
                return Step::Ended(record, None);
            }
        };
        record.stage = Stage::Connect;
        let connect = socket.connect(&target.address.into());
        let running = Self {
            deadline_us: started_us.saturating_add(target.timeout_us),
            socket,
            record,
            conversation: Conversation::new(target.http.as_ref(), target.address),
        };
        match connect {
            Ok(()) => running.connected(target, clock),
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {
                Step::Goes(running)
            }
            Err(error) => running.failed(&error, clock),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What to poll for.
    pub(super) fn interest(&self) -> PollFlags {
        match self.record.stage {
            Stage::Socket | Stage::Connect | Stage::Send => PollFlags::POLLOUT,
            Stage::Receive => PollFlags::POLLIN,
        }
    }

    /// How long its time still lasts.
    pub(super) fn time_left(&self, clock: Clock) -> Duration {
        clock.until(self.deadline_us)
    }

    /// The socket is ready for what was polled for.
    pub(super) fn ready(self, target: &Target, clock: Clock) -> Step {
        match self.record.stage {
            Stage::Socket | Stage::Connect => match self.socket.take_error() {
                Ok(None) => self.connected(target, clock),
                Ok(Some(error)) | Err(error) => self.failed(&error, clock),
            },
            Stage::Send => self.send(clock),
            Stage::Receive => self.receive(clock),
        }
    }

    /// Its time is up.
    pub(super) fn expired(mut self, target: &Target, clock: Clock) -> Step {
        let said = match self.record.stage {
            Stage::Receive => self.conversation.said(),
            Stage::Socket | Stage::Connect | Stage::Send => Said::Nothing,
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
            self.record.server_side = self.local().and_then(|local| target.server_side(local));
            // An unanswered client resets: a FIN would be repeated and counted as further overflows.
            if let Err(error) = self.socket.set_linger(Some(Duration::ZERO)) {
                self.record.errno = Some(errno_of(&error));
            }
        }
        let (record, socket) = self.end(ended, clock);
        Step::Ended(record, (ended == Ended::Held).then_some(socket))
    }

    fn connected(mut self, target: &Target, clock: Clock) -> Step {
        let now_us = clock.now_us();
        self.record.connected_us = Some(now_us);
        self.record.local_port = self.local().map(|local| local.port());
        self.deadline_us = now_us.saturating_add(target.timeout_us);
        target.progress.connected();
        if target.speaks_first == SpeaksFirst::Client {
            self.record.stage = Stage::Send;
            return self.send(clock);
        }
        self.record.stage = Stage::Receive;
        Step::Goes(self)
    }

    fn send(mut self, clock: Clock) -> Step {
        // A question of few bytes fits the empty send buffer of a fresh connection whole.
        match self.socket.write(&self.conversation.question()) {
            Ok(_) => {
                self.record.stage = Stage::Receive;
                Step::Goes(self)
            }
            Err(error) if later(&error) => Step::Goes(self),
            Err(error) => self.failed(&error, clock),
        }
    }

    fn receive(mut self, clock: Clock) -> Step {
        let mut bytes = [0; 4096];
        match self.socket.read(&mut bytes) {
            Ok(0) => {
                self.conversation.hear(&[]);
                let ended = match self.conversation.said() {
                    Said::Nothing => Ended::EndOfStream,
                    said => heard(said),
                };
                Step::Ended(self.end(ended, clock).0, None)
            }
            Ok(length) => {
                if self.record.first_byte_us.is_none() {
                    self.record.first_byte_us = Some(clock.now_us());
                }
                self.conversation.hear(&bytes[..length]);
                if self.conversation.is_over() {
                    let ended = heard(self.conversation.said());
                    return Step::Ended(self.end(ended, clock).0, None);
                }
                Step::Goes(self)
            }
            Err(error) if later(&error) => Step::Goes(self),
            Err(error) => self.failed(&error, clock),
        }
    }

    fn failed(mut self, error: &io::Error, clock: Clock) -> Step {
        self.record.errno = Some(errno_of(error));
        if self.record.local_port.is_none() {
            self.record.local_port = self.local().map(|local| local.port());
        }
        Step::Ended(self.end(Ended::Error, clock).0, None)
    }

    /// Closes the record; whoever does not want the socket any more drops it.
    fn end(mut self, ended: Ended, clock: Clock) -> (Attempt, Socket) {
        if self.record.local_port.is_none() {
            self.record.local_port = self.local().map(|local| local.port());
        }
        self.record.ended = ended;
        self.record.ended_us = clock.now_us();
        (self.record, self.socket)
    }

    fn local(&self) -> Option<SocketAddr> {
        let address = self.socket.local_addr().ok()?.as_socket()?;
        (address.port() != 0).then_some(address)
    }
}

/// How a conversation ended in which something was heard.
fn heard(said: Said) -> Ended {
    if said == Said::Right {
        Ended::Answered
    } else {
        Ended::WrongAnswer
    }
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
