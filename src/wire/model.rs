//! What becomes of a packet: whether it arrives, when, and how often. Pure.
//!
//! Every decision follows from the seed and from which packet it is: the number of its connection, its
//! direction, flags and relative sequence numbers, and how often that packet has been sent. So the same seed and
//! the same packets give the same fate, whatever the timing.

use std::collections::{HashMap, VecDeque};

use super::segment::Segment;
use crate::arm::{End, Flags, Impairments, WireSpec};
use crate::observation::Verdict;
use crate::random::{SplitMix64, seed_for};

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    /// Whether it arrives.
    pub(super) verdict: Verdict,
    /// When it is due at the other end, if it arrives.
    pub(super) due_ns: Option<u64>,
}

/// The wire's memory: the connections it has seen, and what waits at its bottlenecks.
pub(super) struct Model {
    seed: u64,
    spec: WireSpec,
    connections: HashMap<u16, Connection>,
    opened: u64,
    waiting: [VecDeque<u64>; 2],
}

/// A connection, from a client's first SYN until another one begins on its port.
#[derive(Default)]
struct Connection {
    number: u64,
    client_isn: u32,
    server_isn: u32,
    /// How often each packet has been sent.
    sent: HashMap<Identity, u64>,
    /// How many packets with these flags have been sent.
    flagged: HashMap<(End, Flags), u32>,
}

/// What makes a packet the same as another one: its repetition carries the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    to: End,
    flags: Flags,
    seq: u32,
    ack: u32,
    length: u32,
}

impl Model {
    /// A wire that has carried nothing yet.
    pub(super) fn new(spec: WireSpec, seed: u64) -> Self {
        Self {
            seed,
            spec,
            connections: HashMap::new(),
            opened: 0,
            waiting: [VecDeque::new(), VecDeque::new()],
        }
    }

    /// Decides on a packet of `size` bytes that enters the wire at `at_ns`, bound for `to`.
    pub(super) fn decide(&mut self, to: End, at_ns: u64, size: usize, segment: &Segment) -> Fate {
        let stopped = |verdict| Fate {
            verdict,
            due_ns: None,
        };
        let connection = self.connection(to, segment);
        let nth = connection.flagged.entry((to, segment.flags)).or_default();
        *nth += 1;
        let nth = *nth;
        let mut random = connection.random(to, segment);
        let number = connection.number;
        let by_rule = |rule: &crate::arm::DropRule| {
            rule.to == to && rule.flags == segment.flags && rule.nth.is_none_or(|n| n == nth)
        };
        if self.spec.drop.iter().any(by_rule) {
            return stopped(Verdict::DroppedByRule);
        }
        let here = *self.spec.towards(to);
        let seed = random.next();
        let mut random = SplitMix64::new(seed_for(self.seed, [number, seed]));
        let mut falls_in =
            |share: crate::arm::Share| random.below(1_000_000) < share.millionths().into();
        let (is_lost, is_duplicated) = (falls_in(here.loss), falls_in(here.duplicate));
        if is_lost {
            return stopped(Verdict::Lost);
        }
        let Some(sent_ns) = self.bottleneck(to, at_ns, size, &here) else {
            return stopped(Verdict::QueueFull);
        };
        let jitter_ns = random.below(here.jitter.as_us() * 1_000 + 1);
        Fate {
            verdict: if is_duplicated {
                Verdict::Duplicated
            } else {
                Verdict::Passed
            },
            due_ns: Some(sent_ns + here.delay.as_us() * 1_000 + jitter_ns),
        }
    }

    /// The packet's connection; a SYN with a new initial sequence number begins one.
    fn connection(&mut self, to: End, segment: &Segment) -> &mut Connection {
        let opened = &mut self.opened;
        let mut begin = || {
            *opened += 1;
            Connection {
                number: *opened,
                client_isn: segment.seq,
                ..Connection::default()
            }
        };
        let opens = to == End::Server && segment.flags.is(Flags::SYN);
        let connection = self
            .connections
            .entry(segment.client_port(to))
            .or_insert_with(&mut begin);
        if opens && connection.client_isn != segment.seq {
            *connection = begin();
        }
        if to == End::Client && segment.flags.is(Flags::SYN | Flags::ACK) {
            connection.server_isn = segment.seq;
        }
        connection
    }

    /// When the bottleneck has sent the packet; `None` when its queue is full.
    fn bottleneck(&mut self, to: End, at_ns: u64, size: usize, here: &Impairments) -> Option<u64> {
        let Some(rate) = here.rate else {
            return Some(at_ns);
        };
        let waiting = &mut self.waiting[to as usize];
        while waiting.front().is_some_and(|sent_ns| *sent_ns <= at_ns) {
            waiting.pop_front();
        }
        if waiting.len() >= here.queue as usize {
            return None;
        }
        let free_ns = waiting.back().copied().unwrap_or(0).max(at_ns);
        let sent_ns = free_ns + rate.ns_for(size);
        waiting.push_back(sent_ns);
        Some(sent_ns)
    }
}

impl Connection {
    /// Chance as it is for this packet, and for the how-manieth sending of it.
    fn random(&mut self, to: End, segment: &Segment) -> SplitMix64 {
        let (sender_isn, receiver_isn) = match to {
            End::Server => (self.client_isn, self.server_isn),
            End::Client => (self.server_isn, self.client_isn),
        };
        let acks = segment.flags.has(Flags::ACK);
        let identity = Identity {
            to,
            flags: segment.flags,
            seq: segment.seq.wrapping_sub(sender_isn),
            ack: if acks {
                segment.ack.wrapping_sub(receiver_isn)
            } else {
                0
            },
            length: segment.length,
        };
        let repeated = self.sent.entry(identity).or_default();
        *repeated += 1;
        let words = [
            to as u64,
            identity.flags.byte().into(),
            identity.seq.into(),
            identity.ack.into(),
            identity.length.into(),
            *repeated,
        ];
        SplitMix64::new(seed_for(0, words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{LinkKind, LinkSpec};
    use proptest::prelude::*;

    fn model(text: &str, seed: u64) -> Model {
        let spec: LinkSpec = toml::from_str(&format!("kind = \"wire\"\n{text}")).unwrap();
        match spec.kind {
            LinkKind::Wire(wire) => Model::new(wire, seed),
            other => panic!("{other:?}"),
        }
    }

    fn segment(to: End, port: u16, flags: &str, seq: u32) -> Segment {
        let (source_port, destination_port) = if to == End::Server {
            (port, 80)
        } else {
            (80, port)
        };
        Segment {
            source_port,
            destination_port,
            seq,
            ack: 0,
            flags: flags.parse().unwrap(),
            length: 0,
        }
    }

    fn verdict(model: &mut Model, to: End, port: u16, flags: &str, seq: u32) -> Verdict {
        model
            .decide(to, 0, 60, &segment(to, port, flags, seq))
            .verdict
    }

    #[test]
    fn a_wire_without_settings_passes_everything_at_once() {
        let mut model = model("", 7);
        let fate = model.decide(End::Server, 5, 60, &segment(End::Server, 1, "SYN", 1));
        assert_eq!(
            fate,
            Fate {
                verdict: Verdict::Passed,
                due_ns: Some(5)
            }
        );
    }

    #[test]
    fn a_rule_counts_for_each_connection_by_itself() {
        let mut model = model(
            "drop = [{ to = \"client\", flags = \"SYN+ACK\", nth = 2 }]",
            7,
        );
        for port in [1, 2] {
            assert_eq!(
                verdict(&mut model, End::Server, port, "SYN", 9),
                Verdict::Passed
            );
            for expected in [Verdict::Passed, Verdict::DroppedByRule, Verdict::Passed] {
                assert_eq!(
                    verdict(&mut model, End::Client, port, "SYN+ACK", 5),
                    expected
                );
            }
        }
        // The same port again, with another initial sequence number: another connection.
        assert_eq!(
            verdict(&mut model, End::Server, 1, "SYN", 10),
            Verdict::Passed
        );
        assert_eq!(
            verdict(&mut model, End::Client, 1, "SYN+ACK", 6),
            Verdict::Passed
        );
        assert_eq!(
            verdict(&mut model, End::Client, 1, "SYN+ACK", 6),
            Verdict::DroppedByRule
        );
    }

    #[test]
    fn a_bottleneck_sends_one_after_the_other_and_its_queue_has_an_end() {
        // 1250 bytes take 1 ms.
        let mut model = model("rate = \"10mbit\"\nqueue = 2\ndelay = \"5ms\"", 7);
        let mut due = |at_ms: u64, seq| {
            let segment = segment(End::Server, 1, "ACK", seq);
            model
                .decide(End::Server, at_ms * 1_000_000, 1_250, &segment)
                .due_ns
                .map(|ns| ns / 1_000_000)
        };
        assert_eq!(due(0, 1), Some(6));
        assert_eq!(due(0, 2), Some(7));
        assert_eq!(due(0, 3), None);
        assert_eq!(due(1, 4), Some(8));
        assert_eq!(due(9, 5), Some(15));
    }

    #[test]
    fn shares_come_out_about_as_asked() {
        let mut model = model("loss = \"10%\"\nduplicate = \"20%\"", 7);
        let (mut lost, mut twice) = (0, 0);
        for port in 0..10_000 {
            match verdict(&mut model, End::Server, port, "SYN", 1) {
                Verdict::Lost => lost += 1,
                Verdict::Duplicated => twice += 1,
                _ => {}
            }
        }
        assert!((900..1_100).contains(&lost), "{lost}");
        assert!((1_650..1_950).contains(&twice), "{twice}");
    }

    proptest! {
        #[test]
        fn the_same_seed_and_the_same_packets_have_the_same_fate(
            seed: u64,
            isns in prop::collection::vec(any::<(u32, u32, u16)>(), 2..30),
        ) {
            let text = "loss = \"30%\"\njitter = \"3ms\"\nduplicate = \"10%\"";
            let run = |isn_shift: u32, port_shift: u16, at_shift: u64| {
                let mut model = model(text, seed);
                let mut fates = Vec::new();
                for (n, (client, server, port)) in isns.iter().enumerate() {
                    // Ports and initial sequence numbers are the kernel's choice, times are chance.
                    let client = client.wrapping_add(isn_shift).wrapping_add(u32::try_from(n).unwrap());
                    let port = port.wrapping_add(port_shift);
                    for (to, flags, seq) in [
                        (End::Server, "SYN", client),
                        (End::Server, "SYN", client),
                        (End::Client, "SYN+ACK", server.wrapping_add(isn_shift)),
                        (End::Server, "PSH+ACK", client.wrapping_add(1)),
                    ] {
                        let at_ns = n as u64 * 1_000 + at_shift;
                        let mut segment = segment(to, port, flags, seq);
                        segment.ack = match (to, flags) {
                            (End::Client, _) => client.wrapping_add(1),
                            (_, "SYN") => 0,
                            _ => server.wrapping_add(isn_shift).wrapping_add(1),
                        };
                        let fate = model.decide(to, at_ns, 60, &segment);
                        fates.push((fate.verdict, fate.due_ns.map(|due| due - at_ns)));
                    }
                }
                fates
            };
            prop_assert_eq!(run(0, 0, 0), run(77, 9, 5_000));
        }
    }
}
