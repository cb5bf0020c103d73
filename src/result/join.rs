//! The join of the client's records with the server's log: who was accepted, when, and who never was.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::observation::{Attempt, Ended, Measured, Peer, ServerSide};

/// A connection that the client held as established and the server never accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ghost {
    /// It was in the accept queue.
    Waiting,
    /// The server held a half-open request.
    HalfOpen,
    /// The server held nothing.
    Lost,
    /// What the server held could not be read.
    Unknown,
}

/// What the server's side knows of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fate {
    /// When `accept()` returned its connection.
    pub accepted_us: Option<u64>,
    /// What it was if it never did.
    pub ghost: Option<Ghost>,
}

/// The fate of every attempt, in their order, and how many accepted connections belong to none of them.
///
/// Ports are used again: among several attempts with the accepted port, the earliest that fits in time is meant,
/// since the accept queue is served in order of arrival.
pub fn join(measured: &Measured) -> (Vec<Fate>, u32) {
    let mut fates = vec![Fate::default(); measured.attempts.len()];
    let mut by_port: HashMap<u16, Vec<usize>> = HashMap::new();
    for (n, attempt) in measured.attempts.iter().enumerate() {
        if let Some(port) = attempt.local_port {
            by_port.entry(port).or_default().push(n);
        }
    }
    for attempts in by_port.values_mut() {
        attempts.sort_by_key(|&n| measured.attempts[n].started_us);
    }
    let mut unknown = 0;
    for accept in &measured.accepts {
        let listener = measured.listeners.get(accept.listener);
        let server_port = listener.map(|one| one.address.port());
        let fitting = || {
            let by_port = |address: SocketAddr| by_port.get(&address.port());
            let (same_port, named) = match accept.peer {
                Peer::Inet(address) => (by_port(address), None),
                Peer::Unix { client } => {
                    let position = measured.attempts.binary_search_by_key(&client, |one| one.n);
                    (None, position.ok())
                }
            };
            let same_port = same_port.into_iter().flatten().copied();
            same_port.chain(named).filter(|&n| {
                let attempt = &measured.attempts[n];
                let gone = matches!(
                    attempt.server_side,
                    Some(ServerSide::HalfOpen | ServerSide::Nothing)
                ) && attempt.ended_us < accept.at_us;
                fates[n].accepted_us.is_none()
                    && attempt.meets(accept.peer, server_port)
                    && attempt.started_us <= accept.at_us
                    && !gone
            })
        };
        // A client that never saw its handshake finish can be accepted, but only where no other fits.
        let connected = |&n: &usize| measured.attempts[n].connected_us.is_some();
        match fitting().find(connected).or_else(|| fitting().next()) {
            Some(n) => fates[n].accepted_us = Some(accept.at_us),
            None => unknown += 1,
        }
    }
    for (fate, attempt) in fates.iter_mut().zip(&measured.attempts) {
        if fate.accepted_us.is_none() {
            fate.ghost = ghost(attempt, measured);
        }
    }
    (fates, unknown)
}

/// What a connected client was that ended by its own clock and was never accepted.
fn ghost(attempt: &Attempt, measured: &Measured) -> Option<Ghost> {
    if attempt.connected_us.is_none() || !matches!(attempt.ended, Ended::TimeUp | Ended::Held) {
        return None;
    }
    let at_the_end = || {
        let pending = measured
            .pending
            .iter()
            .flatten()
            .find(|pending| attempt.meets(Peer::Inet(pending.peer), pending.server_port))?;
        Some(pending.state)
    };
    // Nobody logs what a program accepts; but what has left the queue has left it by accept().
    let is_drained = || measured.listeners.iter().all(|one| one.after.recv_q == 0);
    Some(match attempt.server_side.or_else(at_the_end) {
        Some(ServerSide::Accepted) => return None,
        Some(ServerSide::Established) if measured.program.is_some() && is_drained() => return None,
        Some(ServerSide::Established) => Ghost::Waiting,
        Some(ServerSide::HalfOpen) => Ghost::HalfOpen,
        Some(ServerSide::Nothing) => Ghost::Lost,
        None => Ghost::Unknown,
    })
}
