//! How the requests of a connection follow each other.

use crate::arm::{ClientSpec, Loop, Protocol, Requests};

/// The requests that connections carry.
#[derive(Debug, Clone, Copy)]
pub struct Series {
    /// How many of them.
    pub(super) requests: Requests,
    /// In a closed loop, when the next one may follow.
    closed: Option<ClosedLoop>,
}

/// When a worker of a closed loop goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClosedLoop {
    workers: u64,
    pace_us: u64,
    until_us: u64,
}

impl Series {
    /// The requests of an arm's clients.
    pub fn new(client: &ClientSpec, protocol: &Protocol) -> Self {
        Self {
            requests: protocol.requests,
            closed: ClosedLoop::of(client),
        }
    }

    /// When the request after one that was meant for `last_us` is meant, of a connection that is free at `now_us`;
    /// `None` when there is to be none.
    pub(super) fn next_us(&self, last_us: u64, now_us: u64) -> Option<u64> {
        match &self.closed {
            Some(closed) => closed.next_us(last_us, now_us),
            None => Some(now_us),
        }
    }
}

impl ClosedLoop {
    /// That of these settings, if they are of a closed loop.
    pub(super) fn of(client: &ClientSpec) -> Option<Self> {
        let workers = u64::from(client.connections);
        (client.pacing() == Loop::Closed).then(|| Self {
            workers,
            pace_us: client.rate.map_or(0, |rate| rate.due_us(workers)),
            until_us: client.duration.as_us(),
        })
    }

    /// When a worker, numbered from 0, begins.
    pub(super) fn first_us(&self, worker: u32) -> Option<u64> {
        self.in_time(self.pace_us * u64::from(worker) / self.workers)
    }

    /// When a worker goes on that is free at `now_us`, after what was meant for `last_us`: not before its pace allows,
    /// and what it missed is skipped.
    pub(super) fn next_us(&self, last_us: u64, now_us: u64) -> Option<u64> {
        self.in_time(now_us.max(last_us + self.pace_us))
    }

    fn in_time(&self, at_us: u64) -> Option<u64> {
        (at_us < self.until_us).then_some(at_us)
    }
}
