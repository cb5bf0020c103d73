//! What a wire did: packets by verdict, and how exactly it kept its own times.

use schemars::JsonSchema;
use serde::Serialize;

use crate::arm::{End, LinkKind, LinkSpec, WireSpec};
use crate::observation::{Packet, Verdict, WireLog};

/// A wire's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WireResult {
    /// How much later than intended packets were sent on, in microseconds.
    pub error_us: WireError,
    /// Packets on their way to the server.
    pub to_server: Direction,
    /// Packets on their way to the client.
    pub to_client: Direction,
    /// Connected clients whose handshake had to be repeated, by what it had met.
    pub repeated_handshakes: Repeated,
}

/// Connected clients whose handshake had to be repeated. Both can be true of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Repeated {
    /// The wire had lost a SYN or a SYN+ACK of theirs.
    pub lost_on_the_wire: u32,
    /// The listener had dropped a SYN of theirs.
    pub dropped_by_the_listener: u32,
}

/// Actual minus intended delay, by nearest rank; `null` when nothing was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WireError {
    /// The median.
    pub p50: Option<u64>,
    /// The 99th percentile; with fewer than 100 packets the largest.
    pub p99: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
}

/// Packets of one direction. `packets` is the sum of passed, lost, dropped by rule, queue full and under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Direction {
    /// Those that entered the wire.
    pub packets: u32,
    /// Those that arrived.
    pub passed: u32,
    /// Those that were lost by chance.
    pub lost: u32,
    /// Those that a rule dropped.
    pub dropped_by_rule: u32,
    /// Those that found the bottleneck's queue full.
    pub queue_full: u32,
    /// Those of the arrived that arrived twice.
    pub duplicated: u32,
    /// Those that were still under way at the end.
    pub under_way: u32,
}

impl WireResult {
    pub(super) fn of(log: &WireLog, repeated_handshakes: Repeated) -> Self {
        let mut errors: Vec<u64> = log
            .packets
            .iter()
            .filter_map(|one| Some(one.sent_us?.saturating_sub(one.due_us?)))
            .collect();
        errors.sort_unstable();
        let rank = |percent: usize| {
            let rank = (errors.len() * percent).div_ceil(100);
            rank.checked_sub(1).map(|at| errors[at])
        };
        let direction = |to: End| Direction::of(log.packets.iter().filter(|one| one.to == to));
        Self {
            error_us: WireError {
                p50: rank(50),
                p99: rank(99),
                max: errors.last().copied(),
            },
            to_server: direction(End::Server),
            to_client: direction(End::Client),
            repeated_handshakes,
        }
    }
}

impl Direction {
    fn of<'a>(packets: impl Iterator<Item = &'a Packet>) -> Self {
        let mut counts = Self::default();
        for packet in packets {
            counts.packets += 1;
            match packet.verdict {
                Verdict::Lost => counts.lost += 1,
                Verdict::DroppedByRule => counts.dropped_by_rule += 1,
                Verdict::QueueFull => counts.queue_full += 1,
                Verdict::Passed | Verdict::Duplicated if packet.sent_us.is_none() => {
                    counts.under_way += 1;
                }
                Verdict::Passed => counts.passed += 1,
                Verdict::Duplicated => {
                    counts.passed += 1;
                    counts.duplicated += 1;
                }
            }
        }
        counts
    }
}

/// Why a trial over this wire must not be believed.
pub(super) fn flaw(link: &LinkSpec, log: &WireLog, result: &WireResult) -> Option<String> {
    let (unsent, error) = &log.unsent;
    let lost = log.overruns.saturating_add(*unsent);
    if lost > 0 {
        let error = error
            .as_deref()
            .map_or_else(String::new, |error| format!(" ({error})"));
        return Some(format!(
            "the relay lost {lost} packets that it was not told to lose{error}"
        ));
    }
    let LinkKind::Wire(spec) = &link.kind else {
        return None;
    };
    let limit_us = allowed_error_us(spec);
    let p99_us = result.error_us.p99.filter(|p99| *p99 > limit_us)?;
    Some(format!(
        "the relay was {:.1} ms late at the 99th percentile, more than the {:.1} ms that are allowed: the machine was too busy",
        super::stats::ms(p99_us),
        super::stats::ms(limit_us)
    ))
}

/// Two milliseconds, or a tenth of the shorter delay where that is more.
fn allowed_error_us(spec: &WireSpec) -> u64 {
    const LEAST_US: u64 = 2_000;
    let shorter = spec.to_server.delay.min(spec.to_client.delay);
    LEAST_US.max(shorter.as_us() / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(to: End, verdict: Verdict, late_us: Option<u64>) -> Packet {
        Packet {
            at_us: 0,
            to,
            client_port: 1,
            flags: "SYN".parse().unwrap(),
            seq: 0,
            ack: 0,
            length: 0,
            verdict,
            due_us: Some(1_000),
            sent_us: late_us.map(|late| 1_000 + late),
        }
    }

    fn log(late_us: u64) -> WireLog {
        let mut packets = vec![
            packet(End::Client, Verdict::Lost, None),
            packet(End::Client, Verdict::DroppedByRule, None),
            packet(End::Client, Verdict::QueueFull, None),
            packet(End::Client, Verdict::Duplicated, Some(1)),
            packet(End::Client, Verdict::Passed, None),
        ];
        packets.extend((0..199).map(|_| packet(End::Server, Verdict::Passed, Some(3))));
        packets.extend((0..3).map(|_| packet(End::Server, Verdict::Passed, Some(late_us))));
        WireLog {
            packets,
            ..WireLog::default()
        }
    }

    fn link(delay: &str) -> LinkSpec {
        toml::from_str(&format!("kind = \"wire\"\ndelay = \"{delay}\"")).unwrap()
    }

    #[test]
    fn every_packet_is_counted_once() {
        let result = WireResult::of(&log(9), Repeated::default());
        let expected = Direction {
            packets: 5,
            passed: 1,
            lost: 1,
            dropped_by_rule: 1,
            queue_full: 1,
            duplicated: 1,
            under_way: 1,
        };
        assert_eq!(result.to_client, expected);
        assert_eq!(
            (result.to_server.packets, result.to_server.passed),
            (202, 202)
        );
        assert_eq!(
            result.error_us,
            WireError {
                p50: Some(3),
                p99: Some(9),
                max: Some(9)
            }
        );
    }

    #[test]
    fn a_wire_that_is_late_or_lossy_by_itself_is_not_believed() {
        let flaw = |delay: &str, log: &WireLog| {
            flaw(&link(delay), log, &WireResult::of(log, Repeated::default()))
        };
        assert_eq!(flaw("0s", &log(2_000)), None);
        let late = flaw("0s", &log(2_001)).unwrap();
        assert!(late.contains("2.0 ms late"), "{late}");
        assert_eq!(flaw("50ms", &log(5_000)), None);
        assert!(flaw("50ms", &log(5_001)).is_some());
        let lossy = WireLog {
            overruns: 2,
            ..log(0)
        };
        assert!(flaw("0s", &lossy).unwrap().contains("lost 2 packets"));
        let lossy = WireLog {
            unsent: (1, Some("ENOBUFS".into())),
            ..log(0)
        };
        assert!(flaw("0s", &lossy).unwrap().contains("(ENOBUFS)"));
    }
}
