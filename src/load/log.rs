//! What a server saw.

use std::collections::BTreeMap;

use socket2::SockAddr;

use super::unix;
use crate::observation::{Accept, Peer};

/// What the server saw.
#[derive(Debug, Default)]
pub struct ServerLog {
    /// Every accepted connection, in order.
    pub accepts: Vec<Accept>,
    /// `accept()` calls that failed, by errno.
    pub failures: BTreeMap<String, u64>,
    /// When the first of the listening sockets was closed.
    pub first_closed_us: Option<u64>,
    /// The thread's processor time.
    pub cpu_us: Option<u64>,
}

impl ServerLog {
    /// Notes an accepted connection; its place in the log.
    pub(super) fn accepted(
        &mut self,
        at_us: u64,
        listener: usize,
        acceptor: u32,
        peer: &SockAddr,
    ) -> Option<usize> {
        let inet = peer.as_socket().map(Peer::Inet);
        let unix = || {
            Some(Peer::Unix {
                client: unix::number(peer)?,
            })
        };
        let peer = inet.or_else(unix)?;
        self.accepts.push(Accept {
            at_us,
            listener,
            acceptor,
            peer,
            error: None,
        });
        Some(self.accepts.len() - 1)
    }
}
