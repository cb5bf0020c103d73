//! Why an attempt was not answered: one cause for each, from what is known of that attempt.
//!
//! On a wire the packets tell. Elsewhere the client's record, the server's log and what the server's kernel held
//! are joined; where they leave two answers, the trial's counters decide, and the cause says so.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::deltas::rx_dropped;
use super::join::{Fate, Ghost};
use super::packets::{Handshake, Handshakes};
use super::{Outcome, outcome};
use crate::observation::{Attempt, Listener, Measured, ServerSide, Stage};

/// Why an attempt was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The accept queue was full when its SYNs arrived.
    SynDroppedAcceptQueueFull,
    /// The SYN queue was full when its SYNs arrived.
    SynDroppedSynQueueFull,
    /// The queue of an `AF_UNIX` socket was full: `connect()` does not wait, EAGAIN.
    UnixQueueFull,
    /// The ACK that carried a SYN cookie met a full accept queue; nobody repeats it.
    CookieAckDropped,
    /// The ACK that ends the handshake was dropped; the server holds a half-open request.
    FinalAckDropped,
    /// The ACK that ends the handshake met a full accept queue, and `tcp_abort_on_overflow` answered it.
    ResetByAbortOnOverflow,
    /// It was in the accept queue until its time was up.
    WaitedInAcceptQueue,
    /// The listening socket was closed while it was in the queue.
    ListenerClosed,
    /// Nobody listened.
    NoListener,
    /// The server accepted it and did not answer in time.
    NotAnswered,
    /// The server closed the connection without an answer.
    ServerClosedEarly,
    /// The server sent another answer.
    WrongAnswer,
    /// The wire, or a queue of the kernel before TCP, lost its packets.
    LostOnTheWire,
    /// The client's machine has no such source address.
    SourceNotLocal,
    /// The client had no port left.
    ClientOutOfPorts,
    /// The client had no file descriptor left.
    ClientOutOfDescriptors,
    /// Nothing that was recorded explains it.
    Unexplained,
}

impl Cause {
    /// Every cause, in the order of a connection's life.
    pub const ALL: [Self; 17] = [
        Self::SynDroppedAcceptQueueFull,
        Self::SynDroppedSynQueueFull,
        Self::UnixQueueFull,
        Self::CookieAckDropped,
        Self::FinalAckDropped,
        Self::ResetByAbortOnOverflow,
        Self::WaitedInAcceptQueue,
        Self::ListenerClosed,
        Self::NoListener,
        Self::NotAnswered,
        Self::ServerClosedEarly,
        Self::WrongAnswer,
        Self::LostOnTheWire,
        Self::SourceNotLocal,
        Self::ClientOutOfPorts,
        Self::ClientOutOfDescriptors,
        Self::Unexplained,
    ];

    /// Its texts: the name, the label, and what its clients did.
    const fn texts(self) -> [&'static str; 3] {
        match self {
            Self::SynDroppedAcceptQueueFull => [
                "syn-dropped-accept-queue-full",
                "SYN at a full accept queue",
                "met a full accept queue with their SYNs",
            ],
            Self::SynDroppedSynQueueFull => [
                "syn-dropped-syn-queue-full",
                "SYN at a full SYN queue",
                "met a full SYN queue with their SYNs",
            ],
            Self::UnixQueueFull => [
                "unix-queue-full",
                "AF_UNIX queue full",
                "met a full AF_UNIX queue, which answers at once with EAGAIN",
            ],
            Self::CookieAckDropped => [
                "cookie-ack-dropped",
                "ghost by cookie",
                "lost the ACK with their SYN cookie at a full accept queue",
            ],
            Self::FinalAckDropped => [
                "final-ack-dropped",
                "ghost by dropped ACK",
                "lost their final ACK at the listener",
            ],
            Self::ResetByAbortOnOverflow => [
                "reset-by-abort-on-overflow",
                "reset by abort_on_overflow",
                "were reset by tcp_abort_on_overflow",
            ],
            Self::WaitedInAcceptQueue => [
                "waited-in-accept-queue",
                "waited in the accept queue",
                "waited in the accept queue until their time was up",
            ],
            Self::ListenerClosed => [
                "listener-closed",
                "listener closed",
                "were in the queue of a listener that was closed",
            ],
            Self::NoListener => ["no-listener", "no listener", "met no listener"],
            Self::NotAnswered => [
                "not-answered",
                "accepted and not answered",
                "were accepted and not answered in time",
            ],
            Self::ServerClosedEarly => [
                "server-closed-early",
                "closed by the server",
                "were closed by the server without an answer",
            ],
            Self::WrongAnswer => ["wrong-answer", "wrong answer", "got another answer"],
            Self::LostOnTheWire => [
                "lost-on-the-wire",
                "lost on the wire",
                "lost their packets on the wire",
            ],
            Self::SourceNotLocal => [
                "source-not-local",
                "source address not local",
                "had a source address that is not local",
            ],
            Self::ClientOutOfPorts => [
                "client-out-of-ports",
                "client out of ports",
                "had no port left",
            ],
            Self::ClientOutOfDescriptors => [
                "client-out-of-descriptors",
                "client out of descriptors",
                "had no file descriptor left",
            ],
            Self::Unexplained => ["unexplained", "unexplained", "are unexplained"],
        }
    }

    /// Its name in results and figures, `cookie-ack-dropped`.
    pub const fn name(self) -> &'static str {
        self.texts()[0]
    }

    /// Its label in charts, conclusions and ladders, `ghost by cookie`.
    pub const fn label(self) -> &'static str {
        self.texts()[1]
    }

    /// What its clients did, `lost the ACK with their SYN cookie at a full accept queue`.
    pub const fn told(self) -> &'static str {
        self.texts()[2]
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a cause was found from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Its own packets.
    Packets,
    /// Its own record, joined with what the server's side recorded of it.
    Join,
    /// Counters of the whole trial.
    Totals,
}

/// A cause and what it was found from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explained {
    /// The cause.
    pub cause: Cause,
    /// What it was found from.
    pub evidence: Evidence,
}

/// The cause of every attempt that is not ok, in the order of the attempts.
pub fn explain(measured: &Measured, fates: &[Fate]) -> Vec<Option<Explained>> {
    let trial = Trial::of(measured);
    let handshakes = measured
        .wire
        .as_ref()
        .map(|wire| Handshakes::of(measured, wire));
    measured
        .attempts
        .iter()
        .zip(fates)
        .enumerate()
        .map(|(n, (attempt, fate))| {
            let handshake = handshakes.as_ref().map(|all| all.get(n));
            trial.explain(attempt, *fate, handshake)
        })
        .collect()
}

/// What the trial as a whole knows.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of a trial, each by itself"
)]
struct Trial<'a> {
    listeners: &'a [Listener],
    aborts: bool,
    uses_cookies: bool,
    overflows: u64,
    syn_queue_drops: u64,
    lost_before_tcp: u64,
    cookies_sent: u64,
    embryonic_resets: u64,
    listener_closed: bool,
    is_program: bool,
}

impl<'a> Trial<'a> {
    fn of(measured: &'a Measured) -> Self {
        let counters = &measured.server.counters;
        let growth = |name: &str| {
            let value = |counters: &Option<crate::observation::Counters>| {
                counters.as_ref()?.get(name).copied().flatten()
            };
            let growth = value(&counters.before).zip(value(&counters.after));
            growth.map_or(0, |(before, after)| {
                u64::try_from(after - before).unwrap_or(0)
            })
        };
        let sysctl = |name: &str| measured.server.sysctls.get(name).and_then(Option::as_deref);
        let (overflows, drops) = (
            growth("TcpExt.ListenOverflows"),
            growth("TcpExt.ListenDrops"),
        );
        let uses_cookies = sysctl("net.ipv4.tcp_syncookies").is_some_and(|value| value != "0");
        // Without cookies, what a listener drops and is no overflow is a SYN that found the SYN queue full, or
        // three quarters of tcp_max_syn_backlog in use (`tcp_conn_request` in net/ipv4/tcp_input.c).
        let syn_queue_drops = if uses_cookies {
            growth("TcpExt.TCPReqQFullDrop")
        } else {
            drops.saturating_sub(overflows)
        };
        let client = measured.client.as_ref().unwrap_or(&measured.server);
        let rx = [&measured.server, client].map(rx_dropped);
        Self {
            listeners: &measured.listeners,
            aborts: sysctl("net.ipv4.tcp_abort_on_overflow").is_some_and(|value| value != "0"),
            uses_cookies,
            overflows,
            syn_queue_drops,
            lost_before_tcp: rx.into_iter().flatten().max().unwrap_or(0),
            cookies_sent: growth("TcpExt.SyncookiesSent"),
            embryonic_resets: growth("TcpExt.EmbryonicRsts"),
            listener_closed: measured.listeners.iter().any(|one| one.closed_us.is_some()),
            is_program: measured.program.is_some(),
        }
    }

    fn explain(
        &self,
        attempt: &Attempt,
        fate: Fate,
        handshake: Option<&Handshake>,
    ) -> Option<Explained> {
        let join = |cause| Explained {
            cause,
            evidence: Evidence::Join,
        };
        Some(match outcome(attempt) {
            Outcome::Ok => return None,
            Outcome::Refused => join(Cause::NoListener),
            Outcome::ClosedEarly => join(Cause::ServerClosedEarly),
            Outcome::WrongData => join(Cause::WrongAnswer),
            Outcome::LocalLimit => join(local_limit(attempt)),
            Outcome::Reset => self.reset(fate, handshake),
            Outcome::ConnectTimeout => match handshake {
                Some(handshake) => self.unconnected_on_a_wire(attempt, handshake),
                None => self.unconnected(attempt),
            },
            // Its server has it, and has answered before.
            Outcome::ReadTimeout if attempt.was_answered() => join(Cause::NotAnswered),
            Outcome::ReadTimeout if self.is_program => match attempt.server_side {
                Some(ServerSide::Accepted) => join(Cause::NotAnswered),
                Some(ServerSide::Established) => join(Cause::WaitedInAcceptQueue),
                _ => self.unanswered(fate, handshake),
            },
            Outcome::ReadTimeout => self.unanswered(fate, handshake),
            // TCP never answers so: it has handshakes to wait for.
            Outcome::Other if attempt.errno.as_deref() == Some("EAGAIN") => {
                join(Cause::UnixQueueFull)
            }
            Outcome::Other => join(Cause::Unexplained),
        })
    }

    fn reset(&self, fate: Fate, handshake: Option<&Handshake>) -> Explained {
        let (cause, evidence) = if fate.accepted_us.is_some() {
            (Cause::ServerClosedEarly, Evidence::Join)
        } else if self.aborts && self.embryonic_resets > 0 {
            // The RST answers the ACK at once; that of a closing listener comes whenever it is closed.
            match handshake {
                Some(handshake) if handshake.reset_answers_ack => {
                    (Cause::ResetByAbortOnOverflow, Evidence::Packets)
                }
                Some(_) if self.listener_closed => (Cause::ListenerClosed, Evidence::Packets),
                Some(_) => (Cause::Unexplained, Evidence::Packets),
                None => (Cause::ResetByAbortOnOverflow, Evidence::Join),
            }
        } else if self.listener_closed {
            (Cause::ListenerClosed, Evidence::Join)
        } else if self.is_program {
            // The kernel has no other reason to reset: the program closed it with something unread.
            (Cause::ServerClosedEarly, Evidence::Join)
        } else {
            (Cause::Unexplained, Evidence::Join)
        };
        Explained { cause, evidence }
    }

    /// No SYN+ACK came in time: where did the SYNs go?
    fn unconnected_on_a_wire(&self, attempt: &Attempt, handshake: &Handshake) -> Explained {
        let evidence = Evidence::Packets;
        let cause = if handshake.syns_dropped == 0 {
            if handshake.lost > 0 {
                Cause::LostOnTheWire
            } else {
                Cause::Unexplained
            }
        } else if self.syn_queue_drops == 0 {
            Cause::SynDroppedAcceptQueueFull
        } else if self.overflows == 0 {
            Cause::SynDroppedSynQueueFull
        } else if !self.uses_cookies && handshake.met_full_syn_queue {
            // The SYN queue is looked at first.
            Cause::SynDroppedSynQueueFull
        } else if self.was_full(
            attempt,
            handshake.first_syn_us.unwrap_or(attempt.started_us),
        ) {
            Cause::SynDroppedAcceptQueueFull
        } else {
            return self.unconnected(attempt);
        };
        Explained { cause, evidence }
    }

    /// The same without packets: a look at the queue when the SYN was sent, else the counters.
    fn unconnected(&self, attempt: &Attempt) -> Explained {
        let totals = |cause| Explained {
            cause,
            evidence: Evidence::Totals,
        };
        match (
            self.overflows > 0,
            self.syn_queue_drops > 0,
            self.lost_before_tcp > 0,
        ) {
            (true, _, _) if self.was_full(attempt, attempt.started_us) => Explained {
                cause: Cause::SynDroppedAcceptQueueFull,
                evidence: Evidence::Join,
            },
            (true, false, _) => totals(Cause::SynDroppedAcceptQueueFull),
            (_, true, _) => totals(Cause::SynDroppedSynQueueFull),
            (false, false, true) => totals(Cause::LostOnTheWire),
            (false, false, false) => totals(Cause::Unexplained),
        }
    }

    /// Connected, and no answer came in time.
    fn unanswered(&self, fate: Fate, handshake: Option<&Handshake>) -> Explained {
        if let Some(handshake) = handshake
            && (handshake.acks_delivered == 0 || handshake.lost_data)
        {
            return Explained {
                cause: if handshake.lost > 0 {
                    Cause::LostOnTheWire
                } else {
                    Cause::Unexplained
                },
                evidence: Evidence::Packets,
            };
        }
        let cause = match fate.ghost {
            _ if fate.accepted_us.is_some() => Cause::WaitedInAcceptQueue,
            Some(Ghost::Waiting) => Cause::WaitedInAcceptQueue,
            Some(Ghost::HalfOpen) => Cause::FinalAckDropped,
            Some(Ghost::Lost | Ghost::Unknown) if self.cookies_sent > 0 => Cause::CookieAckDropped,
            Some(Ghost::Lost | Ghost::Unknown) if self.overflows > 0 => Cause::FinalAckDropped,
            Some(Ghost::Lost | Ghost::Unknown) | None => Cause::Unexplained,
        };
        let evidence = match (fate.ghost, handshake) {
            (Some(Ghost::Unknown), _) => Evidence::Totals,
            (Some(_), Some(_)) => Evidence::Packets,
            _ => Evidence::Join,
        };
        Explained { cause, evidence }
    }

    /// Whether the accept queue was seen full around this time.
    fn was_full(&self, attempt: &Attempt, at_us: u64) -> bool {
        let is_meant = |one: &&Listener| {
            let port = attempt.server_port;
            port.is_none_or(|port| port == one.address.port())
        };
        let Some(listener) = self.listeners.iter().find(is_meant) else {
            return false;
        };
        let samples = &listener.samples;
        let after = samples
            .at_us
            .partition_point(|sampled_us| *sampled_us < at_us);
        // The look before and the look after, if they are near.
        let near = |n: &usize| {
            let sampled_us = samples.at_us.get(*n).copied();
            sampled_us.is_some_and(|sampled_us| {
                sampled_us.abs_diff(at_us) <= samples.period_us.saturating_mul(2)
            })
        };
        [after.checked_sub(1), Some(after)]
            .into_iter()
            .flatten()
            .filter(near)
            .filter_map(|n| samples.recv_q.get(n))
            .any(|recv_q| *recv_q > listener.before.send_q)
    }
}

/// A bind that is told which address to take and not which port fails with EADDRNOTAVAIL for want of the address, and
/// with EADDRINUSE for want of a port (`__inet_bind` in `net/ipv4/af_inet.c`).
pub(super) fn local_limit(attempt: &Attempt) -> Cause {
    match (attempt.stage, attempt.errno.as_deref().unwrap_or_default()) {
        (Stage::Bind, "EADDRNOTAVAIL") => Cause::SourceNotLocal,
        (_, "EADDRNOTAVAIL" | "EADDRINUSE") => Cause::ClientOutOfPorts,
        (_, "EMFILE" | "ENFILE") => Cause::ClientOutOfDescriptors,
        _ => Cause::Unexplained,
    }
}
