//! HTTP requests and their answers on one connection, without a socket: bytes in, bytes out.
//!
//! The attempt opens the connection, times it and owns its socket, so connect and answer stay apart and every error
//! keeps its errno. httparse reads the heads and the sizes of chunks; here is only where an answer ends (RFC 9112,
//! section 6).

use std::net::SocketAddr;

use httparse::{EMPTY_HEADER, Error, Response, Status, parse_chunk_size, parse_headers};

use crate::arm::Http;

/// A connection, and a request on its way to its answer.
pub(super) struct Exchange {
    request: Vec<u8>,
    /// What was heard and belongs to something that is not whole.
    heard: Vec<u8>,
    reading: Reading,
    answer: Option<Answer>,
    /// Whether neither side has said that this request is the last.
    is_open: bool,
    /// Whether bytes came that no request had asked for.
    spoiled: bool,
}

/// The status of a whole answer; `None` for one that is no HTTP, or was cut short.
type Answer = Option<u16>;

/// Names of headers that are looked at; more in one answer make it unreadable.
const MOST_HEADERS: usize = 100;
/// A head that is longer is unreadable.
const LONGEST_HEAD: usize = 256 * 1024;

impl Exchange {
    /// The request for `http` at `host`.
    pub(super) fn begin(http: &Http, host: SocketAddr) -> Self {
        let connection = if http.keep_alive {
            "keep-alive"
        } else {
            "close"
        };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: backlog-lab/{}\r\nConnection: {connection}\r\n\r\n",
            http.path,
            env!("CARGO_PKG_VERSION"),
        );
        Self {
            request: request.into_bytes(),
            heard: Vec::new(),
            reading: Reading::default(),
            answer: None,
            is_open: true,
            spoiled: false,
        }
    }

    /// The request once more on the same connection, where it is [open](Self::is_open).
    pub(super) fn ask_again(&mut self) {
        self.reading = Reading::default();
        self.answer = None;
    }

    /// What is to be sent.
    pub(super) fn to_send(&self) -> &[u8] {
        &self.request
    }

    /// Takes in what was received; nothing means the end of the stream.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            self.is_open = false;
            self.answer.get_or_insert(self.reading.cut_short());
            return;
        }
        self.heard.extend(bytes);
        let mut used = 0;
        while self.answer.is_none() {
            match self.reading.take(&self.heard[used..]) {
                Ok(Status::Complete(length)) => used += length,
                Ok(Status::Partial) => break,
                Err(_) => self.answer = Some(None),
            }
            if let Next::Nothing = self.reading.next {
                self.answer = Some(Some(self.reading.status));
                self.is_open &= self.reading.stays;
            }
        }
        self.heard.drain(..used);
        self.spoiled |= self.answer.is_some() && !self.heard.is_empty();
    }

    /// The answer, when it has come or can come no more.
    pub(super) fn answer(&self) -> Option<Answer> {
        self.answer
    }

    /// Whether more came than the answer.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Whether the connection can carry another request: neither side has said that it is the last.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }
}

/// How far an answer has been read.
#[derive(Default)]
struct Reading {
    status: u16,
    /// Whether the server keeps the connection.
    stays: bool,
    next: Next,
}

/// What the next bytes of an answer are.
#[derive(Default)]
enum Next {
    #[default]
    Head,
    /// So many bytes of a body of known length.
    Body(u64),
    /// The size of a chunk.
    Size,
    /// So many bytes of a chunk and of the end of its line.
    Chunk(u64),
    /// What stands behind the last chunk.
    Trailer,
    /// A body that ends with the stream.
    All,
    /// The answer is whole.
    Nothing,
}

impl Reading {
    /// Reads one thing from the front of `bytes`; how long it is.
    fn take(&mut self, bytes: &[u8]) -> httparse::Result<usize> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let read = match self.next {
            Next::Head => {
                let mut head = Response::new(&mut headers);
                let read = head.parse(bytes)?;
                if read.is_complete() {
                    self.head(&head)?;
                }
                read
            }
            Next::Size => match parse_chunk_size(bytes).map_err(|_| Error::Token)? {
                Status::Complete((length, 0)) => {
                    self.next = Next::Trailer;
                    Status::Complete(length)
                }
                Status::Complete((length, size)) => {
                    const END_OF_LINE: u64 = 2;
                    self.next = Next::Chunk(size.saturating_add(END_OF_LINE));
                    Status::Complete(length)
                }
                Status::Partial => Status::Partial,
            },
            Next::Trailer => match parse_headers(bytes, &mut headers)? {
                Status::Complete((length, _)) => {
                    self.next = Next::Nothing;
                    Status::Complete(length)
                }
                Status::Partial => Status::Partial,
            },
            Next::Body(left) | Next::Chunk(left) => {
                let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - length as u64;
                self.next = match self.next {
                    Next::Body(_) if left > 0 => Next::Body(left),
                    Next::Body(_) => Next::Nothing,
                    _ if left > 0 => Next::Chunk(left),
                    _ => Next::Size,
                };
                if length == 0 {
                    Status::Partial
                } else {
                    Status::Complete(length)
                }
            }
            Next::All if bytes.is_empty() => Status::Partial,
            Next::All => Status::Complete(bytes.len()),
            Next::Nothing => Status::Partial,
        };
        if read.is_partial() && bytes.len() > LONGEST_HEAD {
            return Err(Error::TooManyHeaders);
        }
        Ok(read)
    }

    /// What a head says about the rest of its answer.
    fn head(&mut self, head: &Response<'_, '_>) -> Result<(), Error> {
        const SWITCHING_PROTOCOLS: u16 = 101;
        self.status = head.code.unwrap_or_default();
        self.stays = head.version == Some(1);
        let mut length = None;
        let mut coding = None;
        for header in &*head.headers {
            let value = std::str::from_utf8(header.value);
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("Connection") {
                for option in value.unwrap_or_default().split(',').map(str::trim) {
                    if option.eq_ignore_ascii_case("close") {
                        self.stays = false;
                    } else if option.eq_ignore_ascii_case("keep-alive") {
                        self.stays = true;
                    }
                }
            } else if is("Content-Length") {
                for one in value.map_err(|_| Error::HeaderValue)?.split(',') {
                    let one = one.trim();
                    let is_number = one.bytes().all(|byte| byte.is_ascii_digit());
                    let one: u64 = one.parse().map_err(|_| Error::HeaderValue)?;
                    if !is_number || length.is_some_and(|length| length != one) {
                        return Err(Error::HeaderValue);
                    }
                    length = Some(one);
                }
            } else if is("Transfer-Encoding") {
                coding = value.map_err(|_| Error::HeaderValue)?.rsplit(',').next();
            }
        }
        self.next = match (self.status, coding, length) {
            (SWITCHING_PROTOCOLS, ..) => Next::All,
            // Another head follows.
            (100..=199, ..) => Next::Head,
            (204 | 304, ..) | (_, None, Some(0)) => Next::Nothing,
            (_, Some(last), _) if last.trim().eq_ignore_ascii_case("chunked") => Next::Size,
            (_, None, Some(length)) => Next::Body(length),
            (_, Some(_), _) | (_, None, None) => Next::All,
        };
        Ok(())
    }

    /// What the end of the stream makes of an answer that was not whole before.
    fn cut_short(&self) -> Answer {
        matches!(self.next, Next::All).then_some(self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer after these parts, and whether there is one before the end of the stream.
    fn answer(parts: &[&[u8]]) -> (Option<Answer>, Answer) {
        let host = "192.0.2.1:80".parse().unwrap();
        let mut exchange = Exchange::begin(&Http::default(), host);
        for part in parts {
            exchange.hear(part);
        }
        let before = exchange.answer();
        exchange.hear(&[]);
        (before, exchange.answer().unwrap())
    }

    #[test]
    fn an_answer_ends_where_its_head_says() {
        let long = format!(
            "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n",
            "x".repeat(16 * 1024)
        );
        let many = format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            "X: x\r\n".repeat(MOST_HEADERS + 1)
        );
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(LONGEST_HEAD));
        let whole = |status| (Some(Some(status)), Some(status));
        let unreadable = (Some(None), None);
        let cut_short = (None, None);
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", whole(200)),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nOK",
                whole(200),
            ),
            ("HTTP/1.1 200 OK\nContent-Length: 2\n\nOK", whole(200)),
            (long.as_str(), whole(200)),
            ("HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", whole(304)),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n",
                whole(204),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nContent-Length: 1\r\n\r\n3;a=b\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
                whole(200),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: x\r\n\r\n",
                whole(200),
            ),
            // What ends with the stream.
            ("HTTP/1.1 200 OK\r\n\r\n", (None, Some(200))),
            ("HTTP/1.0 200 OK\r\n\r\nbody", (None, Some(200))),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
                (None, Some(200)),
            ),
            ("HTTP/1.1 101 x\r\n\r\nother", (None, Some(101))),
            // What is cut short.
            ("HTTP/1.1 200 OK\r\n", cut_short),
            ("HTTP/1.1 100 Continue\r\n\r\n", cut_short),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nOK", cut_short),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
                cut_short,
            ),
            // What is no HTTP.
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nOK",
                unreadable,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nOK",
                unreadable,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", unreadable),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                unreadable,
            ),
            ("HTTP/2 200\r\n\r\n", unreadable),
            (many.as_str(), unreadable),
            (endless.as_str(), unreadable),
        ] {
            let start = &text[..text.len().min(90)];
            assert_eq!(answer(&[text.as_bytes()]), expected, "{start:?}");
            if text.len() < LONGEST_HEAD {
                let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
                assert_eq!(answer(&bytes), expected, "byte by byte: {start:?}");
            }
        }
    }
}
