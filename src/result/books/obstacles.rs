//! The preconditions of the identities: why one is not judged.

use std::collections::{HashMap, HashSet};

use super::{ABORT, Ledger, SYN_RETRANS, connects_itself, gave_up};
use crate::arm::{End, Flags, LinkKind, SpeaksFirst, WireSpec};
use crate::observation::{Attempt, Packet, Verdict, WireLog};
use crate::result::{Outcome, Owners, outcome};

const NOBODY_LISTENS: &str = "nobody listens";

impl Ledger<'_> {
    /// Why `ListenDrops` may have more than its two usual parts.
    pub(super) fn other_drops(&self) -> Option<&'static str> {
        if let Some(obstacle) = self.foreign_counts() {
            return Some(obstacle);
        }
        if !self.arm.server.listens() {
            return Some(NOBODY_LISTENS);
        }
        if self.server("Ip.OutNoRoutes").is_some_and(|count| count > 0) {
            return Some("SYNs had no route back");
        }
        let most = self.sysctl("net.ipv4.tcp_max_syn_backlog");
        let reserve = most.map(|most| most - most / 4);
        let listeners = &self.result.listeners;
        let is_deeper = |reserve| {
            listeners
                .iter()
                .any(|one| one.accept_queue_capacity > reserve)
        };
        match (self.sysctl("net.ipv4.tcp_syncookies"), reserve) {
            (Some(0), Some(reserve)) if is_deeper(reserve) => Some(
                "tcp_max_syn_backlog is small enough to drop SYNs without a counter of its own",
            ),
            (Some(0), None) | (None, _) => Some("the limit of the SYN queue is unknown"),
            _ => None,
        }
    }

    /// Why a counter may have more than this trial gave it.
    pub(super) fn foreign_counts(&self) -> Option<&'static str> {
        if self.arm.link.kind == LinkKind::Here {
            return Some("outside of a namespace other programs move the same counters");
        }
        if self.arm.server.is_unix() {
            return Some("an AF_UNIX socket has no packets and no counters");
        }
        connects_itself(self.measured, &self.result.counters)
            .then_some("the program opened connections of its own")
    }

    /// Why nothing is known of single attempts.
    pub(super) fn unrecorded(&self) -> Option<&'static str> {
        let tool = self.measured.tool.as_ref();
        tool.map(|_| "a load tool keeps no record of its attempts")
    }

    /// Why connections may have left a queue without `accept()`, and a socket's counter with its socket.
    pub(super) fn closed(&self) -> Option<&'static str> {
        let mut listeners = self.measured.listeners.iter();
        listeners
            .any(|one| one.closed_us.is_some())
            .then_some("a listener was closed before the end")
    }

    /// Why a packet may have come or gone that no counter tells.
    pub(super) fn foreign_packets(&self) -> Option<&'static str> {
        if let Some(obstacle) = self.unrecorded() {
            return Some(obstacle);
        }
        if !self.arm.server.listens() {
            return Some(NOBODY_LISTENS);
        }
        if let Some(obstacle) = self.foreign_counts().or_else(|| self.closed()) {
            return Some(obstacle);
        }
        let drops = &self.result.packet_drops;
        if drops.server_rx != Some(0) || drops.client_rx != Some(0) {
            return Some("packets were dropped on the way, or that is unknown");
        }
        let blind = self.number(|attempt, _| gave_up(attempt) && attempt.server_side.is_none());
        if blind > 0 {
            return Some("what the server held of a client that left is unknown");
        }
        if self.arm.protocol.speaks_first == SpeaksFirst::Client && self.resets_of_requests() > 0 {
            // Its sequence number is behind the data (`tcp_check_req`).
            return Some(
                "the reset of a client that has sent data does not fit its half-open request",
            );
        }
        match (&self.arm.link.kind, &self.measured.wire) {
            (LinkKind::Wire(spec), Some(log)) => self.on_the_wire(spec, log),
            (LinkKind::Wire(_), None) => Some("what passed the wire is unknown"),
            _ => None,
        }
    }

    /// Why a packet that passed the wire may have met something else than its sender knew. Lost SYNs are counted;
    /// what else is lost is repeated, and counted when it comes.
    fn on_the_wire(&self, spec: &WireSpec, log: &WireLog) -> Option<&'static str> {
        if [End::Server, End::Client].map(|to| spec.towards(to).jitter.as_us()) != [0; 2] {
            return Some("packets may overtake each other on the wire");
        }
        let owners = Owners::of(self.measured);
        let mut answered_us = HashMap::new();
        for packet in &log.packets {
            if let (true, Some(n)) = (is_answer(packet), owners.owner(packet)) {
                answered_us.entry(n).or_insert(packet.at_us);
            }
        }
        let to_server = log.packets.iter().filter(|one| one.to == End::Server);
        for packet in to_server {
            let is_reset = packet.flags.has(Flags::RST);
            let owner = owners.owner(packet);
            match (packet.verdict, packet.sent_us) {
                (Verdict::Duplicated, _) => return Some("a packet reached the server twice"),
                (Verdict::Passed, None) => return Some("a packet was under way at the end"),
                (_, None) if is_reset => return Some("the wire kept a reset"),
                (_, Some(_)) if is_reset && !packet.flags.has(Flags::ACK) => {
                    return Some("a bare reset reached the server, and may have met the listener");
                }
                (_, Some(sent_us)) if packet.flags.is(Flags::SYN) => {
                    let answered = owner.and_then(|n| answered_us.get(&n));
                    if answered.is_some_and(|answered_us| *answered_us <= sent_us) {
                        return Some("a SYN came again after it had been answered");
                    }
                }
                (_, Some(sent_us)) if !is_reset => {
                    let sender = owner.and_then(|n| self.measured.attempts.get(n));
                    if sender.is_some_and(|one| gave_up(one) && one.ended_us <= sent_us) {
                        return Some("a packet of a client came after the client had left");
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Why a client may not have seen the reset that the full queue sent it.
    pub(super) fn resets_unseen(&self) -> Option<&'static str> {
        let log = self.measured.wire.as_ref()?;
        let owners = Owners::of(self.measured);
        let unseen = |packet: &&Packet| {
            let client = owners
                .owner(packet)
                .and_then(|n| self.measured.attempts.get(n));
            let left_us = client.map_or(0, |one| one.ended_us);
            packet.sent_us.is_none_or(|sent_us| sent_us > left_us)
                && client.is_none_or(|one| outcome(one) != Outcome::Reset)
        };
        let to_client = log.packets.iter().filter(|one| one.to == End::Client);
        let mut resets = to_client.filter(|one| one.flags.has(Flags::RST));
        resets
            .any(|packet| unseen(&packet))
            .then_some("a reset did not reach its client in time")
    }

    /// Why a repeated SYN-ACK may not have met a connected client.
    pub(super) fn answers_unseen(&self) -> Option<&'static str> {
        let log = self.measured.wire.as_ref()?;
        let owners = Owners::of(self.measured);
        let mut answered = HashSet::new();
        let mut repeated = 0;
        for packet in log.packets.iter().filter(|packet| is_answer(packet)) {
            let owner = owners.owner(packet);
            if answered.insert(owner) {
                continue;
            }
            repeated += 1;
            let client = owner.and_then(|n| self.measured.attempts.get(n));
            let met = |at_us| {
                let connected = |one: &Attempt| one.connected_us.is_some_and(|us| us <= at_us);
                client.is_some_and(|one| connected(one) && at_us < one.ended_us)
            };
            if packet.verdict != Verdict::Passed || !packet.sent_us.is_some_and(met) {
                return Some("a repeated SYN-ACK did not meet a connected client");
            }
        }
        (self.server(SYN_RETRANS) != Some(repeated))
            .then_some("a SYN-ACK was repeated that did not pass the wire")
    }

    /// Why one handshake may have been counted twice. A client that speaks first sends two packets at once, and two
    /// processors can both find its request: both count a new connection, and one of the two is thrown away
    /// (`inet_csk_complete_hashdance` in `net/ipv4/inet_connection_sock.c`); with resets on, one can remove the
    /// request while the other takes it (`req_stolen` in `tcp_check_req`). Seen twice among 1500 clients. What passes
    /// the wire arrives on the relay's processor, one packet after the other.
    pub(super) fn two_at_once(&self) -> Option<&'static str> {
        let first = self.arm.protocol.speaks_first;
        let one_by_one = matches!(self.arm.link.kind, LinkKind::Wire(_));
        (first == SpeaksFirst::Client && !one_by_one).then_some(
            "a client that speaks first sends two packets at once, which can meet on two processors",
        )
    }

    /// The same for the overflows: with resets off, a connection that was counted twice is seen in the totals, and
    /// two packets that both find the queue full are two overflows.
    pub(super) fn counted_twice(&self) -> Option<&'static str> {
        let obstacle = self.two_at_once()?;
        let children = self.children();
        let met = self.sysctl(ABORT) == Some(0) && children.left == children.right;
        (!met).then_some(obstacle)
    }

    /// Why a half-open request may have vanished without a count: its SYN-ACK was repeated as often as allowed,
    /// or it was pruned at its third timer (`reqsk_timer_handler` in `net/ipv4/inet_connection_sock.c`).
    pub(super) fn expired(&self) -> Option<&'static str> {
        const PRUNED_AFTER_S: u64 = 7;
        let Some(retries) = self.sysctl("net.ipv4.tcp_synack_retries") else {
            return Some("tcp_synack_retries is unknown");
        };
        let patience_s = (2 << retries.min(8)) - 1;
        let lasted_s = self.measured.ended_us / 1_000_000;
        let may_have = lasted_s >= patience_s.min(PRUNED_AFTER_S);
        let was_old = retries == 0 || self.repeated_answers() != Some(0);
        (may_have && was_old).then_some("half-open requests may have expired, which nothing counts")
    }
}

/// Whether it answers a SYN.
fn is_answer(packet: &Packet) -> bool {
    packet.to == End::Client && packet.flags.is(Flags::SYN | Flags::ACK)
}
