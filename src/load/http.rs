//! HTTP requests and their answers on one connection, through hyper, without a socket: bytes in, bytes out.
//!
//! The attempt opens the connection, times it and owns its socket, so connect and answer stay apart and every error
//! keeps its errno. hyper writes the request and reads the answer; whoever polls the socket drives it.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use hyper::body::Body;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Response};

use crate::arm::Http;

/// A connection, and a request on its way to its answer.
pub(super) struct Exchange {
    pipe: Pipe,
    /// Who takes the next request; `None` when hyper would have none of it.
    sender: Option<SendRequest<String>>,
    /// `None` when it has ended: it can carry no more.
    connection: Option<Box<Connection<Pipe, String>>>,
    /// Whether bytes came that no request had asked for.
    spoiled: bool,
    /// The way to the answer; `None` when hyper took no request.
    going: Option<Pin<Box<dyn Future<Output = Answer> + Send>>>,
    woken: Arc<Woken>,
    answer: Option<Answer>,
}

/// The status of a whole answer; `None` for one that is no HTTP, or was cut short.
type Answer = Option<u16>;

impl Exchange {
    /// The request for `http` at `host`; its bytes are there at once.
    pub(super) fn begin(http: &Http, host: SocketAddr) -> Self {
        let pipe = Pipe::default();
        let woken: Arc<Woken> = Arc::default();
        let waker = Waker::from(Arc::clone(&woken));
        // Nothing is said before the first request: it is done at once.
        let handshake = pin!(http1::handshake(pipe.clone()));
        let (sender, connection) = match handshake.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok((sender, connection))) => (Some(sender), Some(Box::new(connection))),
            _ => (None, None),
        };
        let mut exchange = Self {
            pipe,
            sender,
            connection,
            spoiled: false,
            going: None,
            woken,
            answer: None,
        };
        exchange.ask(http, host);
        exchange
    }

    /// A further request on the same connection, where it is [open](Self::is_open).
    pub(super) fn ask(&mut self, http: &Http, host: SocketAddr) {
        self.pipe.lock().to_send.clear();
        self.answer = None;
        let request = self.sender.as_mut().zip(request(http, host).ok());
        self.going = request.map(|(sender, request)| {
            let answer = sender.send_request(request);
            Box::pin(async move { whole(answer.await.ok()?).await }) as _
        });
        self.go_on();
    }

    /// What is to be sent.
    pub(super) fn to_send(&self) -> Vec<u8> {
        self.pipe.lock().to_send.clone()
    }

    /// Takes in what was received; nothing means the end of the stream.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        {
            let mut pipe = self.pipe.lock();
            pipe.received.extend(bytes);
            pipe.is_over |= bytes.is_empty();
        }
        self.go_on();
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
        self.connection.is_some() && self.sender.as_ref().is_some_and(SendRequest::is_ready)
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        let going = self.going.as_mut();
        going.map_or(Poll::Ready(None), |going| going.as_mut().poll(context))
    }

    /// Polls as long as one part of hyper wakes another.
    fn go_on(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut context = Context::from_waker(&waker);
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            if let Some(connection) = &mut self.connection
                && let Poll::Ready(end) = Pin::new(connection).poll(&mut context)
            {
                self.connection = None;
                self.spoiled = end.is_err();
            }
            // What ends the connection also ends the answer, whole or not.
            let mut is_new = false;
            if self.answer.is_none()
                && let Poll::Ready(answer) = self.poll_answer(&mut context)
            {
                self.answer = Some(answer);
                is_new = true;
            }
            if !is_new && !self.woken.0.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Remembers that something can go on.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn request(http: &Http, host: SocketAddr) -> hyper::http::Result<Request<String>> {
    let close = if http.keep_alive {
        "keep-alive"
    } else {
        "close"
    };
    Request::get(http.path.as_str())
        .header(HOST, host.to_string())
        .header(
            USER_AGENT,
            concat!("backlog-lab/", env!("CARGO_PKG_VERSION")),
        )
        .header(CONNECTION, close)
        .body(String::new())
}

/// Reads an answer to its end.
async fn whole(mut answer: Response<hyper::body::Incoming>) -> Answer {
    while let Some(frame) = poll_fn(|context| Pin::new(answer.body_mut()).poll_frame(context)).await
    {
        frame.ok()?;
    }
    Some(answer.status().as_u16())
}

/// What hyper takes for a connection: bytes that were received, and bytes to send.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Bytes>>);

#[derive(Default)]
struct Bytes {
    received: VecDeque<u8>,
    is_over: bool,
    to_send: Vec<u8>,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = self.lock();
        if bytes.received.is_empty() {
            // Whoever brings more polls again.
            return if bytes.is_over {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        }
        let (front, _) = bytes.received.as_slices();
        let length = front.len().min(buffer.remaining());
        buffer.put_slice(&front[..length]);
        bytes.received.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl Write for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.lock().to_send.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
