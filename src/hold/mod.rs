//! A port held in a promised state: a fixture for tests of connect timeouts, dead servers and rude peers.
//!
//! ```no_run
//! use std::net::TcpStream;
//! use std::time::Duration;
//! use backlog_lab::hold::{self, Mode};
//!
//! let port = hold::local(Mode::Full)?;
//! let error = TcpStream::connect_timeout(&port.address(), Duration::from_millis(200)).unwrap_err();
//! assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
//! # Ok::<(), hold::HoldError>(())
//! ```
//!
//! It works on the host's own loopback, without privileges and without a namespace. The promise is proved with a
//! connection of the fixture's own before [`local`] returns, and checked from then on by a thread that ends with
//! the [`Held`]. Nothing outlives the process: what is held are sockets.

mod probe;
mod queue;
mod reserve;
mod serve;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use socket2::{Domain, Protocol, Socket, Type};

use crate::sys;

/// What a client of the port meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `connect()` times out. The accept queue is full, so the kernel drops every SYN (Linux 4.10 and later).
    Full,
    /// `connect()` succeeds, and nothing ever answers: the connection waits in the accept queue for ever.
    Ghost,
    /// A short HTTP answer comes this long after the connection was accepted, whatever was asked. Connections
    /// do not wait for each other.
    Slow(Duration),
    /// The connection is reset (RST) as soon as the client has sent something, or after 100 ms of silence: late
    /// enough that `connect()` has succeeded.
    Reset,
    /// The connection is closed without an answer (FIN, never RST) as soon as the client has sent something, or
    /// after 100 ms of silence. Whatever the client sends is read and dropped.
    Close,
    /// `connect()` is refused. The port is taken, so that nobody else listens on it, and has no listener.
    Refuse,
}

impl Mode {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Ghost => "ghost",
            Self::Slow(_) => "slow",
            Self::Reset => "reset",
            Self::Close => "close",
            Self::Refuse => "refuse",
        }
    }
}

impl fmt::Display for Mode {
    /// What it promises.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("connect() times out"),
            Self::Ghost => f.write_str("connect() succeeds and nothing ever answers"),
            Self::Slow(delay) => write!(f, "an answer comes after {delay:?}"),
            Self::Reset => f.write_str("the connection is reset after it was established"),
            Self::Close => f.write_str("the connection is closed without an answer"),
            Self::Refuse => f.write_str("connect() is refused"),
        }
    }
}

/// A port that could not be held.
#[derive(Debug)]
pub enum HoldError {
    /// A socket could not be set up.
    Socket {
        /// What was attempted.
        operation: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why it failed.
        source: io::Error,
    },
    /// The promise could not be proved.
    Unproved {
        /// The mode.
        mode: Mode,
        /// The address.
        address: SocketAddr,
        /// What was met instead.
        problem: String,
    },
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket {
                address, source, ..
            } if source.raw_os_error() == Some(libc::EADDRINUSE) => write!(
                f,
                "cannot hold {address}: the port is taken by another socket; give another port, or 0 for a free one"
            ),
            Self::Socket {
                address, source, ..
            } if source.raw_os_error() == Some(libc::EADDRNOTAVAIL) => write!(
                f,
                "cannot hold {address}: this machine does not have that address; give one of its own"
            ),
            Self::Socket {
                operation,
                address,
                source,
            } => write!(f, "cannot hold {address}: cannot {operation}: {source}"),
            Self::Unproved {
                mode,
                address,
                problem,
            } => write!(
                f,
                "cannot hold {address}: it was to be so that {mode}, but {problem}"
            ),
        }
    }
}

impl std::error::Error for HoldError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { source, .. } => Some(source),
            Self::Unproved { .. } => None,
        }
    }
}

/// A held port. Dropping it ends the hold.
#[derive(Debug)]
pub struct Held {
    mode: Mode,
    address: SocketAddr,
    stop: Arc<EventFd>,
    news: Mutex<mpsc::Receiver<News>>,
    thread: Option<JoinHandle<()>>,
}

/// What the keeper's thread has to tell.
#[derive(Debug)]
enum News {
    Proved,
    Broke(String),
}

/// How long the proof may take; it takes a few milliseconds.
const PROOF_WITHIN: Duration = Duration::from_secs(5);

/// Holds a free port of 127.0.0.1.
///
/// # Errors
/// See [`at`].
pub fn local(mode: Mode) -> Result<Held, HoldError> {
    at(mode, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

/// Holds a port of an address of this machine, IPv4 or IPv6; port 0 picks a free one. Returns when the promise has
/// been proved.
///
/// # Errors
/// The port is taken, the address is not this machine's, or the promise could not be proved.
pub fn at(mode: Mode, address: SocketAddr) -> Result<Held, HoldError> {
    let socket = bound(mode, address)?;
    let failed = |operation| {
        move |source| HoldError::Socket {
            operation,
            address,
            source,
        }
    };
    let bound = socket.local_addr().map_err(failed("learn the port"))?;
    let address = bound
        .as_socket()
        .ok_or_else(|| failed("learn the port")(io::ErrorKind::AddrNotAvailable.into()))?;
    let target = connectable(address);

    let keeper: Box<dyn Keeper> = match mode {
        Mode::Full => Box::new(queue::Full::new(socket, target)),
        Mode::Ghost => Box::new(queue::Ghost::new(socket, target)),
        Mode::Slow(delay) => Box::new(serve::Serve::new(
            socket,
            target,
            serve::Manner::Answer(delay),
        )),
        Mode::Reset => Box::new(serve::Serve::new(socket, target, serve::Manner::Reset)),
        Mode::Close => Box::new(serve::Serve::new(socket, target, serve::Manner::Close)),
        Mode::Refuse => Box::new(reserve::Reserve::new(socket, target)),
    };
    let stop = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
        .map_err(|errno| failed("make an eventfd")(errno.into()))?;
    let stop = Arc::new(stop);
    let (tell, news) = mpsc::channel();
    let stopped = Arc::clone(&stop);
    let thread = thread::Builder::new()
        .name(format!("hold-{}", mode.name()))
        .spawn(move || keep(keeper, &stopped, &tell))
        .map_err(failed("start a thread"))?;
    let held = Held {
        mode,
        address,
        stop,
        news: Mutex::new(news),
        thread: Some(thread),
    };
    let problem = match held.next(PROOF_WITHIN) {
        Some(News::Proved) => return Ok(held),
        Some(News::Broke(problem)) => problem,
        None => format!("that did not show within {} s", PROOF_WITHIN.as_secs()),
    };
    Err(HoldError::Unproved {
        mode,
        address,
        problem,
    })
}

impl Held {
    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        connectable(self.address)
    }

    /// Waits, for `within` at most, until the promise breaks, and tells how; `None` while it is kept. A slot that
    /// a full queue lost has been filled again by then.
    pub fn broke(&self, within: Duration) -> Option<String> {
        match self.next(within) {
            Some(News::Broke(problem)) => Some(problem),
            Some(News::Proved) | None => None,
        }
    }

    fn next(&self, within: Duration) -> Option<News> {
        // A thread that panicked while it waited has left nothing half done.
        let news = self
            .news
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match news.recv_timeout(within) {
            Ok(news) => Some(news),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(News::Broke(
                "the thread that holds the port has ended".into(),
            )),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Fails only when the counter is full, and then the thread is awake already.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps a promise.
trait Keeper: Send {
    /// Waits and works until there is something to tell, or until `stop` is readable.
    fn turn(&mut self, stop: BorrowedFd<'_>) -> io::Result<Turn>;
}

/// What a turn ended with.
enum Turn {
    Stop,
    Proved,
    Broke(String),
}

fn keep(mut keeper: Box<dyn Keeper>, stop: &EventFd, tell: &mpsc::Sender<News>) {
    loop {
        let news = match keeper.turn(stop.as_fd()) {
            Ok(Turn::Stop) => return,
            Ok(Turn::Proved) => News::Proved,
            Ok(Turn::Broke(problem)) => News::Broke(problem),
            Err(error) => {
                // Nobody listens any more only when the hold is over.
                let _ = tell.send(News::Broke(format!(
                    "the port can be held no longer: {error}"
                )));
                return;
            }
        };
        let _ = tell.send(news);
    }
}

/// A socket that is bound, and listens unless the mode forbids it.
fn bound(mode: Mode, address: SocketAddr) -> Result<Socket, HoldError> {
    let failed = |operation| {
        move |source| HoldError::Socket {
            operation,
            address,
            source,
        }
    };
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))
        .map_err(failed("open a socket"))?;
    let backlog = match mode {
        // The smallest queue: it holds one connection.
        Mode::Full => 0,
        Mode::Ghost | Mode::Slow(_) | Mode::Reset | Mode::Close => i32::MAX,
        Mode::Refuse => {
            reserve::bind(&socket, address).map_err(failed("bind"))?;
            return Ok(socket);
        }
    };
    // A port may be taken again at once.
    socket
        .set_reuse_address(true)
        .map_err(failed("set SO_REUSEADDR"))?;
    socket.bind(&address.into()).map_err(failed("bind"))?;
    socket.listen(backlog).map_err(failed("listen"))?;
    Ok(socket)
}

/// The wildcard address is listened on; clients connect to the loopback.
fn connectable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Waits until one of `poll` is ready or `until` has come. The first is the stop signal: true when it was given.
fn wait(poll: &mut [PollFd<'_>], until: Instant) -> io::Result<bool> {
    let rest = until.saturating_duration_since(Instant::now());
    let is_ready = sys::wait(poll, Some(rest))?;
    Ok(is_ready && poll.first().is_some_and(|stop| stop.any() == Some(true)))
}

fn readable(socket: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::new(socket, PollFlags::POLLIN)
}
