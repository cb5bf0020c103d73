//! Ladders from scripted readings.

use backlog_lab::observation::{Observation, TrialStatus};
use backlog_lab::report::ladder::{Event, Ladders, Story, examples, text};
use serde_json::{Value, json};

use crate::causes::{attempt, measured, packet};

/// A trial of two attempts on ports 1000 and 1001, over a wire with these packets.
fn trial(attempts: &Value, packets: &[Value]) -> Observation {
    let counters = json!({ "TcpExt.ListenOverflows": 1, "TcpExt.ListenDrops": 1 });
    let mut measured = measured(&counters, &json!({}), attempts);
    let wire =
        json!({ "cpu": 1, "overruns": 0, "unsent": [0, null], "captured": 0, "packets": packets });
    measured.wire = Some(serde_json::from_value(wire).expect("a wire's record"));
    Observation {
        schema_version: 1,
        arm: "policy/link=wire".into(),
        index: 0,
        status: TrialStatus::Measured,
        reason: None,
        measured: Some(measured),
    }
}

#[test]
fn a_ladder_shows_every_packet_once_and_nothing_else() {
    let packets = [
        packet(10, "server", "SYN", 0, "lost"),
        packet(1_000_010, "server", "SYN", 0, "passed"),
        packet(1_000_040, "client", "SYN+ACK", 0, "passed"),
        packet(1_000_070, "server", "ACK", 0, "passed"),
    ];
    let silent = attempt(
        0,
        "receive",
        "time-up",
        &json!({
            "connected_us": 1_000_066,
            "ended_us": 1_900_066,
            "server_side": "half-open",
        }),
    );
    let observation = trial(&json!([silent]), &packets);
    let ladders = Ladders::of(&observation).expect("readings");
    let ladder = ladders.ladder(0);
    let shown = ladder
        .rungs
        .iter()
        .filter(|rung| matches!(rung.event, Event::Packet(_)));
    assert_eq!(shown.count(), packets.len());
    assert_eq!(ladder.story, Story::GhostByDroppedAck);
    assert_eq!(
        text(&ladder, 80),
        "connection 0: ghost by dropped ACK (cause: final-ack-dropped)\n\
         policy/link=wire, trial 0\n\
         \n\
         \x20       ms  client                            server          ms  accept queue\n\
         \x20     0.00  connect\n\
         \x20     0.01  SYN ---------------x lost\n\
         \x20  1000.01  SYN again ----------------------------->     1000.03  2 of 2, full\n\
         \x20  1000.06  <------------------------------- SYN+ACK     1000.04  2 of 2, full\n\
         \x20  1000.06  connected\n\
         \x20  1000.07  ACK ----------------------------------->     1000.09  2 of 2, full\n\
         \x20  1900.06  time is up, no answer\n"
    );
}

#[test]
fn every_story_has_one_example() {
    let on = |port: u16| json!({ "local_port": port, "server_side": "half-open" });
    let attempts = json!([
        attempt(0, "receive", "answered", &on(1000)),
        attempt(0, "receive", "answered", &on(1001)),
        attempt(0, "receive", "time-up", &on(1002)),
        attempt(0, "connect", "time-up", &on(1003)),
    ]);
    let port = |port: u16, mut packet: Value| {
        packet[2] = json!(port);
        packet
    };
    let packets = [
        port(1001, packet(10, "server", "SYN", 0, "passed")),
        port(1002, packet(10, "server", "SYN", 0, "passed")),
        port(1002, packet(20, "server", "ACK", 0, "passed")),
        port(1001, packet(1_000_010, "server", "SYN", 0, "passed")),
    ];
    let observation = trial(&attempts, &packets);
    let ladders = [Ladders::of(&observation).expect("readings")];
    let stories: Vec<(Story, usize)> = examples(&ladders)
        .into_iter()
        .map(|(place, n)| (ladders[place].story(n), n))
        .collect();
    assert_eq!(
        stories,
        [
            (Story::AnsweredAtOnce, 0),
            (Story::AnsweredAfterRetry, 1),
            (Story::ConnectTimeout, 3),
            (Story::GhostByDroppedAck, 2),
        ]
    );
}
