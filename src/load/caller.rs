//! The server's side of one conversation: what it waits for, and what it says.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use hyper::StatusCode;
use socket2::Socket;

use crate::arm::{Answer, Protocol, Reply, SpeaksFirst};

/// An accepted connection that still has something to say.
pub(super) struct Caller {
    /// Its place in the server's log.
    pub(super) n: usize,
    pub(super) socket: Socket,
    heard: Vec<u8>,
}

/// What reading from a caller led to.
pub(super) enum Heard {
    /// Its question is not whole.
    Part(Caller),
    /// Its question is whole: it can be answered.
    Question(Socket),
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
        }
    }

    /// Reads what is there. A question is read whole: what close(2) finds unread is answered by a reset, which can
    /// overtake the answer.
    pub(super) fn read(mut self, protocol: &Protocol) -> Heard {
        let mut bytes = [0; 1024];
        match self.socket.read(&mut bytes) {
            Ok(0) => Heard::Gone(None),
            Ok(length) => {
                self.heard.extend(&bytes[..length]);
                let end: &[u8] = match protocol.http {
                    Some(_) => b"\r\n\r\n",
                    None => b"\n",
                };
                let mut windows = self.heard.windows(end.len());
                if windows.any(|window| window == end) || self.heard.len() > MOST_HEARD {
                    Heard::Question(self.socket)
                } else {
                    Heard::Part(self)
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Heard::Part(self),
            Err(error) => Heard::Gone(Some(error)),
        }
    }
}

/// Whether the server waits for a question.
pub(super) fn waits(protocol: &Protocol) -> bool {
    protocol.speaks_first != SpeaksFirst::Server
}

/// Answers as the protocol writes it. Whoever drops the socket closes it.
pub(super) fn answer(mut socket: &Socket, reply: Reply<'_>, protocol: &Protocol) -> io::Result<()> {
    let word = match reply {
        Reply::Word(word) => word,
        Reply::Close => return Ok(()),
        Reply::Reset => return socket.set_linger(Some(Duration::ZERO)),
    };
    let status = protocol.http.as_ref().and_then(|_| Answer::status(word));
    let line = format!("{word}\n");
    let Some(status) = status else {
        return socket.write_all(line.as_bytes());
    };
    let length = line.len();
    let reason = StatusCode::from_u16(status).ok();
    let reason = reason.and_then(|code| code.canonical_reason());
    let reason = reason.unwrap_or_default();
    let whole = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{line}"
    );
    socket.write_all(whole.as_bytes())
}
