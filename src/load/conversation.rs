//! The client's side of one conversation: what it says, and what it takes for an answer.

use std::net::SocketAddr;

use super::http::Exchange;
use crate::arm::{Answer, Http};

/// A conversation of the lab's own line, or of HTTP.
pub(super) enum Conversation {
    /// What was heard so far.
    Line(Vec<u8>),
    Http {
        exchange: Exchange,
        /// The status of a right answer.
        status: u16,
        /// Whether the client ends it when the answer is whole; else the server does.
        ends_it: bool,
        is_silent: bool,
    },
}

/// What has been heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Nothing,
    /// A part of an answer that may become right.
    Part,
    Right,
    Wrong,
}

/// The line that a client sends when it speaks first.
const QUESTION: &[u8] = b"PING\n";

/// More of a wrong line than this is not kept.
const MOST_HEARD: usize = 4096;

impl Conversation {
    /// A conversation by lines, or by HTTP with a server of this address.
    pub(super) fn new(http: Option<(&Http, SocketAddr)>) -> Self {
        match http {
            None => Self::Line(Vec::new()),
            Some((http, server)) => Self::Http {
                exchange: Exchange::begin(http, server),
                status: http.status,
                ends_it: http.keep_alive,
                is_silent: true,
            },
        }
    }

    /// What the client says first.
    pub(super) fn question(&self) -> Vec<u8> {
        match self {
            Self::Line(_) => QUESTION.to_vec(),
            Self::Http { exchange, .. } => exchange.to_send(),
        }
    }

    /// Takes in what was received; nothing means the end of the stream.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        match self {
            Self::Line(heard) => {
                let room = MOST_HEARD.saturating_sub(heard.len());
                heard.extend(&bytes[..bytes.len().min(room)]);
            }
            Self::Http {
                exchange,
                is_silent,
                ..
            } => {
                *is_silent &= bytes.is_empty();
                exchange.hear(bytes);
            }
        }
    }

    /// Whether the client needs to hear no more.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Line(_) => false,
            Self::Http {
                exchange, ends_it, ..
            } => match exchange.answer() {
                Some(Some(_)) => *ends_it,
                Some(None) => true,
                None => false,
            },
        }
    }

    pub(super) fn said(&self) -> Said {
        match self {
            Self::Line(heard) if heard.is_empty() => Said::Nothing,
            Self::Line(heard) if heard == Answer::right().as_bytes() => Said::Right,
            Self::Line(_) => Said::Wrong,
            Self::Http {
                is_silent: true, ..
            } => Said::Nothing,
            Self::Http {
                exchange, status, ..
            } => match exchange.answer() {
                None => Said::Part,
                Some(Some(answered)) if answered == *status => Said::Right,
                Some(_) => Said::Wrong,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(keep_alive: bool) -> Conversation {
        let http = Http {
            path: "/health?full=1".into(),
            status: 204,
            keep_alive,
        };
        Conversation::new(Some((&http, "192.0.2.1:80".parse().unwrap())))
    }

    /// What has been said after each of these parts.
    fn hear(conversation: &mut Conversation, parts: &[&str]) -> Vec<Said> {
        let mut said = Vec::new();
        for part in parts {
            conversation.hear(part.as_bytes());
            said.push(conversation.said());
        }
        said
    }

    #[test]
    fn the_request_is_whole_before_anything_is_heard() {
        let question = String::from_utf8(conversation(false).question()).unwrap();
        let mut lines = question.split("\r\n");
        assert_eq!(lines.next(), Some("GET /health?full=1 HTTP/1.1"));
        let lines: Vec<String> = lines.map(str::to_lowercase).collect();
        assert!(
            lines.contains(&"host: 192.0.2.1:80".to_owned()),
            "{question}"
        );
        assert!(
            lines.contains(&"connection: close".to_owned()),
            "{question}"
        );
        assert!(question.ends_with("\r\n\r\n"), "{question}");
    }

    #[test]
    fn every_answer_has_its_judgement() {
        use Said::{Nothing, Part, Right, Wrong};
        let cases: &[(&[&str], &[Said])] = &[
            (&[""], &[Nothing]),
            (
                &["HTTP/1.1 204 No Content\r\n", "\r\n", ""],
                &[Part, Right, Right],
            ),
            (
                &[
                    "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n",
                    "no",
                ],
                &[Part, Wrong],
            ),
            // A body without a length ends with the stream.
            (&["HTTP/1.1 503 x\r\n\r\nbusy", ""], &[Part, Wrong]),
            // Cut short: inside the head, and inside the body.
            (&["HTTP/1.1 20", ""], &[Part, Wrong]),
            (
                &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", ""],
                &[Part, Wrong],
            ),
            (&["SSH-2.0-OpenSSH\r\n"], &[Wrong]),
        ];
        for (parts, expected) in cases {
            assert_eq!(
                hear(&mut conversation(false), parts),
                *expected,
                "{parts:?}"
            );
        }
    }

    #[test]
    fn only_with_keep_alive_the_client_ends_it() {
        let answer = "HTTP/1.1 204 No Content\r\n\r\n";
        for keep_alive in [false, true] {
            let mut conversation = conversation(keep_alive);
            assert_eq!(hear(&mut conversation, &[answer]), [Said::Right]);
            assert_eq!(conversation.is_over(), keep_alive);
        }
    }
}
