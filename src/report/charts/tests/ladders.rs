//! Ladders as figures: every event of the record is there once, and nothing else.

use super::super::scene::Mark;
use super::super::{Figure, Options, charts, figures, paint};
use super::{attempt, busy, look, measured, run, samples};
use crate::arm::{End, Flags};
use crate::observation::{Attempt, Ended, Measured, Packet, ServerSide, Stage, Verdict, WireLog};

const SYN: u8 = Flags::SYN;
const SYN_ACK: u8 = Flags::SYN | Flags::ACK;
const ACK: u8 = Flags::ACK;

/// A packet of the `n`-th client.
fn packet(n: u16, at_us: u64, to: End, flags: u8, verdict: Verdict) -> Packet {
    let arrives = matches!(verdict, Verdict::Passed | Verdict::Duplicated);
    Packet {
        at_us,
        to,
        client_port: 1_000 + n,
        flags: Flags::of_byte(flags),
        seq: 1,
        ack: 1,
        length: 0,
        verdict,
        due_us: arrives.then_some(at_us + 25_000),
        sent_us: arrives.then_some(at_us + 25_003),
    }
}

/// A trial over a wire: answered at once, answered after many retries, a ghost, a connect timeout, a refusal.
pub(super) fn wired() -> Measured {
    use End::{Client, Server};
    use Verdict::{Duplicated, Lost, Passed, QueueFull};
    let ends = [
        (Stage::Receive, Ended::Answered, 120_000),
        (Stage::Receive, Ended::Answered, 40_000_000),
        (Stage::Receive, Ended::TimeUp, 900_000),
        (Stage::Connect, Ended::TimeUp, 900_000),
        (Stage::Connect, Ended::Error, 50_000),
    ];
    let attempts = ends.into_iter().zip(0..);
    let attempts: Vec<Attempt> = attempts
        .map(|((stage, ended, at_us), n)| Attempt {
            local_port: Some(1_000 + n),
            server_side: Some(ServerSide::HalfOpen),
            errno: (ended == Ended::Error).then(|| "ECONNREFUSED".into()),
            ..attempt(n.into(), stage, ended, at_us)
        })
        .collect();
    let handshake = |n, at_us, ack| {
        [
            packet(n, at_us, Server, SYN, Passed),
            packet(n, at_us + 25_010, Client, SYN_ACK, Passed),
            packet(n, at_us + 50_020, Server, ACK, ack),
        ]
    };
    let mut packets = Vec::new();
    packets.extend(handshake(0, 20, Duplicated));
    packets.extend((0..30).map(|n| packet(1, 20 + n * 1_000_000, Server, SYN, Lost)));
    packets.extend(handshake(1, 31_000_000, Passed));
    packets.extend(handshake(2, 20, Passed));
    packets.push(packet(3, 20, Server, SYN, QueueFull));
    packets.push(packet(4, 20, Server, SYN, Passed));
    packets.push(packet(4, 25_030, Client, Flags::RST | ACK, Passed));
    packets.sort_by_key(|packet| packet.at_us);
    let mut one = measured(attempts, samples(900, |n| (u32::from(n > 60) * 2, 0)), 2);
    one.listeners[0].before = look(0, 4_096, 0);
    one.wire = Some(WireLog {
        packets,
        ..WireLog::default()
    });
    one
}

fn ladders(one: Measured) -> Vec<Figure> {
    let run = run(vec![
        ("policy/link=wire".into(), Some(one)),
        ("policy/link=loopback".into(), Some(busy())),
    ]);
    figures(&run.results, &run.observations, Options::default())
        .into_iter()
        .filter(|figure| figure.id.file_stem().starts_with("ladder-"))
        .collect()
}

#[test]
fn every_fate_of_a_wire_has_one() {
    let figures = ladders(wired());
    let names: Vec<String> = figures.iter().map(|one| one.id.file_stem()).collect();
    assert_eq!(
        names,
        [
            "ladder-answered-at-once",
            "ladder-answered-after-a-syn-retry",
            "ladder-connect-timeout",
            "ladder-ghost-by-dropped-ack",
            "ladder-refused",
        ]
    );
    let titles: Vec<&str> = figures.iter().map(|one| one.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "Answered at once: done after 120 ms",
            "Answered after a SYN retry: 31 SYNs, connected after 20 s",
            "Connect timeout: 1 SYN, and no connection in 900 ms",
            "Ghost by dropped ACK: connected after 450 ms, and never so at the server",
            "Refused after 50 ms: nobody listens there",
        ]
    );
    let without = Measured {
        wire: None,
        ..wired()
    };
    assert!(ladders(without).is_empty());
}

/// An arrow for each packet that arrived, a cross for each that did not, and words for each event: no more.
#[test]
fn a_figure_shows_what_is_recorded_and_nothing_else() {
    let heads = |figure: &Figure| {
        let is_head = |mark: &&Mark| matches!(mark, Mark::Head { .. });
        figure.scene.marks.iter().filter(is_head).count()
    };
    let words = |figure: &Figure, word: &str| {
        let texts = figure.scene.texts.iter();
        texts.filter(|text| text.words == word).count()
    };
    let figures = ladders(wired());
    let arrows: Vec<usize> = figures.iter().map(heads).collect();
    // The second is too long: its first eleven events and its last five are shown.
    assert_eq!(arrows, [3, 3, 0, 3, 2]);
    let [at_once, retried, timeout, ghost, _] = figures.as_slice() else {
        panic!("{} figures", figures.len());
    };
    assert_eq!(words(at_once, "ACK, twice"), 1);
    assert_eq!(
        (words(retried, "\u{d7} lost"), words(retried, "SYN again")),
        (10, 10)
    );
    assert_eq!(words(retried, "21 more events"), 1);
    assert_eq!(words(timeout, "\u{d7} queue full"), 1);
    for word in [
        "connect",
        "SYN",
        "SYN+ACK",
        "ACK",
        "connected",
        "time is up, no answer",
        "2 of 4097",
        "50.04",
        "450 ms later",
    ] {
        assert_eq!(words(ghost, word), 1, "{word}");
    }
    let svg = String::from_utf8(paint::svg(&ghost.scene).unwrap()).unwrap();
    for word in ["SYN+ACK", "time is up, no answer", "policy/link=wire"] {
        assert!(svg.contains(word), "{word}");
    }
    assert!(
        ghost.alt.contains("50.04 ms ACK to the server"),
        "{}",
        ghost.alt
    );
}

#[test]
fn the_pictures_are_small_and_marked_as_ladders() {
    let run = run(vec![("policy/link=wire".into(), Some(wired()))]);
    let charts = charts(&run.results, &run.observations, Options::default());
    let ladders: Vec<_> = charts
        .into_iter()
        .filter_map(|(_, chart)| chart.ok())
        .filter(|chart| chart.is_ladder)
        .collect();
    assert_eq!(ladders.len(), 5);
    for chart in ladders {
        assert!(chart.png.len() < 300_000, "{}", chart.name);
    }
}
