//! The books of a trial: totals that the kernel, the server and the clients count apart and that must agree.
//!
//! Every packet that reaches a listener ends in one of a few ways, and each way has its counter (`tcp_conn_request`
//! in `net/ipv4/tcp_input.c`, `tcp_check_req` in `net/ipv4/tcp_minisocks.c`, `cookie_v4_check` in
//! `net/ipv4/syncookies.c`). An entry whose precondition is not met is not judged, and says why.

mod obstacles;

use schemars::JsonSchema;
use serde::Serialize;

use super::join::Fate;
use super::{AcceptedBy, Counters, Outcome, TrialResult, outcome};
use crate::arm::{Arm, End, Flags};
use crate::observation::{Attempt, Ended, Measured, ServerSide};

/// An identity, its two sides, and whether they agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entry {
    /// What must agree with what.
    pub identity: &'static str,
    /// The left side; `null` when a part of it is unknown.
    pub left: Option<i64>,
    /// The right side; `null` when a part of it is unknown.
    pub right: Option<i64>,
    /// Whether they agree; `null` when that cannot be said.
    pub holds: Option<bool>,
    /// Why it was not judged.
    pub not_judged: Option<&'static str>,
}

/// A term of the sum that explains the overflows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Term {
    /// What was counted.
    pub what: &'static str,
    /// How many packets; negative for those that did not overflow.
    pub packets: i64,
}

/// The books of one trial.
pub(super) struct Books {
    /// The identities.
    pub(super) entries: Vec<Entry>,
    /// The terms whose sum is `TcpExt.ListenOverflows`; empty when they are not all known.
    pub(super) why_overflows: Vec<Term>,
}

impl Entry {
    fn new(
        identity: &'static str,
        left: Option<i64>,
        right: Option<i64>,
        obstacle: Option<&'static str>,
    ) -> Self {
        let sides = left.zip(right);
        let unknown = sides.is_none().then_some("a part of it is unknown");
        let not_judged = obstacle.or(unknown);
        Self {
            identity,
            left,
            right,
            holds: sides
                .filter(|_| not_judged.is_none())
                .map(|(left, right)| left == right),
            not_judged,
        }
    }
}

/// Closes the books of a trial whose other results stand in `result`.
pub(super) fn close(arm: &Arm, measured: &Measured, fates: &[Fate], result: &TrialResult) -> Books {
    let ledger = Ledger {
        arm,
        measured,
        fates,
        result,
    };
    Books {
        entries: vec![
            ledger.attempts(),
            ledger.causes(),
            ledger.opens(),
            ledger.children(),
            ledger.drops(),
            ledger.own_drops(),
            ledger.overflows(),
            ledger.resets(),
            ledger.challenges(),
        ],
        why_overflows: ledger.why_overflows(),
    }
}

/// The identity whose terms explain the overflows.
pub(crate) const OVERFLOWS_TAKEN_APART: &str =
    "TcpExt.ListenOverflows = SYNs - those that passed + repeated ACKs that met the full queue";

struct Ledger<'a> {
    arm: &'a Arm,
    measured: &'a Measured,
    fates: &'a [Fate],
    result: &'a TrialResult,
}

impl Ledger<'_> {
    fn attempts(&self) -> Entry {
        let outcomes = self.result.outcomes.iter().flatten();
        Entry::new(
            "attempts = sum of the outcomes",
            self.arm.client.attempts().map(i64::from),
            Some(outcomes.map(|(_, count)| i64::from(*count)).sum()),
            self.unrecorded().or_else(|| {
                (self.arm.client.attempts().is_none())
                    .then_some("in a closed loop, time decides how many there are")
            }),
        )
    }

    fn causes(&self) -> Entry {
        let causes = self.result.causes.iter().flatten();
        let outcomes = self.result.outcomes.as_ref();
        let ok = outcomes.and_then(|all| all.get(&Outcome::Ok)).copied();
        Entry::new(
            "attempts that are not ok = sum of the causes",
            self.result
                .attempts
                .map(|all| i64::from(all) - i64::from(ok.unwrap_or(0))),
            Some(causes.map(|(_, count)| i64::from(*count)).sum()),
            self.unrecorded(),
        )
    }

    /// `tcp_connect` counts when the SYN has been sent: an attempt that had no socket or no port sent none.
    fn opens(&self) -> Entry {
        let sent = self.number(|attempt, _| outcome(attempt) != Outcome::LocalLimit);
        Entry::new(
            "Tcp.ActiveOpens = attempts that sent a SYN",
            self.client(ACTIVE_OPENS),
            Some(sent),
            self.unrecorded().or_else(|| self.foreign_counts()),
        )
    }

    /// A connection is created when it enters the accept queue, and leaves it by `accept()` only: clients that
    /// have reset theirs stay.
    fn children(&self) -> Entry {
        let accepted = self.result.accepted.map(i64::from);
        Entry::new(
            "Tcp.PassiveOpens = accepted + still queued",
            self.server("Tcp.PassiveOpens"),
            accepted.map(|accepted| accepted + self.queued()),
            (self.result.accepted_by == AcceptedBy::Kernel)
                .then_some("accepted is known by this sum only")
                .or_else(|| self.foreign_counts())
                .or_else(|| self.closed())
                .or_else(|| self.two_at_once()),
        )
    }

    fn drops(&self) -> Entry {
        let full = self.server(SYN_QUEUE_FULL);
        let overflows = self.server(OVERFLOWS);
        Entry::new(
            "TcpExt.ListenDrops = TcpExt.ListenOverflows + TcpExt.TCPReqQFullDrop",
            self.server(DROPS),
            overflows
                .zip(full)
                .map(|(overflows, full)| overflows + full),
            self.other_drops(),
        )
    }

    /// A socket counts a drop twice where a packet on a half-open request meets a full queue: once as the
    /// namespace does, and once when the packet is freed. With resets on, the latter are counted apart.
    fn own_drops(&self) -> Entry {
        let aborts = self.sysctl(ABORT).map(|value| value == 1);
        let obstacle = match aborts {
            Some(true) => self.foreign_packets().or_else(|| self.two_at_once()),
            Some(false) => Some("tcp_abort_on_overflow is off: such packets have no counter"),
            None => Some("tcp_abort_on_overflow is unknown"),
        };
        let resets = self
            .server(EMBRYONIC)
            .map(|all| all - self.resets_of_requests());
        Entry::new(
            "drops of the listener = TcpExt.ListenDrops + resets by the server + packets of clients that left",
            self.listener_drops(),
            self.server(DROPS)
                .zip(resets)
                .zip(self.odd_packets())
                .map(|((drops, resets), odd)| drops + resets + odd),
            obstacle,
        )
    }

    fn overflows(&self) -> Entry {
        let terms = self.terms();
        Entry::new(
            OVERFLOWS_TAKEN_APART,
            self.server(OVERFLOWS),
            terms.map(|terms| terms.iter().map(|term| term.packets).sum()),
            self.other_drops()
                .or_else(|| self.foreign_packets())
                .or_else(|| self.counted_twice())
                .or_else(|| self.expired()),
        )
    }

    /// The terms of the overflows, when they are all known and their sum is what the kernel counted.
    fn why_overflows(&self) -> Vec<Term> {
        let mut terms = match self.overflows().holds {
            Some(true) => self.terms().unwrap_or_default(),
            _ => Vec::new(),
        };
        terms.retain(|term| term.packets != 0);
        if self.server(OVERFLOWS) == Some(0) {
            terms.clear();
        }
        terms
    }

    fn terms(&self) -> Option<Vec<Term>> {
        let term = |what, packets| Term { what, packets };
        let resets = self.server(EMBRYONIC)?;
        let by_clients = self.resets_of_requests().min(resets);
        Some(vec![
            term("first SYNs", self.client(ACTIVE_OPENS)?),
            term("repeated SYNs", self.repeated_syns()?),
            term("SYNs that the wire kept", -self.kept_syns()),
            term(
                "SYNs dropped at a full SYN queue",
                -self.server(SYN_QUEUE_FULL)?,
            ),
            term(
                "SYNs answered with a cookie",
                -self.server("TcpExt.SyncookiesSent")?,
            ),
            term(
                "packets that came back with a cookie",
                self.server("TcpExt.SyncookiesRecv")?,
            ),
            term(
                "handshakes that were completed",
                -self.server("Tcp.PassiveOpens")?,
            ),
            term(
                "half-open handshakes that the server reset (tcp_abort_on_overflow)",
                by_clients - resets,
            ),
            term(
                "half-open handshakes that clients reset when they gave up",
                -by_clients,
            ),
            term(
                "handshakes still half-open at the end",
                -i64::from(self.result.half_open_final?),
            ),
            term(
                "packets of half-open handshakes that met the full queue",
                self.request_overflows()?,
            ),
        ])
    }

    /// With resets on, every client that the full queue refuses at its ACK sees one.
    fn resets(&self) -> Entry {
        let refused = self.number(|attempt, fate| {
            outcome(attempt) == Outcome::Reset && fate.accepted_us.is_none()
        });
        let obstacle = match self.sysctl(ABORT) {
            Some(1) => self
                .foreign_packets()
                .or_else(|| self.two_at_once())
                .or_else(|| self.resets_unseen()),
            _ => Some("tcp_abort_on_overflow is off"),
        };
        Entry::new(
            "TcpExt.EmbryonicRsts = clients reset before accept() + half-open clients that left",
            self.server(EMBRYONIC),
            Some(refused + self.resets_of_requests()),
            obstacle,
        )
    }

    /// A client that is connected answers a repeated SYN-ACK with a challenge.
    fn challenges(&self) -> Entry {
        let obstacle = self
            .result
            .counters
            .shared
            .then_some("client and server share their counters")
            .or_else(|| self.foreign_packets())
            .or_else(|| self.answers_unseen());
        Entry::new(
            "TcpExt.TCPSYNChallenge of the client = TcpExt.TCPSynRetrans of the server",
            self.client(CHALLENGE),
            self.server(SYN_RETRANS),
            obstacle,
        )
    }

    fn server(&self, name: &str) -> Option<i64> {
        plausible(self.result.counters.server.get(name).copied()?)
    }

    fn client(&self, name: &str) -> Option<i64> {
        plausible(self.result.counters.client.get(name).copied()?)
    }

    fn sysctl(&self, name: &str) -> Option<u64> {
        self.measured
            .server
            .sysctls
            .get(name)?
            .as_deref()?
            .parse()
            .ok()
    }

    fn number(&self, holds: impl Fn(&Attempt, &Fate) -> bool) -> i64 {
        let attempts = self.measured.attempts.iter().zip(self.fates);
        let count = attempts
            .filter(|(attempt, fate)| holds(attempt, fate))
            .count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    fn queued(&self) -> i64 {
        let queues = self.result.listeners.iter();
        queues.map(|one| i64::from(one.recv_q_final)).sum()
    }

    fn listener_drops(&self) -> Option<i64> {
        let listeners = self.result.listeners.iter();
        listeners.map(|one| one.drops.map(i64::from)).sum()
    }

    /// SYNs that were sent again. In a shared namespace the counter has the repeated SYN-ACKs as well; each of
    /// them meets a connected client, which counts it.
    fn repeated_syns(&self) -> Option<i64> {
        let all = self.client(SYN_RETRANS)?;
        Some(if self.result.counters.shared {
            all - self.client(CHALLENGE)?
        } else {
            all
        })
    }

    /// SYNs that entered the wire and did not reach the server.
    fn kept_syns(&self) -> i64 {
        let packets = self.measured.wire.iter().flat_map(|log| &log.packets);
        let syns = packets.filter(|one| one.to == End::Server && one.flags.is(Flags::SYN));
        let kept = syns.filter(|one| one.sent_us.is_none()).count();
        i64::try_from(kept).unwrap_or(i64::MAX)
    }

    /// Repeated SYN-ACKs.
    fn repeated_answers(&self) -> Option<i64> {
        if self.result.counters.shared {
            self.client(CHALLENGE)
        } else {
            self.server(SYN_RETRANS)
        }
    }

    /// Packets on half-open requests that met the full accept queue: the socket's own counter has them once more.
    fn request_overflows(&self) -> Option<i64> {
        Some(self.listener_drops()? - self.server(DROPS)? - self.odd_packets()?)
    }

    /// Half-open requests that were removed by the reset of a connected client that gave up.
    fn resets_of_requests(&self) -> i64 {
        self.number(|attempt, _| {
            gave_up(attempt) && attempt.server_side == Some(ServerSide::HalfOpen)
        })
    }

    /// Packets that only the socket's own counter has: resets of half-open requests, and bare ACKs that
    /// `TCP_DEFER_ACCEPT` sets aside. A client of which the server holds nothing leaves with RST and ACK; to a
    /// listener that is a stray ACK, which nothing counts (`tcp_rcv_state_process` in `net/ipv4/tcp_input.c`).
    fn odd_packets(&self) -> Option<i64> {
        Some(self.resets_of_requests() + self.server("TcpExt.TCPDeferAcceptDrop")?)
    }
}

/// Whether a program that serves has opened connections too, or that is unknown: then its namespace counts more than
/// the clients did.
pub(super) fn connects_itself(measured: &Measured, counters: &Counters) -> bool {
    if measured.program.is_none() {
        return false;
    }
    let opens = counters.server.get(ACTIVE_OPENS).copied().flatten();
    let clients = if counters.shared {
        let sent = measured.attempts.iter();
        sent.filter(|one| outcome(one) != Outcome::LocalLimit)
            .count()
    } else {
        0
    };
    opens != i64::try_from(clients).ok()
}

/// No trial counts more than this; sums of what it does count always fit.
const MOST: i64 = 1 << 53;

fn plausible(count: Option<i64>) -> Option<i64> {
    count.filter(|count| *count <= MOST)
}

/// Whether it ended by its own clock while it was connected.
fn gave_up(attempt: &Attempt) -> bool {
    attempt.ended == Ended::TimeUp && attempt.connected_us.is_some()
}

const ACTIVE_OPENS: &str = "Tcp.ActiveOpens";
const OVERFLOWS: &str = "TcpExt.ListenOverflows";
const DROPS: &str = "TcpExt.ListenDrops";
const SYN_QUEUE_FULL: &str = "TcpExt.TCPReqQFullDrop";
const EMBRYONIC: &str = "TcpExt.EmbryonicRsts";
const SYN_RETRANS: &str = "TcpExt.TCPSynRetrans";
const CHALLENGE: &str = "TcpExt.TCPSYNChallenge";
const ABORT: &str = "net.ipv4.tcp_abort_on_overflow";
