//! What a client recorded of an attempt, and of the requests on its connection.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Peer, ServerSide};

/// One attempt of the flood client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number, from 0.
    pub n: u32,
    /// When it was meant to start.
    pub intended_us: u64,
    /// When it started.
    pub started_us: u64,
    /// When the handshake was done as the client sees it.
    pub connected_us: Option<u64>,
    /// When the first byte of an answer arrived.
    pub first_byte_us: Option<u64>,
    /// When it ended.
    pub ended_us: u64,
    /// How far it had come.
    pub stage: Stage,
    /// How it ended there.
    pub ended: Ended,
    /// The error, as the errno's name.
    pub errno: Option<String>,
    /// The client's port.
    pub local_port: Option<u16>,
    /// The address that it was bound to; absent where the kernel chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The port that it was bound for, where the server has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_port: Option<u16>,
    /// What the server's side held when a connected and unanswered client ended.
    pub server_side: Option<ServerSide>,
    /// The requests that it sent, where connections carry several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Request>,
}

impl Attempt {
    /// Whether any of its requests was answered, where connections carry several.
    pub fn was_answered(&self) -> bool {
        self.requests.iter().any(|one| one.right)
    }

    /// Whether a socket of the server, on `server_port` where it has several, can be the other end of this attempt.
    pub fn meets(&self, peer: Peer, server_port: Option<u16>) -> bool {
        match peer {
            Peer::Inet(peer) => {
                self.local_port == Some(peer.port())
                    && self.source.is_none_or(|source| source == peer.ip())
                    && (self.server_port.is_none() || self.server_port == server_port)
            }
            Peer::Unix { client } => self.n == client,
        }
    }
}

/// How far an attempt had come when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It had no socket yet.
    Socket,
    /// It was being bound to its source address.
    Bind,
    /// The handshake was not done.
    Connect,
    /// The client was sending its line.
    Send,
    /// The client was waiting for the answer, or staying silent.
    Receive,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The right answer came.
    Answered,
    /// Another answer came.
    WrongAnswer,
    /// The stream ended before an answer.
    EndOfStream,
    /// The client's time was up.
    TimeUp,
    /// Nobody was to speak, and the client held its connection until its time was up.
    Held,
    /// A system call failed.
    Error,
}

/// A request of a connection that carries several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RequestRow", into = "RequestRow")]
pub struct Request {
    /// When it was meant to start: the first of a connection when the connection was, a further one when the one
    /// before it was answered, or later by the pace of its loop.
    pub intended_us: u64,
    /// When it was sent.
    pub sent_us: u64,
    /// When the first byte of its answer arrived.
    pub first_byte_us: Option<u64>,
    /// When its answer was whole.
    pub answered_us: Option<u64>,
    /// Whether that was the right answer.
    pub right: bool,
}

/// A request as it is stored: a row.
type RequestRow = (u64, u64, Option<u64>, Option<u64>, bool);

impl From<Request> for RequestRow {
    fn from(one: Request) -> Self {
        (
            one.intended_us,
            one.sent_us,
            one.first_byte_us,
            one.answered_us,
            one.right,
        )
    }
}

impl From<RequestRow> for Request {
    fn from((intended_us, sent_us, first_byte_us, answered_us, right): RequestRow) -> Self {
        Self {
            intended_us,
            sent_us,
            first_byte_us,
            answered_us,
            right,
        }
    }
}
