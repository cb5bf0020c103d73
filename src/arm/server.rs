//! The lab's own server: the listener and how its accept loop behaves.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Descriptors, Protocol, Span};

/// The slow-accept server's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// The `listen()` argument; 0 and -1 are legal.
    pub backlog: i32,
    /// The pause after each accept.
    pub accept_delay: Span,
    /// When connections are accepted.
    pub accept: AcceptPolicy,
    /// The first accept is not before this time.
    pub accept_from: Span,
    /// `unix` listens on an `AF_UNIX` socket instead of a TCP port; absent means TCP.
    pub family: Option<ServerFamily>,
    /// What an accepted client is told.
    pub answer: Answer,
    /// After how many answers a connection that is kept is closed; absent means that its client closes it.
    pub requests: Option<u32>,
    /// Whether the port is open at all; `false` is the control without a listener.
    pub listen: bool,
    /// How many sockets share the port by `SO_REUSEPORT`; 1 is a plain listener.
    pub reuseport: u32,
    /// How many threads accept from the only socket, each with an epoll of its own (`EPOLLEXCLUSIVE`, `epoll_ctl(2)`).
    pub acceptors: u32,
    /// How many ports it listens on, each with a socket of its own; clients use them in turn.
    pub ports: u32,
    /// `TCP_DEFER_ACCEPT`, in whole seconds (tcp(7)); absent means off.
    pub defer_accept: Option<Span>,
    /// When the first of the listening sockets is closed, with whatever its queue holds; absent means never.
    pub close_first_at: Option<Span>,
    /// How many connections it can hold, and what it does with more; absent means as many as the machine allows.
    pub descriptors: Option<Descriptors>,
}

impl ServerSpec {
    /// Whether the first of the listening sockets may be closed before the end.
    pub fn may_close(&self) -> bool {
        self.close_first_at.is_some() || self.descriptors.is_some_and(|one| one.when_out.closes())
    }

    fn check_acceptors(&self) -> Result<(), String> {
        if self.acceptors == 0 || self.acceptors > 64 {
            return Err(format!(
                "server.acceptors = {}: from 1 to 64 threads can accept",
                self.acceptors
            ));
        }
        let of_one = [
            ("accept", self.accept != AcceptPolicy::Loop),
            ("listen", !self.listen),
            ("reuseport", self.reuseport > 1),
            ("ports", self.ports > 1),
            ("close-first-at", self.close_first_at.is_some()),
            ("descriptors", self.descriptors.is_some()),
        ];
        match of_one.into_iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) if self.acceptors > 1 => Err(format!(
                "server.acceptors = {} share one socket and accept in a loop: remove server.{key}",
                self.acceptors
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.reuseport == 0 || self.reuseport > 64 {
            return Err(format!(
                "server.reuseport = {}: from 1 to 64 sockets can share the port",
                self.reuseport
            ));
        }
        self.check_acceptors()?;
        if self.ports == 0 || self.ports > 64 {
            return Err(format!(
                "server.ports = {}: from 1 to 64 ports can be listened on",
                self.ports
            ));
        }
        if self.ports > 1 && self.reuseport > 1 {
            return Err(
                "server.ports and server.reuseport: only one of them can be above 1".into(),
            );
        }
        if let Some(period) = self.defer_accept
            && (period == Span::default() || !period.as_us().is_multiple_of(1_000_000))
        {
            return Err(format!(
                "server.defer-accept = \"{period}\": the kernel takes whole seconds, at least 1s"
            ));
        }
        if self.family == Some(ServerFamily::Unix) {
            let of_tcp = [
                ("reuseport", self.reuseport > 1),
                ("ports", self.ports > 1),
                ("defer-accept", self.defer_accept.is_some()),
                ("close-first-at", self.close_first_at.is_some()),
                ("listen = false", !self.listen),
                ("answer = \"reset\"", self.answer.resets()),
            ];
            if let Some((key, _)) = of_tcp.into_iter().find(|(_, is_there)| *is_there) {
                return Err(format!(
                    "server.family = \"unix\" has one socket and no TCP: remove server.{key}"
                ));
            }
        }
        if self.close_first_at.is_some() && !self.listen {
            return Err(
                "server.close-first-at: with listen = false there is nothing to close".into(),
            );
        }
        if self.descriptors.is_some() && (self.reuseport > 1 || !self.listen) {
            return Err(
                "server.descriptors: they are those of a single listening socket's loop; remove reuseport and listen".into(),
            );
        }
        let AcceptPolicy::Plan(batches) = &self.accept else {
            return Ok(());
        };
        if batches.is_empty() {
            return Err(
                "server.accept: a plan needs a batch; to accept nothing write \"never\"".into(),
            );
        }
        if !batches.windows(2).all(|pair| pair[0].at < pair[1].at) {
            return Err(
                "server.accept: the batches of a plan must be in the order of their times".into(),
            );
        }
        Ok(())
    }
}

/// A family of sockets other than the link's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerFamily {
    /// `AF_UNIX`: connections of one machine, without handshake, without packets and without overflow counters
    /// (unix(7); `unix_stream_connect` in `net/unix/af_unix.c`).
    Unix,
}

/// When a server accepts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AcceptPolicy {
    /// In a loop, as long as there is something to accept.
    #[default]
    Loop,
    /// Never.
    Never,
    /// By plan: from each time on, up to so many.
    Plan(Vec<AcceptBatch>),
}

/// One entry of an accept plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptBatch {
    /// From this time on, counted from the clients' start.
    pub at: Span,
    /// How many connections may be accepted until the next entry's time.
    pub count: u32,
}

impl Serialize for AcceptPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Loop => serializer.serialize_str("loop"),
            Self::Never => serializer.serialize_str("never"),
            Self::Plan(batches) => batches.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for AcceptPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = AcceptPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"loop\", \"never\" or a plan such as [{ at = \"400ms\", count = 11 }]",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AcceptPolicy, E> {
                match text {
                    "loop" => Ok(AcceptPolicy::Loop),
                    "never" => Ok(AcceptPolicy::Never),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<AcceptPolicy, A::Error> {
                let mut batches = Vec::new();
                while let Some(batch) = seq.next_element()? {
                    batches.push(batch);
                }
                Ok(AcceptPolicy::Plan(batches))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What accepted clients are told: one text for all, or several in turn. `"close"` closes without a word, `"reset"`
/// by a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    turns: Vec<String>,
}

/// The word that every client waits for.
pub(super) const RIGHT_ANSWER: &str = "OK";
/// The answer that is none: the connection is closed at once.
pub(super) const CLOSE: &str = "close";
/// The answer that is none, by a reset.
pub(super) const RESET: &str = "reset";

/// What one accepted client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A word.
    Word(&'a str),
    /// Nothing: the connection is closed.
    Close,
    /// Nothing: the connection is reset.
    Reset,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            turns: vec![RIGHT_ANSWER.to_owned()],
        }
    }
}

impl Answer {
    /// Whether any client is told by a reset.
    pub fn resets(&self) -> bool {
        self.turns.iter().any(|word| word == RESET)
    }

    /// What the `n`-th accepted client is told.
    pub fn turn(&self, n: usize) -> Reply<'_> {
        match self.turns[n % self.turns.len()].as_str() {
            CLOSE => Reply::Close,
            RESET => Reply::Reset,
            word => Reply::Word(word),
        }
    }

    /// The line that every client takes for the right answer, where the conversation is lines.
    pub fn right() -> String {
        format!("{RIGHT_ANSWER}\n")
    }

    /// The status that a word stands for where the conversation is HTTP; `None` for a word that is none.
    pub fn status(word: &str) -> Option<u16> {
        if word == RIGHT_ANSWER {
            return Some(200);
        }
        word.parse()
            .ok()
            .filter(|status| (200..=599).contains(status))
    }

    pub(super) fn check(&self, protocol: &Protocol) -> Result<(), String> {
        let mut words = self
            .turns
            .iter()
            .filter(|word| ![CLOSE, RESET].contains(&word.as_str()));
        match words.find(|word| Self::status(word).is_none()) {
            Some(word) if protocol.http.is_some() => Err(format!(
                "server.answer = \"{word}\": with kind = \"http\" an answer is \"OK\", \"close\", \"reset\" or a status such as \"503\""
            )),
            _ => Ok(()),
        }
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.turns.as_slice() {
            [only] => serializer.serialize_str(only),
            turns => turns.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Answer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a word such as \"OK\", \"close\", \"reset\", or a list of them that is used in turn",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Answer, E> {
                if text.is_empty() || text.contains('\n') {
                    return Err(E::invalid_value(de::Unexpected::Str(text), &self));
                }
                Ok(Answer {
                    turns: vec![text.to_owned()],
                })
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Answer, A::Error> {
                let mut turns = Vec::new();
                while let Some(Answer { turns: one }) = seq.next_element()? {
                    turns.extend(one);
                }
                if turns.is_empty() {
                    return Err(de::Error::invalid_length(0, &self));
                }
                Ok(Answer { turns })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
