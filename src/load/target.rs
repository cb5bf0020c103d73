//! What the attempts of a flood have in common.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Interrupt;
use crate::arm::{Http, SpeaksFirst};
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
    /// Where the server listens.
    pub address: SocketAddr,
    /// Who speaks first.
    pub speaks_first: SpeaksFirst,
    /// What is asked where the conversation is HTTP.
    pub http: Option<Http>,
    /// The limit for connect and, separately, for the answer.
    pub timeout_us: u64,
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
    /// What the server's kernel holds of a client's connection; `None`, and noted, when it does not tell.
    pub(super) fn server_side(&self, client: SocketAddr) -> Option<ServerSide> {
        let mut diag = self.diag.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = diag.server_side(self.address, client);
        answer
            .inspect_err(|error| {
                let mut blind = self.blind.lock().unwrap_or_else(PoisonError::into_inner);
                blind.push(error.to_string());
            })
            .ok()
    }
}
