//! Every fate of a connection, met by a client that speaks HTTP.

use std::sync::Arc;

use backlog_lab::arm::Source;
use backlog_lab::load::Progress;
use backlog_lab::observation::Measured;
use backlog_lab::plan::Plan;
use backlog_lab::result::{Outcome, outcome};
use backlog_lab::run::{KernelLab, Lab};
use libtest_mimic::Trial;

use crate::test;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("http/every-fate-keeps-its-name", every_fate_keeps_its_name),
        test(
            "http/connect-and-answer-are-apart",
            connect_and_answer_are_apart,
        ),
    ]
}

fn observe(settings: &str) -> Measured {
    let text = format!("title = \"http\"\nwhy = \"a test\"\nprotocol.kind = \"http\"\n{settings}");
    let arms = Source::new("http", &text).arms(&[]).expect("an arm");
    let plan = Plan::new(arms, 1, 1, Vec::new());
    let measured = KernelLab::default().observe(plan.order()[0], &Arc::new(Progress::default()));
    measured.unwrap_or_else(|error| panic!("{settings}: {error}"))
}

fn every_fate_keeps_its_name() {
    let cases: &[(&str, &[Outcome])] = &[
        ("server.backlog = 4", &[Outcome::Ok]),
        (
            "server.backlog = 4\nprotocol.keep-alive = true",
            &[Outcome::Ok],
        ),
        (
            "server.backlog = 4\nserver.answer = \"503\"",
            &[Outcome::WrongData],
        ),
        (
            "server.backlog = 4\nserver.answer = \"503\"\nprotocol.status = 503",
            &[Outcome::Ok],
        ),
        (
            "server.backlog = 4\nserver.answer = \"close\"",
            &[Outcome::ClosedEarly],
        ),
        (
            "server.backlog = 4\nserver.listen = false",
            &[Outcome::Refused],
        ),
        (
            "server.backlog = 0\nserver.accept = \"never\"\nclient.timeout = \"300ms\"\n\
             client.connections = 2\nclient.start = \"one-by-one\"\nclient.spread = \"100ms\"",
            &[Outcome::ReadTimeout, Outcome::ConnectTimeout],
        ),
    ];
    for (settings, expected) in cases {
        let attempts = observe(settings).attempts;
        let outcomes: Vec<Outcome> = attempts.iter().map(outcome).collect();
        assert_eq!(outcomes, *expected, "{settings}: {attempts:?}");
    }
}

/// A server that accepts late: the connection is there at once, its answer is not.
fn connect_and_answer_are_apart() {
    let measured = observe("server.backlog = 4\nserver.accept-from = \"300ms\"");
    let attempt = &measured.attempts[0];
    let (connected, answered) = (
        attempt.connected_us.expect("a connection"),
        attempt.first_byte_us.expect("an answer"),
    );
    assert!(answered >= 300_000, "{attempt:?}");
    assert!(connected < answered, "{attempt:?}");
}
