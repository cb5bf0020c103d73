//! What the packets of a wire say about each attempt's handshake.

use std::collections::{HashMap, HashSet};

use super::wire::Repeated;
use crate::arm::{End, Flags};
use crate::observation::{Attempt, Measured, Packet, Verdict, WireLog};

/// The packets of one attempt, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Handshake {
    /// When its first SYN reached the server.
    pub(super) first_syn_us: Option<u64>,
    /// SYNs that reached the server.
    pub(super) syns_delivered: u32,
    /// SYNs that reached the server and were not answered, before one was.
    pub(super) syns_dropped: u32,
    /// SYN+ACKs that the server sent.
    pub(super) syn_acks_sent: u32,
    /// Packets that the wire kept.
    pub(super) lost: u32,
    /// SYNs and SYN+ACKs that the wire kept.
    pub(super) lost_openings: u32,
    /// ACKs, with or without data, that reached the server.
    pub(super) acks_delivered: u32,
    /// Whether a SYN found as many half-open requests as there may be.
    pub(super) met_full_syn_queue: bool,
    /// Whether the wire kept data that no other packet brought.
    pub(super) lost_data: bool,
    /// Whether the server reset it in answer to an ACK.
    pub(super) reset_answers_ack: bool,
}

/// Which attempt a packet belongs to.
pub struct Owners {
    by_port: HashMap<u16, Vec<(u64, usize)>>,
}

impl Owners {
    /// Those of a trial's packets.
    pub fn of(measured: &Measured) -> Self {
        let mut by_port: HashMap<u16, Vec<(u64, usize)>> = HashMap::new();
        for (n, attempt) in measured.attempts.iter().enumerate() {
            if let Some(port) = attempt.local_port {
                by_port
                    .entry(port)
                    .or_default()
                    .push((attempt.started_us, n));
            }
        }
        for attempts in by_port.values_mut() {
            attempts.sort_unstable();
        }
        Self { by_port }
    }

    /// The attempt's number. Ports are used again: it is the one that began last before the packet came.
    pub fn owner(&self, packet: &Packet) -> Option<usize> {
        let attempts = self.by_port.get(&packet.client_port)?;
        let after = attempts.partition_point(|(started_us, _)| *started_us <= packet.at_us);
        attempts.get(after.checked_sub(1)?).map(|(_, n)| *n)
    }
}

/// Those of every attempt.
pub(super) struct Handshakes {
    of: Vec<Handshake>,
}

/// An RST this long after an ACK has reached the server is the answer to it.
const AT_ONCE_US: u64 = 2_000;

impl Handshakes {
    /// Sums up a trial's packets.
    pub(super) fn of(measured: &Measured, wire: &WireLog) -> Self {
        let limit = measured
            .listeners
            .first()
            .map_or(0, |one| one.before.send_q);
        let owners = Owners::of(measured);
        let mut all = Progress {
            of: vec![Handshake::default(); measured.attempts.len()],
            last_ack_us: HashMap::new(),
            half_open: HashSet::new(),
            arrived: HashSet::new(),
            missing: HashMap::new(),
            limit: limit as usize,
        };
        // In the order in which the server's side saw them, and those that it never saw.
        let mut order: Vec<(u64, usize, &Packet)> = wire
            .packets
            .iter()
            .filter_map(|packet| Some((at_the_server_us(packet), owners.owner(packet)?, packet)))
            .collect();
        order.sort_by_key(|(at_us, ..)| *at_us);
        for (at_us, n, packet) in order {
            all.take(n, at_us, packet);
        }
        for n in all.missing.into_values() {
            all.of[n].lost_data = true;
        }
        Self { of: all.of }
    }

    /// Connected clients whose handshake had to be repeated.
    pub(super) fn repeated(&self, attempts: &[Attempt]) -> Repeated {
        let connected = || {
            let both = attempts.iter().zip(&self.of);
            both.filter(|(attempt, _)| attempt.connected_us.is_some())
                .map(|(_, one)| one)
        };
        let count = |one: &dyn Fn(&&Handshake) -> bool| {
            u32::try_from(connected().filter(one).count()).unwrap_or(u32::MAX)
        };
        Repeated {
            lost_on_the_wire: count(&|one| one.lost_openings > 0),
            dropped_by_the_listener: count(&|one| one.syns_dropped > 0),
        }
    }

    /// That of attempt `n`.
    pub(super) fn get(&self, n: usize) -> &Handshake {
        &self.of[n]
    }
}

/// When a packet reached the server or left it; one that never reached it counts from when it was sent.
fn at_the_server_us(packet: &Packet) -> u64 {
    match packet.to {
        End::Server => packet.sent_us.unwrap_or(packet.at_us),
        End::Client => packet.at_us,
    }
}

struct Progress {
    of: Vec<Handshake>,
    last_ack_us: HashMap<usize, u64>,
    half_open: HashSet<usize>,
    /// Data that has arrived, by attempt, direction and sequence number.
    arrived: HashSet<(usize, End, u32)>,
    missing: HashMap<(usize, End, u32), usize>,
    limit: usize,
}

impl Progress {
    fn take(&mut self, n: usize, at_us: u64, packet: &Packet) {
        let one = &mut self.of[n];
        let arrived = packet.sent_us.is_some();
        let kept = matches!(
            packet.verdict,
            Verdict::Lost | Verdict::DroppedByRule | Verdict::QueueFull
        );
        one.lost += u32::from(kept);
        if packet.length > 0 {
            let data = (n, packet.to, packet.seq);
            if arrived {
                self.missing.remove(&data);
                self.arrived.insert(data);
            } else if kept && !self.arrived.contains(&data) {
                self.missing.insert(data, n);
            }
        }
        let flags = packet.flags;
        match packet.to {
            End::Server if flags.is(Flags::SYN) => {
                one.lost_openings += u32::from(kept);
                if arrived {
                    one.syns_delivered += 1;
                    one.syns_dropped += u32::from(one.syn_acks_sent == 0);
                    one.first_syn_us.get_or_insert(at_us);
                    let others = self.half_open.len() - usize::from(self.half_open.contains(&n));
                    one.met_full_syn_queue |= others > self.limit;
                }
            }
            End::Server if arrived && flags.has(Flags::RST) => {
                self.half_open.remove(&n);
            }
            End::Server if arrived && flags.has(Flags::ACK) => {
                one.acks_delivered += 1;
                self.last_ack_us.insert(n, at_us);
                self.half_open.remove(&n);
            }
            End::Client if flags.is(Flags::SYN | Flags::ACK) => {
                one.lost_openings += u32::from(kept);
                one.syns_dropped -= u32::from(one.syn_acks_sent == 0 && one.syns_dropped > 0);
                one.syn_acks_sent += 1;
                self.half_open.insert(n);
            }
            End::Client if flags.has(Flags::RST) => {
                let ack_us = self.last_ack_us.get(&n);
                one.reset_answers_ack |=
                    ack_us.is_some_and(|ack_us| at_us.saturating_sub(*ack_us) <= AT_ONCE_US);
                self.half_open.remove(&n);
            }
            End::Server | End::Client => {}
        }
    }
}
