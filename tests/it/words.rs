//! What reports say: every sentence that a reader relies on, held against readings that call for it.

use backlog_lab::arm::Arm;
use backlog_lab::observation::{Ended, Look, Measured};

use crate::pipeline::{Scripted, accept, attempt, measured, port, run};

/// One client, served by a program whose limit and somaxconn were read so.
fn of_a_program(limit: u32, somaxconn: Option<u32>) -> Measured {
    let mut readings = measured(
        vec![attempt(0, port(0), Ended::Answered)],
        vec![accept(100, port(0))],
    );
    let look = Look {
        recv_q: 0,
        send_q: limit,
        drops: Some(0),
    };
    readings.listeners[0].backlog_requested = None;
    readings.listeners[0].before = look;
    readings.listeners[0].after = look;
    let value = somaxconn.map(|value| value.to_string());
    let sysctls = &mut readings.server.sysctls;
    sysctls.insert("net.core.somaxconn".into(), value);
    readings
}

/// A limit below somaxconn is what the program asked for; one that equals it is at most that.
#[test]
fn a_programs_limit_is_told_with_who_set_it() {
    for (set_up, limit, somaxconn, words) in [
        (
            None,
            511,
            Some(4096),
            "The limit in force, 511, is what the program asked for: net.core.somaxconn, 4096, allows more.",
        ),
        (
            Some(511),
            511,
            Some(4096),
            "The limit in force, 511, is what the program asked for: net.core.somaxconn, 4096, allows more.",
        ),
        (
            Some(1024),
            511,
            Some(4096),
            "what the program asked for, though it was set up for 1024",
        ),
        (
            None,
            128,
            Some(128),
            "The limit in force, 128, is net.core.somaxconn: the program asked for at least that.",
        ),
        (
            Some(128),
            128,
            Some(128),
            "128, is net.core.somaxconn: the program asked for at least that.",
        ),
        (
            Some(511),
            128,
            Some(128),
            "128, is net.core.somaxconn: the program asked for 511; clamped",
        ),
        (None, 128, None, "128; who set it is unknown."),
    ] {
        let backlog = set_up.map_or_else(String::new, |asked: i32| format!("backlog = {asked}\n"));
        let text = format!(
            "title = \"t\"\nwhy = \"w\"\n[server]\ncommand = [\"served\"]\nport = 8080\n{backlog}[client]\nconnections = 1\n"
        );
        let arm = Arm {
            name: "one".into(),
            ..toml::from_str(&text).expect("an arm")
        };
        let lab = Scripted(|_: &str| Ok(of_a_program(limit, somaxconn)));
        let told = run(vec![arm], &lab).arms.remove(0).verdict.text;
        assert!(
            told.contains(words),
            "{set_up:?} {limit} {somaxconn:?}: {told}"
        );
    }
}
