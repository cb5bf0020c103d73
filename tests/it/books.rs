//! The books of a trial over a wire and of clients that speak first: judged where their preconditions hold.

use backlog_lab::arm::End;
use backlog_lab::observation::{Ended, Measured, Packet, ServerSide, Verdict, WireLog};

use crate::pipeline::{accept, attempt, counters, one};
use crate::trust::{holds, one_loser};

const WIRE: &str = "[link]\nkind = \"wire\"";
const FIRST: &str = "[protocol]\nspeaks-first = \"client\"";
const OVERFLOWS: &str = "TcpExt.ListenOverflows =";
const RESETS: &str = "TcpExt.EmbryonicRsts =";
const ANSWERS: &str = "TcpExt.TCPSYNChallenge of";
const CHILDREN: &str = "Tcp.PassiveOpens =";

/// What is done to the readings and the packets.
type Change = fn(&mut Measured, &mut Vec<Packet>);

fn packet(at_us: u64, to: End, client: u16, flags: &str) -> Packet {
    Packet {
        at_us,
        to,
        client_port: 40_000 + client,
        flags: flags.parse().expect("flags"),
        seq: 0,
        ack: 0,
        length: 0,
        verdict: Verdict::Passed,
        due_us: Some(at_us + 5),
        sent_us: Some(at_us + 5),
    }
}

/// The flood with one loser, over a wire that a change can be made to.
fn over_a_wire(change: Change) -> Measured {
    let mut readings = one_loser();
    readings.client = Some(readings.server.clone());
    set(&mut readings, &[("TcpExt.TCPSynRetrans", 0)], &[]);
    let mut packets = vec![
        packet(10, End::Server, 0, "SYN"),
        packet(11, End::Server, 1, "SYN"),
        packet(16, End::Client, 0, "SYN+ACK"),
        packet(22, End::Server, 0, "ACK"),
        packet(500, End::Server, 1, "SYN"),
    ];
    change(&mut readings, &mut packets);
    readings.wire = Some(WireLog {
        packets,
        ..WireLog::default()
    });
    readings
}

/// Sets what counters of the server and of the client stand at in the end.
fn set(readings: &mut Measured, server: &[(&str, i128)], client: &[(&str, i128)]) {
    let both = [
        Some((&mut readings.server, server)),
        readings.client.as_mut().map(|one| (one, client)),
    ];
    for (namespace, pairs) in both.into_iter().flatten() {
        let after = namespace.counters.after.as_mut().expect("counters");
        after.extend(counters(pairs));
    }
}

fn kept(verdict: Verdict, packet: Packet) -> Packet {
    Packet {
        verdict,
        due_us: None,
        sent_us: None,
        ..packet
    }
}

/// Over a wire without loss everything is judged, and a wrong total is found.
#[test]
fn a_wire_has_books_too() {
    for more in [WIRE.to_owned(), format!("{WIRE}\n{FIRST}")] {
        let result = one(&more, 2, || over_a_wire(|_, _| {}));
        for identity in [OVERFLOWS, ANSWERS, CHILDREN] {
            assert_eq!(holds(&result, identity), Some(true), "{identity} {more}");
        }
        let wrong = one(&more, 2, || {
            over_a_wire(|readings, _| set(readings, &[("Tcp.PassiveOpens", 2)], &[]))
        });
        for identity in [OVERFLOWS, CHILDREN] {
            assert_eq!(holds(&wrong, identity), Some(false), "{identity} {more}");
        }
    }
}

/// A SYN that the wire kept met no listener.
#[test]
fn syns_that_the_wire_kept_are_taken_off() {
    let result = one(WIRE, 2, || {
        over_a_wire(|readings, packets| {
            packets[4] = kept(Verdict::Lost, packets[4]);
            set(
                readings,
                &[("TcpExt.ListenOverflows", 6), ("TcpExt.ListenDrops", 6)],
                &[],
            );
            readings.listeners[0].after.drops = Some(1);
        })
    });
    assert_eq!(holds(&result, OVERFLOWS), Some(true));
    let terms = &result.trials[0].why_overflows;
    assert!(
        terms
            .iter()
            .any(|term| (term.what, term.packets) == ("SYNs that the wire kept", -1)),
        "{terms:?}"
    );
}

/// What the packets do not settle is not judged, and the reason is said.
#[test]
fn a_wire_that_hides_something_is_not_judged() {
    let because = |more: &str, change: Change| {
        let result = one(&format!("{WIRE}\n{more}"), 2, || over_a_wire(change));
        assert_eq!(holds(&result, OVERFLOWS), None);
        let books = &result.trials[0].books;
        let entry = books.iter().find(|one| one.identity.starts_with(OVERFLOWS));
        entry.and_then(|one| one.not_judged).expect("a reason")
    };
    let cases: [(&str, Change, &str); 7] = [
        ("jitter = \"1ms\"", |_, _| {}, "overtake"),
        (
            "",
            |_, packets| packets[1].verdict = Verdict::Duplicated,
            "twice",
        ),
        ("", |_, packets| packets[3].sent_us = None, "under way"),
        (
            "",
            |_, packets| packets.push(packet(600, End::Server, 0, "SYN")),
            "after it had been answered",
        ),
        (
            "",
            |_, packets| packets.push(packet(600, End::Server, 1, "RST")),
            "bare reset",
        ),
        (
            "",
            |_, packets| {
                packets.push(kept(Verdict::Lost, packet(600, End::Server, 1, "RST+ACK")));
            },
            "kept a reset",
        ),
        (
            "",
            |readings, packets| {
                readings.attempts[1] = attempt(1, 40_001, Ended::TimeUp);
                readings.attempts[1].server_side = Some(ServerSide::Nothing);
                packets.push(packet(1_100, End::Server, 1, "ACK"));
            },
            "after the client had left",
        ),
    ];
    for (more, change, part) in cases {
        let reason = because(more, change);
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

/// A repeated SYN-ACK is a challenge only where it met a connected client.
#[test]
fn repeated_answers_are_followed_on_the_wire() {
    let again = |at_us: u64| {
        move |readings: &mut Measured, packets: &mut Vec<Packet>| {
            packets.push(packet(at_us, End::Client, 0, "SYN+ACK"));
            set(
                readings,
                &[("TcpExt.TCPSynRetrans", 1)],
                &[("TcpExt.TCPSYNChallenge", 1)],
            );
        }
    };
    let judge = |at_us: u64, change: fn(&mut Measured)| {
        let result = one(WIRE, 2, || {
            let mut readings = over_a_wire(|_, _| {});
            let mut packets = readings.wire.take().expect("a wire").packets;
            again(at_us)(&mut readings, &mut packets);
            change(&mut readings);
            readings.wire = Some(WireLog {
                packets,
                ..WireLog::default()
            });
            readings
        });
        holds(&result, ANSWERS)
    };
    assert_eq!(judge(300, |_| {}), Some(true));
    let unseen: fn(&mut Measured) = |one| set(one, &[], &[("TcpExt.TCPSYNChallenge", 0)]);
    assert_eq!(judge(300, unseen), Some(false));
    assert_eq!(judge(990, |_| {}), Some(true));
    assert_eq!(judge(1_000, |_| {}), None, "the client had left");
    let more: fn(&mut Measured) = |one| set(one, &[("TcpExt.TCPSynRetrans", 2)], &[]);
    assert_eq!(judge(300, more), None, "one more than the wire has seen");
}

/// With resets on, each client that the full queue resets is one; a reset that came too late is nobody's.
#[test]
fn resets_are_followed_on_the_wire() {
    let judge = |seen: bool| {
        let result = one(WIRE, 2, || {
            let mut readings = over_a_wire(|_, _| {});
            let abort = "net.ipv4.tcp_abort_on_overflow".to_owned();
            readings.server.sysctls.insert(abort, Some("1".into()));
            let loser = &mut readings.attempts[1];
            loser.connected_us = Some(60);
            if seen {
                (loser.ended, loser.errno) = (Ended::Error, Some("ECONNRESET".into()));
            } else {
                (loser.ended, loser.server_side) = (Ended::TimeUp, Some(ServerSide::Nothing));
            }
            set(&mut readings, &[("TcpExt.EmbryonicRsts", 1)], &[]);
            let at_us = if seen { 900 } else { 999 };
            let wire = readings.wire.as_mut().expect("a wire");
            wire.packets.push(packet(at_us, End::Client, 1, "RST"));
            readings
        });
        holds(&result, RESETS)
    };
    assert_eq!(judge(true), Some(true));
    assert_eq!(judge(false), None);
}

/// Two packets at once can meet on two processors: with resets off the totals tell whether they have.
#[test]
fn clients_that_speak_first_are_judged_where_nothing_was_counted_twice() {
    let result = one(FIRST, 2, one_loser);
    assert_eq!(holds(&result, OVERFLOWS), Some(true));
    assert_eq!(holds(&result, CHILDREN), None);
    let wrong = one(FIRST, 2, || {
        let mut readings = one_loser();
        set(&mut readings, &[("TcpExt.TCPSynRetrans", 9)], &[]);
        readings
    });
    assert_eq!(holds(&wrong, OVERFLOWS), Some(false));
    let twice = one(FIRST, 2, || {
        let mut readings = one_loser();
        set(&mut readings, &[("Tcp.PassiveOpens", 2)], &[]);
        readings
    });
    assert_eq!(holds(&twice, OVERFLOWS), None);
    let half_open = one(FIRST, 2, || {
        let mut readings = one_loser();
        readings.attempts[1] = attempt(1, 40_001, Ended::TimeUp);
        readings.attempts[1].server_side = Some(ServerSide::HalfOpen);
        readings.accepts = vec![accept(100, 40_000)];
        readings
    });
    assert_eq!(holds(&half_open, OVERFLOWS), None);
}
