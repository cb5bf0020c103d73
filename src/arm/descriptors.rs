//! `server.descriptors`: a server that runs out of file descriptors, and what its accept loop does then.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;

/// How many connections the server's thread can hold, in a descriptor table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Descriptors {
    /// Descriptors that are free when it begins.
    pub free: u32,
    /// When it gets all the others; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Span>,
    /// What it does when `accept()` fails with EMFILE. The connection stays in the queue.
    #[serde(default)]
    pub when_out: WhenOut,
}

impl Descriptors {
    /// Whether one more is kept for the case.
    pub fn reserves(self) -> bool {
        self.when_out == WhenOut::Reserve
    }
}

/// What an accept loop does when `accept()` fails for want of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenOut {
    /// It tries again at once.
    Spin,
    /// It tries again after 100 ms.
    #[default]
    Sleep,
    /// It gives up a descriptor that it kept for this, accepts, closes at once, and takes the descriptor back.
    Reserve,
    /// It waits for something that never comes.
    Park,
    /// It ends, and with it everything that it has open.
    Exit,
    /// It closes the listening socket, and keeps what it has accepted.
    CloseListener,
}

impl WhenOut {
    /// Whether the port is closed then.
    pub const fn closes(self) -> bool {
        matches!(self, Self::Exit | Self::CloseListener)
    }
}

impl fmt::Display for WhenOut {
    /// What became of it, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spin => "The loop tried again at once, and again",
            Self::Sleep => "The loop paused for 100 ms before it tried again",
            Self::Reserve => "A descriptor kept for this let the loop accept and close at once: clients see an end instead of a silence",
            Self::Park => "The loop has not tried again, whatever became free",
            Self::Exit => "The server ended: who comes now is refused",
            Self::CloseListener => "The server closed its listener: who comes now is refused",
        })
    }
}
