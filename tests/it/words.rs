//! What reports say: every sentence that a reader relies on, held against readings that call for it.

use backlog_lab::arm::{Arm, Source};
use backlog_lab::manifest::{Host, Manifest};
use backlog_lab::observation::{Ended, Look, Measured, ServerSide};
use backlog_lab::plan::Plan;
use backlog_lab::report;
use backlog_lab::run::RunFolder;

use crate::pipeline::{Scripted, accept, attempt, counters, measured, one, port, run};
use crate::trust::one_loser;

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

/// A half-open handshake can be ended by either side; the table of the overflows says by which.
#[test]
fn who_reset_a_half_open_handshake_is_said() {
    let ended_by = |server_side: ServerSide| {
        let result = one("", 2, || {
            let mut readings = one_loser();
            readings.attempts[1] = attempt(1, port(1), Ended::TimeUp);
            readings.attempts[1].server_side = Some(server_side);
            let resets = counters(&[("TcpExt.EmbryonicRsts", 1)]);
            readings
                .server
                .counters
                .after
                .as_mut()
                .expect("counters")
                .extend(resets);
            let by_client = u32::from(server_side == ServerSide::HalfOpen);
            readings.listeners[0].after.drops = Some(3 + by_client);
            readings
        });
        report::why_overflows(&result).expect("a table")
    };
    let by_client = ended_by(ServerSide::HalfOpen);
    let line = "| half-open handshakes that clients reset when they gave up | - 1 |";
    assert!(by_client.contains(line), "{by_client}");
    let by_server = ended_by(ServerSide::Nothing);
    let line = "| half-open handshakes that the server reset (tcp_abort_on_overflow) | - 1 |";
    assert!(by_server.contains(line), "{by_server}");
}

/// Where the overflows cannot be taken apart, the reader is told why, and where they can nothing is said.
#[test]
fn overflows_that_are_not_judged_say_why() {
    let why = |change: fn(&mut Measured)| {
        let readings = || {
            let mut readings = one_loser();
            change(&mut readings);
            readings
        };
        let result = one("", 2, readings);
        assert!(
            report::why_overflows(&result).is_none() || report::why_not_judged(&result).is_none()
        );
        report::why_not_judged(&result)
    };
    assert_eq!(why(|_| {}), None);
    let blind = why(|readings| {
        readings.attempts[1] = attempt(1, port(1), Ended::TimeUp);
    });
    assert_eq!(
        blind.as_deref(),
        Some(
            "Why there were 2 overflows (trial 0) is not judged: what the server held of a client that left is unknown"
        )
    );
    let open = why(|readings| {
        let more = counters(&[("TcpExt.TCPSynRetrans", 9)]);
        readings
            .server
            .counters
            .after
            .as_mut()
            .expect("counters")
            .extend(more);
    });
    assert_eq!(
        open.as_deref(),
        Some(
            "Why there were 2 overflows (trial 0) is not judged: the totals do not agree, they give 10"
        )
    );
    let unread = why(|readings| {
        let gone = "net.ipv4.tcp_synack_retries";
        readings.server.sysctls.remove(gone);
    });
    assert!(unread.is_some_and(|told| told.contains("tcp_synack_retries is unknown")));
}

/// Where no run can be kept, the whole path and the way out are told: the current folder is easily forgotten.
#[test]
fn a_place_that_cannot_hold_a_run_is_named_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let reports = folder.path().join("reports");
    std::fs::write(&reports, "in the way").expect("a file");
    let host = Host {
        kernel: None,
        architecture: None,
        cpus: None,
    };
    let started_at = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    let plan = Plan::new(Vec::new(), 1, 7, Vec::new());
    let manifest = Manifest::new(Vec::new(), host, started_at, plan);
    let error = RunFolder::create_below(&reports, manifest).expect_err("a file is no folder");
    let told = error.to_string();
    assert!(told.contains(&reports.display().to_string()), "{told}");
    assert!(told.ends_with("; name another one with -o DIR"), "{told}");
}

/// Ten answers have no median: that is said, and not printed as dashes with a unit.
#[test]
fn a_loop_with_few_answers_says_so() {
    let told = |n: u32| {
        let text = format!(
            "title = \"t\"\nwhy = \"w\"\n[server]\nbacklog = 1\n[client]\nrate = \"{n}/s\"\nduration = \"1s\"\n"
        );
        let arms = Source::new("one", &text).arms(&[]).expect("an arm");
        let lab = Scripted(move |_: &str| {
            let attempts = (0..n).map(|n| attempt(n, port(n), Ended::Answered));
            let accepts = (0..n).map(|n| accept(100, port(n)));
            Ok(measured(attempts.collect(), accepts.collect()))
        });
        let results = run(arms, &lab);
        format!(
            "{}\n{}",
            report::comparison(&results, 80),
            report::verdicts(&results, 800)
        )
    };
    let few = told(10);
    assert!(few.contains("too few (10)"), "{few}");
    assert!(
        few.contains("Open loop, 10/s: too few were answered for percentiles"),
        "{few}"
    );
    assert!(!few.contains("-/-"), "{few}");
    let some = told(20);
    assert!(
        some.contains("p50/p90 0.9/0.9 ms from the intended start"),
        "{some}"
    );
    assert!(some.contains("0.9/- (20)"), "{some}");
}
