//! What the fuzz targets do with their bytes. `tests/it/corpus.rs` does it with the committed corpus.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use std::str;

use backlog_lab::arm::{Arm, Source};
use backlog_lab::observation::Observation;
use backlog_lab::probe::{counters as counter_files, diag, drops, host};
use backlog_lab::report::ladder::{Ladders, examples, text};
use backlog_lab::result::{Status, trial_result};

/// Files of the proc filesystem: no panic, and no number that is not in the text.
pub(crate) fn counters(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    for (name, value) in counter_files::parse(text).counters {
        let is_there = |value| words(text).any(|word| word.parse() == Ok(value));
        let invented = value.filter(|value: &i128| !is_there(*value));
        assert_eq!(invented, None, "{name}");
    }
    if let Ok(rows) = drops::parse_softnet(text) {
        assert!(rows.len() <= text.lines().count());
    }
    if let Ok(interfaces) = drops::parse_rx_dropped(text) {
        for (name, drops) in interfaces {
            let is_there = words(text).any(|word| word.parse() == Ok(drops));
            assert!(is_there, "{name}");
        }
    }
    // Its sum may be large, but not a panic.
    let _ = host::parse_ticks(text);
}

/// What stands between blanks and colons: a number may follow its section's colon at once.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == ':')
}

/// Answers of `sock_diag`: no panic, and no look whose numbers are not in the bytes.
pub(crate) fn sock_diag(bytes: &[u8]) {
    let Ok(looks) = diag::looks(bytes) else {
        return;
    };
    let holds = |number: u32| bytes.windows(4).any(|four| four == number.to_ne_bytes());
    for look in looks {
        assert!(holds(look.recv_q) && holds(look.send_q), "{look:?}");
        assert!(look.drops.is_none_or(holds), "{look:?}");
    }
}

/// Arm files: no panic, and what is read is what is written.
pub(crate) fn arm(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let Ok(arms) = Source::new("fuzzed", text).arms(&[]) else {
        return;
    };
    for arm in arms {
        let written = toml::to_string(&arm).expect("an arm can be written");
        let again: Arm = toml::from_str(&written).expect("and read");
        let again = Arm {
            name: arm.name.clone(),
            ..again
        };
        assert_eq!(arm, again);
    }
}

/// Stored observations: no panic, totals that follow from what was stored, and a ladder for every client.
pub(crate) fn observation(bytes: &[u8]) {
    let Ok(observation) = serde_json::from_slice::<Observation>(bytes) else {
        return;
    };
    let plain = "title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\nclient.connections = 2";
    // The books of a wire and of clients that speak first rest on the packets.
    let wire = format!("{plain}\nlink.kind = \"wire\"\nprotocol.speaks-first = \"client\"");
    for arm in [plain, &wire] {
        derived(&toml::from_str(arm).expect("an arm"), &observation);
    }
    let Some(ladders) = Ladders::of(&observation) else {
        return;
    };
    for n in 0..ladders.len() {
        let lines = text(&ladders.ladder(n), 80);
        assert!(lines.contains("connect"), "{lines}");
    }
    let is_empty = ladders.is_empty();
    assert_eq!(examples(&[ladders]).is_empty(), is_empty);
}

fn derived(arm: &Arm, observation: &Observation) {
    let result = trial_result(arm, observation);
    let attempts = observation.measured.as_ref().map(|one| one.attempts.len());
    assert_eq!(result.attempts.map(|n| n as usize), attempts);
    assert_eq!(result.accepted.is_none(), attempts.is_none());
    if result.status == Status::Ok {
        let outcomes: u32 = result.outcomes.iter().flatten().map(|(_, n)| n).sum();
        assert!(attempts.is_none() || outcomes == arm.client.connections);
    }
    let packets = observation
        .measured
        .as_ref()
        .and_then(|one| one.wire.as_ref());
    let counted = result
        .wire
        .as_ref()
        .map(|one| one.to_server.packets + one.to_client.packets);
    assert_eq!(
        counted.map(|n| n as usize),
        packets.map(|log| log.packets.len())
    );
    for entry in &result.books {
        assert_eq!(
            entry.holds.is_none(),
            entry.not_judged.is_some(),
            "{entry:?}"
        );
    }
    serde_json::to_vec(&result).expect("a result can be written");
}
