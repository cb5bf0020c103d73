//! Several acceptors on one listening socket, each with an epoll of its own, as the workers of many servers have.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::Socket;

use super::attempt::errno_of;
use super::caller;
use super::clock::{Clock, thread_cpu_since, thread_cpu_us};
use super::log::ServerLog;
use super::server::{AFTER_FAILURE_US, ServerError, wait};
use crate::arm::{Protocol, ServerSpec};

/// What the acceptors share.
pub(super) struct Acceptors<'a, Stop> {
    pub(super) socket: &'a Socket,
    pub(super) stop: &'a Stop,
    pub(super) spec: &'a ServerSpec,
    pub(super) protocol: &'a Protocol,
    pub(super) clock: Clock,
}

const STOP: u64 = 0;
const CONNECTION: u64 = 1;

impl<Stop: AsFd + Sync> Acceptors<'_, Stop> {
    /// Accepts until it is to stop, from as many threads as the settings say; their logs in one, in order of time.
    pub(super) fn run(&self) -> Result<ServerLog, ServerError> {
        let logs = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.spec.acceptors)
                .map(|worker| scope.spawn(move || self.accept(worker)))
                .collect();
            let logs = workers.into_iter().map(|worker| {
                let panicked = |_| ServerError::Thread("an acceptor panicked".into());
                worker.join().map_err(panicked)?
            });
            logs.collect::<Result<Vec<ServerLog>, ServerError>>()
        })?;
        let mut whole = ServerLog {
            cpu_us: Some(0),
            ..ServerLog::default()
        };
        for log in logs {
            whole.accepts.extend(log.accepts);
            for (errno, count) in log.failures {
                *whole.failures.entry(errno).or_default() += count;
            }
            whole.cpu_us = whole.cpu_us.zip(log.cpu_us).map(|(sum, more)| sum + more);
        }
        whole.accepts.sort_by_key(|one| one.at_us);
        Ok(whole)
    }

    /// One acceptor. With `EPOLLEXCLUSIVE` a connection wakes one of those that wait, and always the first in the row:
    /// they stand in the order in which they came (`ep_ptable_queue_proc` in `fs/eventpoll.c`), and whoever is busy is
    /// passed over. So the shares are uneven, and the less the load, the more so.
    fn accept(&self, worker: u32) -> Result<ServerLog, ServerError> {
        let before = thread_cpu_us();
        let mut log = ServerLog::default();
        let failed = |errno| ServerError::Thread(format!("epoll: {errno}"));
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        let wakes = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
        epoll
            .add(self.stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))
            .map_err(failed)?;
        epoll
            .add(self.socket, EpollEvent::new(wakes, CONNECTION))
            .map_err(failed)?;
        let mut due = self.clock.until(self.spec.accept_from.as_us());
        loop {
            let mut stop = [PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
            wait(&mut stop, Some(due))?;
            due = Duration::ZERO;
            let mut events = [EpollEvent::empty(); 2];
            let ready = match epoll.wait(&mut events, EpollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                ready => ready.map_err(failed)?,
            };
            if events[..ready].iter().any(|event| event.data() == STOP) {
                log.cpu_us = thread_cpu_since(before);
                return Ok(log);
            }
            match self
                .socket
                .accept4(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)
            {
                Ok((socket, peer)) => {
                    if let Some(n) = log.accepted(self.clock.now_us(), 0, worker, &peer) {
                        let answered =
                            caller::answer(&socket, self.spec.answer.turn(n), self.protocol, false);
                        log.accepts[n].error = answered.err().as_ref().map(errno_of);
                    }
                    due = Duration::from_micros(self.spec.accept_delay.as_us());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    *log.failures.entry(errno_of(&error)).or_default() += 1;
                    due = Duration::from_micros(AFTER_FAILURE_US);
                }
            }
        }
    }
}
