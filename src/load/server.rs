//! The slow-accept server: listens with an explicit backlog and accepts when it is told to.
//!
//! One thread waits for everything at once, so that a client that stays silent never holds up the accept loop.
//! Answering takes no time of its own: the pause after each accept is the whole service time.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use socket2::{Domain, Protocol, Socket, Type};

use super::Clock;
use super::acceptors::Acceptors;
use super::attempt::errno_of;
use super::caller::{self, Caller, Heard};
use super::clock::{thread_cpu_since, thread_cpu_us};
use super::descriptors::Scarcity;
use super::log::ServerLog;
use super::pace::Pace;
use super::unix;
use crate::arm::{Protocol as Conversation, ServerFamily, ServerSpec, WhenOut};
use crate::sys;

/// A server that could not be started or failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A listening socket could not be set up.
    #[error("server: cannot {operation} on {address}: {source}")]
    Socket {
        /// What was attempted.
        operation: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why it failed.
        source: io::Error,
    },
    /// The `AF_UNIX` socket could not be set up.
    #[error("server: cannot {operation} (AF_UNIX): {source}")]
    Local {
        /// What was attempted.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The server's thread failed.
    #[error("the server's thread failed: {0}")]
    Thread(String),
}

/// A server that listens; it accepts from [`Server::begin`] on.
pub struct Server {
    addresses: Vec<SocketAddr>,
    sockets: Arc<Vec<Socket>>,
    stop: Arc<EventFd>,
    begin: Option<mpsc::Sender<(Clock, mpsc::SyncSender<()>)>>,
    thread: Option<JoinHandle<Result<ServerLog, ServerError>>>,
}

impl Server {
    /// Binds a free port of `ip` in the calling thread's namespace, listens, and starts the server's thread.
    /// With `listen = false` the port is only bound: connecting to it is refused.
    ///
    /// # Errors
    /// A socket that could not be set up.
    pub fn open(
        ip: IpAddr,
        spec: &ServerSpec,
        protocol: &Conversation,
    ) -> Result<Self, ServerError> {
        let mut address = SocketAddr::new(ip, 0);
        let mut addresses = Vec::new();
        let mut sockets = Vec::new();
        if spec.family == Some(ServerFamily::Unix) {
            sockets.push(listening_locally(spec.backlog)?);
        }
        let of_tcp = if sockets.is_empty() {
            spec.ports * spec.reuseport
        } else {
            0
        };
        for n in 0..of_tcp {
            if n % spec.reuseport == 0 {
                address.set_port(0);
            }
            let socket = listening(address, spec)?;
            let bound = socket.local_addr().map(|bound| bound.as_socket());
            address = match bound {
                Ok(Some(bound)) => bound,
                _ => {
                    return Err(failed("learn the port", address)(
                        ErrorKind::AddrNotAvailable.into(),
                    ));
                }
            };
            addresses.push(address);
            sockets.push(socket);
        }
        addresses.dedup();
        let stop = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|errno| ServerError::Thread(format!("eventfd: {errno}")))?;
        let (sockets, stop) = (Arc::new(sockets), Arc::new(stop));
        let (begin, inbox) = mpsc::channel::<(Clock, mpsc::SyncSender<()>)>();
        let body = {
            let (sockets, stop) = (Arc::clone(&sockets), Arc::clone(&stop));
            let (spec, protocol) = (spec.clone(), protocol.clone());
            move || {
                let Ok((clock, ready)) = inbox.recv() else {
                    return Ok(ServerLog::default());
                };
                let scarcity = spec
                    .descriptors
                    .map(|spec| Scarcity::begin(spec, &sockets, &*stop));
                let scarcity = scarcity.transpose().map_err(|error| {
                    ServerError::Thread(format!("a descriptor table of its own: {error}"))
                })?;
                // `begin` waits for this; if it has gone, so will the next wait.
                let _ = ready.send(());
                if spec.acceptors > 1 {
                    return Acceptors {
                        socket: &sockets[0],
                        stop: &*stop,
                        spec: &spec,
                        protocol: &protocol,
                        clock,
                    }
                    .run();
                }
                Loop {
                    sockets: if spec.listen { &sockets } else { &[] },
                    stop: &stop,
                    pace: Pace::new(&spec),
                    spec: &spec,
                    protocol: &protocol,
                    clock,
                    open: Vec::new(),
                    scarcity,
                    log: ServerLog::default(),
                }
                .run()
            }
        };
        let thread = thread::Builder::new()
            .name("server-accept".into())
            .spawn(body)
            .map_err(|error| ServerError::Thread(error.to_string()))?;
        Ok(Self {
            addresses,
            sockets,
            stop,
            begin: Some(begin),
            thread: Some(thread),
        })
    }

    /// Where it listens; the first address, where it has several ports.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where it listens, port by port.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The kernel's cookies of its listening sockets.
    ///
    /// # Errors
    /// The error of getsockopt(2).
    pub fn cookies(&self) -> io::Result<Vec<u64>> {
        self.sockets.iter().map(Socket::cookie).collect()
    }

    /// Starts accepting by `clock`, and returns when the server's thread is at it.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn begin(&self, clock: Clock) -> Result<(), ServerError> {
        let (ready, is_ready) = mpsc::sync_channel(1);
        let ended = || ServerError::Thread("it has ended".into());
        let begin = self.begin.as_ref().ok_or_else(ended)?;
        begin.send((clock, ready)).map_err(|_| ended())?;
        is_ready.recv().map_err(|_| ended())
    }

    /// Stops accepting, without draining the queue. The listening sockets stay open as long as what is returned.
    ///
    /// # Errors
    /// The server's thread failed.
    pub fn stop(mut self) -> Result<(ServerLog, Arc<Vec<Socket>>), ServerError> {
        let log = self.end()?;
        Ok((log, Arc::clone(&self.sockets)))
    }

    /// Stops the thread and waits for it.
    fn end(&mut self) -> Result<ServerLog, ServerError> {
        let stop = self.stop.write(1);
        stop.map_err(|errno| ServerError::Thread(format!("cannot wake it: {errno}")))?;
        self.begin = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(log)) => log,
            Some(Err(_)) => Err(ServerError::Thread("it panicked".into())),
            None => Ok(ServerLog::default()),
        }
    }
}

impl Drop for Server {
    /// A server of a trial that broke off ends with it.
    fn drop(&mut self) {
        // The trial already has the reason why it broke off.
        let _ = self.end();
    }
}

fn failed(operation: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> ServerError {
    move |source| ServerError::Socket {
        operation,
        address,
        source,
    }
}

fn listening(address: SocketAddr, spec: &ServerSpec) -> Result<Socket, ServerError> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))
        .map_err(failed("open a socket", address))?;
    if spec.reuseport > 1 {
        socket
            .set_reuse_port(true)
            .map_err(failed("set SO_REUSEPORT", address))?;
    }
    if let Some(period) = spec.defer_accept {
        let seconds = u32::try_from(period.as_us() / 1_000_000).unwrap_or(u32::MAX);
        sys::defer_accept(&socket, seconds).map_err(failed("set TCP_DEFER_ACCEPT", address))?;
    }
    socket
        .bind(&address.into())
        .map_err(failed("bind", address))?;
    if spec.listen {
        socket
            .listen(spec.backlog)
            .map_err(failed("listen", address))?;
    }
    Ok(socket)
}

/// A socket of the namespace that has no port.
fn listening_locally(backlog: i32) -> Result<Socket, ServerError> {
    let failed = |operation| move |source| ServerError::Local { operation, source };
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)
        .map_err(failed("open a socket"))?;
    let name = unix::server().map_err(failed("name it"))?;
    socket.bind(&name).map_err(failed("bind it"))?;
    socket.listen(backlog).map_err(failed("listen"))?;
    Ok(socket)
}

/// The pause after an `accept()` that failed for want of descriptors or memory: the connection stays in the
/// queue, and trying again at once would only burn the processor.
pub(super) const AFTER_FAILURE_US: u64 = 10_000;
/// The pause of a loop that sleeps when it has no descriptor.
const SLEEP_US: u64 = 100_000;

/// The server's thread.
struct Loop<'a> {
    sockets: &'a [Socket],
    stop: &'a EventFd,
    spec: &'a ServerSpec,
    protocol: &'a Conversation,
    clock: Clock,
    pace: Pace,
    /// Accepted connections that still have something to say.
    open: Vec<Caller>,
    /// Where descriptors are scarce.
    scarcity: Option<Scarcity>,
    log: ServerLog,
}

impl Loop<'_> {
    fn run(mut self) -> Result<ServerLog, ServerError> {
        let before = thread_cpu_us();
        loop {
            let now_us = self.clock.now_us();
            self.close_first_if_due(now_us)?;
            if let Some(scarcity) = &mut self.scarcity {
                scarcity.free_if_due(now_us);
            }
            let due_us = self.pace.next_us(now_us);
            let accepting = due_us.is_some_and(|due| due <= now_us);
            // A listening socket that was closed would be ready for ever.
            let closed = usize::from(self.log.first_closed_us.is_some());
            let sockets = if accepting {
                &self.sockets[closed..]
            } else {
                &[]
            };
            let due_us = due_us.filter(|_| !accepting);
            let free_us = self.scarcity.as_ref().and_then(Scarcity::due_us);
            let next_us = [due_us, self.close_us(), free_us]
                .into_iter()
                .flatten()
                .min();
            let rest = next_us.map(|due| self.clock.until(due));

            let mut poll = vec![PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
            poll.extend(
                sockets
                    .iter()
                    .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)),
            );
            poll.extend(
                self.open
                    .iter()
                    .map(|one| PollFd::new(one.socket.as_fd(), PollFlags::POLLIN)),
            );
            wait(&mut poll, rest)?;
            let ready: Vec<bool> = poll.iter().map(|fd| fd.any().unwrap_or(false)).collect();
            let (stop, rest) = ready.split_at(1);
            let (listeners, connections) = rest.split_at(sockets.len());
            if stop[0] {
                self.log.cpu_us = thread_cpu_since(before);
                return Ok(self.log);
            }
            self.converse(connections);
            // Sockets that share a port take turns.
            let (count, first) = (listeners.len(), self.log.accepts.len());
            for n in (0..count).map(|n| (n + first) % count) {
                let now_us = self.clock.now_us();
                let listener = n + closed;
                let is_closed = listener == 0 && self.log.first_closed_us.is_some();
                if listeners[n] && !is_closed {
                    self.accept_what_is_due(listener, now_us)?;
                }
            }
        }
    }

    /// Accepts from a socket that is ready as long as accepting is due, without asking each time whether it is:
    /// behind the first of a burst the others stand.
    fn accept_what_is_due(&mut self, listener: usize, mut now_us: u64) -> Result<(), ServerError> {
        const AT_ONCE: usize = 32;
        for _ in 0..AT_ONCE {
            let is_due = self.pace.next_us(now_us).is_some_and(|due| due <= now_us);
            if !is_due || !self.accept(listener)? {
                break;
            }
            now_us = self.clock.now_us();
        }
        Ok(())
    }

    /// When the first listening socket is still to be closed.
    fn close_us(&self) -> Option<u64> {
        let at = self
            .spec
            .close_first_at
            .filter(|_| self.log.first_closed_us.is_none())?;
        Some(at.as_us())
    }

    /// For a listening socket, shutting down is what close(2) does, and leaves the descriptor in its place.
    fn close_first_if_due(&mut self, now_us: u64) -> Result<(), ServerError> {
        if self.close_us().is_some_and(|at_us| at_us <= now_us) {
            self.close_first()?;
        }
        Ok(())
    }

    fn close_first(&mut self) -> Result<(), ServerError> {
        if let Some(first) = self.sockets.first() {
            first.shutdown(Shutdown::Read).map_err(|error| {
                ServerError::Thread(format!("cannot close a listener: {error}"))
            })?;
            self.log.first_closed_us = Some(self.clock.now_us());
        }
        Ok(())
    }

    /// Accepts one connection; whether there was one.
    fn accept(&mut self, listener: usize) -> Result<bool, ServerError> {
        match self.sockets[listener].accept4(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
            Ok((socket, peer)) => {
                let at_us = self.clock.now_us();
                self.pace.accepted(at_us);
                if let Some(n) = self.log.accepted(at_us, listener, 0, &peer) {
                    if caller::waits(self.protocol) {
                        self.open.push(Caller::new(n, socket));
                    } else {
                        self.answer(n, &socket, false);
                    }
                }
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => {
                *self.log.failures.entry(errno_of(&error)).or_default() += 1;
                self.failed_to_accept(listener)?;
                Ok(false)
            }
        }
    }

    /// Does what the arm says about a failed `accept()`: the connection is still in the queue.
    fn failed_to_accept(&mut self, listener: usize) -> Result<(), ServerError> {
        let now_us = self.clock.now_us();
        let Some(spec) = self.spec.descriptors else {
            self.pace.not_before(now_us + AFTER_FAILURE_US);
            return Ok(());
        };
        match spec.when_out {
            WhenOut::Spin => {}
            WhenOut::Sleep => self.pace.not_before(now_us + SLEEP_US),
            WhenOut::Park => self.pace.stop(),
            WhenOut::Reserve => {
                let (sockets, log) = (self.sockets, &mut self.log);
                if let Some(scarcity) = &mut self.scarcity {
                    scarcity.with_reserve(self.stop, || {
                        if let Ok((_, peer)) = sockets[listener].accept4(libc::SOCK_CLOEXEC) {
                            log.accepted(now_us, listener, 0, &peer);
                        }
                    });
                }
            }
            WhenOut::Exit | WhenOut::CloseListener => {
                self.pace.stop();
                self.close_first()?;
                if spec.when_out == WhenOut::Exit {
                    self.open.clear();
                }
            }
        }
        Ok(())
    }

    /// Answers; whether the connection is kept.
    fn answer(&mut self, n: usize, socket: &Socket, kept: bool) -> bool {
        let reply = self.spec.answer.turn(n);
        caller::answer(socket, reply, self.protocol, kept).unwrap_or_else(|error| {
            self.log.accepts[n].error = Some(errno_of(&error));
            false
        })
    }

    /// Reads from the connections that have something to read: answers questions, closes what has ended.
    fn converse(&mut self, ready: &[bool]) {
        let mut open = std::mem::take(&mut self.open);
        let mut ready = ready.iter();
        open.retain_mut(|one| ready.next() != Some(&true) || self.goes_on(one));
        self.open = open;
    }

    /// Hears a connection that has something to read; whether it stays open.
    fn goes_on(&mut self, one: &mut Caller) -> bool {
        match one.read() {
            Heard::Nothing => return true,
            Heard::More => {}
            // Who was answered may go.
            Heard::Gone(None) if one.answers > 0 => return false,
            Heard::Gone(error) => {
                let how = error.map_or_else(|| "EOF".into(), |error| errno_of(&error));
                self.log.accepts[one.n].error = Some(how);
                return false;
            }
        }
        while one.takes_question(self.protocol) {
            one.answers += 1;
            let kept = caller::keeps(self.spec, self.protocol, one.answers);
            if !self.answer(one.n, &one.socket, kept) {
                return false;
            }
        }
        true
    }
}

/// Polls for at most `rest`, for ever without one; a signal ends it early.
pub(super) fn wait(poll: &mut [PollFd<'_>], rest: Option<Duration>) -> Result<(), ServerError> {
    let waited = sys::wait(poll, rest);
    waited
        .map(drop)
        .map_err(|errno| ServerError::Thread(format!("poll: {errno}")))
}
