//! The client's side of a conversation: what it says, and what it takes for an answer.

use std::net::SocketAddr;

use super::http::Exchange;
use crate::arm::{Answer, Http};

/// A conversation of the lab's own line, or of HTTP.
pub(super) enum Conversation {
    Line {
        /// What was heard so far.
        heard: Vec<u8>,
        /// Whether the client ends it when the line is whole; else the server does.
        ends_it: bool,
    },
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
    /// A conversation by lines, or by HTTP with a server of this address; `kept` for further requests.
    pub(super) fn new(http: Option<(&Http, SocketAddr)>, kept: bool) -> Self {
        match http {
            None => Self::Line {
                heard: Vec::new(),
                ends_it: kept,
            },
            Some((http, server)) => Self::Http {
                exchange: Exchange::begin(http, server),
                status: http.status,
                ends_it: http.keep_alive,
                is_silent: true,
            },
        }
    }

    /// The client's next question on the same connection, where that [goes on](Self::goes_on).
    pub(super) fn ask(&mut self) {
        match self {
            Self::Line { heard, .. } => heard.clear(),
            Self::Http {
                exchange,
                is_silent,
                ..
            } => {
                *is_silent = true;
                exchange.ask_again();
            }
        }
    }

    /// Whether the connection can carry another question, as far as the answer tells.
    pub(super) fn goes_on(&self) -> bool {
        match self {
            Self::Line { .. } => true,
            Self::Http { exchange, .. } => exchange.is_open(),
        }
    }

    /// What the client says.
    pub(super) fn question(&self) -> &[u8] {
        match self {
            Self::Line { .. } => QUESTION,
            Self::Http { exchange, .. } => exchange.to_send(),
        }
    }

    /// Takes in what was received; nothing means the end of the stream.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        match self {
            Self::Line { heard, .. } => {
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
            Self::Line { heard, ends_it } => {
                *ends_it && (heard.contains(&b'\n') || heard.len() == MOST_HEARD)
            }
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
            Self::Line { heard, .. } if heard.is_empty() => Said::Nothing,
            Self::Line { heard, .. } if heard == Answer::right().as_bytes() => Said::Right,
            Self::Line { .. } => Said::Wrong,
            Self::Http {
                is_silent: true, ..
            } => Said::Nothing,
            Self::Http {
                exchange,
                status,
                ends_it,
                ..
            } => match exchange.answer() {
                None => Said::Part,
                Some(_) if *ends_it && exchange.is_spoiled() => Said::Wrong,
                Some(Some(answered)) if answered == *status => Said::Right,
                Some(_) => Said::Wrong,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(keep_alive: bool) -> Http {
        Http {
            path: "/health?full=1".into(),
            status: 204,
            keep_alive,
        }
    }

    fn server() -> SocketAddr {
        "192.0.2.1:80".parse().unwrap()
    }

    fn conversation(keep_alive: bool) -> Conversation {
        Conversation::new(Some((&http(keep_alive), server())), false)
    }

    /// A conversation that is kept, by lines or by HTTP.
    fn kept(is_http: bool) -> Conversation {
        let http = is_http.then(|| http(true));
        Conversation::new(http.as_ref().map(|http| (http, server())), true)
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
        let question = String::from_utf8(conversation(false).question().to_vec()).unwrap();
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

    const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\n\r\n";

    #[test]
    fn two_requests_go_over_one_connection() {
        for (is_http, answer) in [(true, NO_CONTENT), (false, "OK\n")] {
            let mut conversation = kept(is_http);
            let question = conversation.question().to_vec();
            for _ in 0..3 {
                assert_eq!(conversation.question(), question, "a whole question");
                assert_eq!(conversation.said(), Said::Nothing);
                assert!(!conversation.is_over());
                assert_eq!(hear(&mut conversation, &[answer]), [Said::Right]);
                assert!(conversation.is_over() && conversation.goes_on());
                conversation.ask();
            }
        }
    }

    #[test]
    fn an_answer_in_parts_is_over_when_it_is_whole() {
        let mut conversation = kept(true);
        for _ in 0..2 {
            for byte in NO_CONTENT.as_bytes() {
                assert!(!conversation.is_over());
                conversation.hear(&[*byte]);
            }
            assert_eq!(conversation.said(), Said::Right);
            assert!(conversation.is_over() && conversation.goes_on());
            conversation.ask();
        }
    }

    /// What the server announces ends the connection with its answer, and the answer is right all the same.
    #[test]
    fn an_announced_close_leaves_no_room_for_another_question() {
        for answer in [
            "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
            "HTTP/1.0 204 No Content\r\nContent-Length: 0\r\n\r\n",
        ] {
            let mut conversation = kept(true);
            assert_eq!(hear(&mut conversation, &[answer]), [Said::Right]);
            assert!(conversation.is_over(), "{answer:?}");
            assert!(!conversation.goes_on(), "{answer:?}");
        }
        let mut conversation = kept(true);
        let kept_by_old = "HTTP/1.0 204 x\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(hear(&mut conversation, &[kept_by_old]), [Said::Right]);
        assert!(conversation.goes_on());
    }

    #[test]
    fn a_close_in_the_middle_of_a_later_answer_is_no_answer() {
        let mut conversation = kept(true);
        hear(&mut conversation, &[NO_CONTENT]);
        conversation.ask();
        assert_eq!(
            hear(&mut conversation, &["HTTP/1.1 204 No", ""]),
            [Said::Part, Said::Wrong]
        );
        let mut conversation = kept(true);
        hear(&mut conversation, &[NO_CONTENT]);
        conversation.ask();
        assert_eq!(hear(&mut conversation, &[""]), [Said::Nothing]);
    }

    /// Who is told more than was asked for cannot know what belongs to the next question.
    #[test]
    fn bytes_beyond_the_answer_make_it_wrong() {
        let beyond = format!("{NO_CONTENT}HTTP/1.1");
        for (is_http, answer) in [(true, beyond.as_str()), (false, "OK\nOK\n")] {
            let mut conversation = kept(is_http);
            assert_eq!(hear(&mut conversation, &[answer]), [Said::Wrong]);
            assert!(conversation.is_over());
        }
    }
}
