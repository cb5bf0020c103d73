//! The server's side of a conversation: what it waits for, and what it says.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use http::StatusCode;
use socket2::Socket;

use crate::arm::{Answer, Protocol, Reply, ServerSpec, SpeaksFirst};

/// An accepted connection that still has something to say.
pub(super) struct Caller {
    /// Its place in the server's log.
    pub(super) n: usize,
    pub(super) socket: Socket,
    heard: Vec<u8>,
    /// Answers that it has been given.
    pub(super) answers: u32,
}

/// What reading from a caller led to.
pub(super) enum Heard {
    /// Nothing new.
    Nothing,
    /// Something new.
    More,
    /// It has closed, or the read failed.
    Gone(Option<io::Error>),
}

/// A question longer than this is answered as it is.
const MOST_HEARD: usize = 16 * 1024;

impl Caller {
    pub(super) fn new(n: usize, socket: Socket) -> Self {
        Self {
            n,
            socket,
            heard: Vec::new(),
            answers: 0,
        }
    }

    /// Reads what is there.
    pub(super) fn read(&mut self) -> Heard {
        let mut bytes = [0; 1024];
        match self.socket.read(&mut bytes) {
            Ok(0) => Heard::Gone(None),
            Ok(length) => {
                self.heard.extend(&bytes[..length]);
                Heard::More
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Heard::Nothing,
            Err(error) => Heard::Gone(Some(error)),
        }
    }

    /// Takes the next question out of what was heard; whether there was a whole one. A question is heard whole: what
    /// close(2) finds unread is answered by a reset, which can overtake the answer.
    pub(super) fn takes_question(&mut self, protocol: &Protocol) -> bool {
        let end: &[u8] = match protocol.http {
            Some(_) => b"\r\n\r\n",
            None => b"\n",
        };
        let mut windows = self.heard.windows(end.len());
        let length = match windows.position(|window| window == end) {
            Some(start) => start + end.len(),
            None if self.heard.len() > MOST_HEARD => self.heard.len(),
            None => return false,
        };
        self.heard.drain(..length);
        true
    }
}

/// Whether the server waits for a question.
pub(super) fn waits(protocol: &Protocol) -> bool {
    protocol.speaks_first != SpeaksFirst::Server
}

/// Whether the connection is kept for another question after so many answers.
pub(super) fn keeps(spec: &ServerSpec, protocol: &Protocol, answers: u32) -> bool {
    protocol.requests.are_several() && spec.requests.is_none_or(|most| answers < most)
}

/// Answers as the protocol writes it, and says whether the connection is `kept`; whether it can be. Whoever drops the
/// socket closes it.
pub(super) fn answer(
    mut socket: &Socket,
    reply: Reply<'_>,
    protocol: &Protocol,
    kept: bool,
) -> io::Result<bool> {
    let word = match reply {
        Reply::Word(word) => word,
        Reply::Close => return Ok(false),
        Reply::Reset => return socket.set_linger(Some(Duration::ZERO)).map(|()| false),
    };
    let status = protocol.http.as_ref().and_then(|_| Answer::status(word));
    let line = format!("{word}\n");
    let Some(status) = status else {
        return socket.write_all(line.as_bytes()).map(|()| kept);
    };
    let length = line.len();
    let reason = StatusCode::from_u16(status).ok();
    let reason = reason.and_then(|code| code.canonical_reason());
    let reason = reason.unwrap_or_default();
    let connection = if kept { "keep-alive" } else { "close" };
    let whole = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n{line}"
    );
    socket.write_all(whole.as_bytes()).map(|()| kept)
}
