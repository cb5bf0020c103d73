//! What the attempts of a flood have in common.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Interrupt, Series};
use crate::arm::{Bind, Http, Sources, SpeaksFirst};
use crate::observation::{Attempt, Ended, ServerSide};
use crate::probe::diag::Diag;

/// Live counts of a trial, for whoever watches it.
#[derive(Debug, Default)]
pub struct Progress {
    connected: AtomicU32,
    answered: AtomicU32,
    ended: AtomicU32,
}

impl Progress {
    pub(super) fn connected(&self) {
        self.connected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, attempt: &Attempt) {
        if matches!(attempt.ended, Ended::Answered | Ended::Held) {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections, answers and ends so far.
    pub fn counts(&self) -> [u32; 3] {
        [&self.connected, &self.answered, &self.ended].map(|count| count.load(Ordering::Relaxed))
    }
}

/// What the attempts have in common.
pub struct Target {
    /// Where the server listens; attempts go there in turn. None: on an `AF_UNIX` socket of the namespace.
    pub addresses: Vec<SocketAddr>,
    /// Where they come from.
    pub sources: Option<Sources>,
    /// How they come by their ports.
    pub bind: Bind,
    /// Who speaks first.
    pub speaks_first: SpeaksFirst,
    /// What is asked where the conversation is HTTP.
    pub http: Option<Http>,
    /// The requests that follow each other on a connection.
    pub series: Series,
    /// The limit for connect and, separately, for the answer.
    pub timeout_us: u64,
    /// How long an answered connection is kept open.
    pub hold_us: u64,
    /// Looks at the server's side; opened in the server's namespace.
    pub diag: Mutex<Diag>,
    /// Looks at the server's side that failed.
    pub blind: Mutex<Vec<String>>,
    /// Live counts.
    pub progress: Arc<Progress>,
    /// Ends the attempts before their time.
    pub interrupt: Interrupt,
}

impl Target {
    /// Where the `n`-th attempt goes.
    pub(super) fn destination(&self, n: u32) -> Option<SocketAddr> {
        let turn = (n as usize).checked_rem(self.addresses.len())?;
        self.addresses.get(turn).copied()
    }

    /// What the `n`-th attempt asks, and whom, where the conversation is HTTP.
    pub(super) fn http(&self, n: u32) -> Option<(&Http, SocketAddr)> {
        self.http.as_ref().zip(self.destination(n))
    }

    /// Where the `n`-th attempt comes from: the next address when every destination has had its turn.
    pub(super) fn source(&self, n: u32) -> Option<IpAddr> {
        let turn = n as usize / self.addresses.len().max(1);
        let turn = u32::try_from(turn).unwrap_or(u32::MAX);
        self.sources.map(|sources| sources.turn(turn))
    }

    /// What the server's kernel holds of a client's connection; `None`, and noted, when it does not tell. A connection
    /// to an `AF_UNIX` socket is in its queue from `connect()` on (`unix_stream_connect` in `net/unix/af_unix.c`).
    pub(super) fn server_side(&self, n: u32, client: Option<SocketAddr>) -> Option<ServerSide> {
        let Some(server) = self.destination(n) else {
            return Some(ServerSide::Established);
        };
        let client = client?;
        let mut diag = self.diag.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = diag.server_side(server, client);
        answer
            .inspect_err(|error| {
                let mut blind = self.blind.lock().unwrap_or_else(PoisonError::into_inner);
                blind.push(error.to_string());
            })
            .ok()
    }
}
