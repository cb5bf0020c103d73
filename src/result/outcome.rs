//! What happened to one connect, as one of the nine classes of the results document.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::observation::{Attempt, Ended, Stage};

/// What happened to one connect. Overflow never gives [`Outcome::Refused`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered; with `speaks-first = "nobody"`, connected.
    Ok,
    /// The handshake did not finish in time.
    ConnectTimeout,
    /// Connected, and not answered in time.
    ReadTimeout,
    /// ECONNREFUSED: no listener.
    Refused,
    /// ECONNRESET or EPIPE.
    Reset,
    /// The stream ended before an answer.
    ClosedEarly,
    /// Another answer than the right one.
    WrongData,
    /// A limit of the client's machine: addresses, ports, descriptors, memory.
    LocalLimit,
    /// Any other error.
    Other,
}

impl Outcome {
    /// Every class, the good one first.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::ConnectTimeout,
        Self::ReadTimeout,
        Self::Refused,
        Self::Reset,
        Self::ClosedEarly,
        Self::WrongData,
        Self::LocalLimit,
        Self::Other,
    ];

    /// The figure's name, `connect-timeout`.
    pub fn figure(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ConnectTimeout => "connect-timeout",
            Self::ReadTimeout => "read-timeout",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::ClosedEarly => "closed-early",
            Self::WrongData => "wrong-data",
            Self::LocalLimit => "local-limit",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Outcome {
    /// In words for people: the label in tables and charts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.pad("other error"),
            class => f.pad(&class.figure().replace('-', " ")),
        }
    }
}

/// Classifies an attempt.
pub fn outcome(attempt: &Attempt) -> Outcome {
    match attempt.ended {
        Ended::Answered | Ended::Held => Outcome::Ok,
        Ended::WrongAnswer => Outcome::WrongData,
        Ended::EndOfStream => Outcome::ClosedEarly,
        Ended::TimeUp if attempt.connected_us.is_some() => Outcome::ReadTimeout,
        Ended::TimeUp => Outcome::ConnectTimeout,
        Ended::Error => error(attempt.stage, attempt.errno.as_deref().unwrap_or_default()),
    }
}

fn error(stage: Stage, errno: &str) -> Outcome {
    match (stage, errno) {
        (_, "EMFILE" | "ENFILE" | "ENOBUFS" | "ENOMEM")
        | (Stage::Socket | Stage::Bind | Stage::Connect, "EADDRNOTAVAIL" | "EADDRINUSE") => {
            Outcome::LocalLimit
        }
        (Stage::Connect, "ECONNREFUSED") => Outcome::Refused,
        (Stage::Connect, "ETIMEDOUT") => Outcome::ConnectTimeout,
        (Stage::Receive, "ETIMEDOUT") => Outcome::ReadTimeout,
        (_, "ECONNRESET" | "EPIPE") => Outcome::Reset,
        _ => Outcome::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(stage: Stage, ended: Ended, errno: &str) -> Attempt {
        Attempt {
            n: 0,
            intended_us: 0,
            started_us: 0,
            connected_us: (stage >= Stage::Send).then_some(1),
            first_byte_us: None,
            ended_us: 2,
            stage,
            ended,
            errno: (!errno.is_empty()).then(|| errno.to_owned()),
            local_port: None,
            source: None,
            server_port: None,
            server_side: None,
            requests: Vec::new(),
        }
    }

    #[test]
    fn every_end_has_its_class() {
        for (stage, ended, errno, class) in [
            (Stage::Receive, Ended::Answered, "", Outcome::Ok),
            (Stage::Receive, Ended::Held, "", Outcome::Ok),
            (Stage::Connect, Ended::TimeUp, "", Outcome::ConnectTimeout),
            (
                Stage::Connect,
                Ended::Error,
                "ETIMEDOUT",
                Outcome::ConnectTimeout,
            ),
            (Stage::Receive, Ended::TimeUp, "", Outcome::ReadTimeout),
            (Stage::Send, Ended::TimeUp, "", Outcome::ReadTimeout),
            (
                Stage::Connect,
                Ended::Error,
                "ECONNREFUSED",
                Outcome::Refused,
            ),
            (Stage::Connect, Ended::Error, "ECONNRESET", Outcome::Reset),
            (Stage::Receive, Ended::Error, "ECONNRESET", Outcome::Reset),
            (Stage::Send, Ended::Error, "EPIPE", Outcome::Reset),
            (Stage::Receive, Ended::EndOfStream, "", Outcome::ClosedEarly),
            (Stage::Receive, Ended::WrongAnswer, "", Outcome::WrongData),
            (Stage::Socket, Ended::Error, "EMFILE", Outcome::LocalLimit),
            (
                Stage::Connect,
                Ended::Error,
                "EADDRNOTAVAIL",
                Outcome::LocalLimit,
            ),
            (Stage::Bind, Ended::Error, "EADDRINUSE", Outcome::LocalLimit),
            (
                Stage::Bind,
                Ended::Error,
                "EADDRNOTAVAIL",
                Outcome::LocalLimit,
            ),
            (Stage::Bind, Ended::Error, "EACCES", Outcome::Other),
            (Stage::Connect, Ended::Error, "EHOSTUNREACH", Outcome::Other),
            (Stage::Receive, Ended::Error, "ECONNREFUSED", Outcome::Other),
        ] {
            assert_eq!(
                outcome(&attempt(stage, ended, errno)),
                class,
                "{stage:?} {ended:?} {errno}"
            );
        }
    }
}
