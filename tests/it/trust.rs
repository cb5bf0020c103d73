//! Whether a run may be believed: the books of a trial and what the lab says of itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backlog_lab::arm::{End, Flags, Server, Span};
use backlog_lab::manifest::{Host, Manifest};
use backlog_lab::observation::{
    Attempt, BeforeAfter, Ended, EndedBy, Measured, Packet, ServerProgram, ServerSide, Stage,
    Verdict, WireLog,
};
use backlog_lab::plan::Plan;
use backlog_lab::report;
use backlog_lab::report::charts::{Options, charts};
use backlog_lab::result::{ArmResult, Kind, Status};

use crate::pipeline::{Scripted, accept, arm, attempt, counters, measured, one, run, run_plan};

/// A flood of two with one that is answered and one whose SYN and its repetition meet the full queue.
pub(crate) fn one_loser() -> Measured {
    let loser = Attempt {
        connected_us: None,
        stage: Stage::Connect,
        ..attempt(1, 40_001, Ended::TimeUp)
    };
    let answered = attempt(0, 40_000, Ended::Answered);
    let mut readings = measured(vec![answered, loser], vec![accept(100, 40_000)]);
    let zero = [
        "Tcp.PassiveOpens",
        "TcpExt.EmbryonicRsts",
        "TcpExt.SyncookiesRecv",
        "TcpExt.SyncookiesSent",
        "TcpExt.TCPDeferAcceptDrop",
        "TcpExt.TCPReqQFullDrop",
        "TcpExt.TCPSYNChallenge",
        "TcpExt.TCPSynRetrans",
    ];
    let before = readings.server.counters.before.as_mut().expect("counters");
    before.extend(zero.map(|name| (name.to_owned(), Some(0))));
    let grown = [
        ("Tcp.ActiveOpens", 2),
        ("Tcp.PassiveOpens", 1),
        ("TcpExt.TCPSynRetrans", 1),
        ("TcpExt.ListenOverflows", 5 + 2),
        ("TcpExt.ListenDrops", 5 + 2),
    ];
    let mut after = before.clone();
    after.extend(counters(&grown));
    readings.server.counters.after = Some(after);
    readings.server.rx_dropped = BeforeAfter {
        before: Some(BTreeMap::from([("lo".into(), 0)])),
        after: Some(BTreeMap::from([("lo".into(), 0)])),
    };
    readings.server.sysctls = [
        ("tcp_abort_on_overflow", "0"),
        ("tcp_max_syn_backlog", "128"),
        ("tcp_synack_retries", "5"),
        ("tcp_syncookies", "1"),
    ]
    .map(|(name, value)| (format!("net.ipv4.{name}"), Some(value.to_owned())))
    .into();
    readings.listeners[0].after.drops = Some(2);
    readings
}

pub(crate) fn holds(result: &ArmResult, identity: &str) -> Option<bool> {
    let books = &result.trials[0].books;
    let entry = books.iter().find(|one| one.identity.starts_with(identity));
    entry.unwrap_or_else(|| panic!("{identity}")).holds
}

#[test]
fn books_that_close_explain_every_overflow() {
    let result = one("", 2, one_loser);
    for entry in &result.trials[0].books {
        assert_ne!(entry.holds, Some(false), "{entry:?}");
        assert_eq!(entry.holds.is_none(), entry.not_judged.is_some());
    }
    assert_eq!(holds(&result, "TcpExt.ListenOverflows ="), Some(true));
    let terms: Vec<(&str, i64)> = result.trials[0]
        .why_overflows
        .iter()
        .map(|term| (term.what, term.packets))
        .collect();
    assert_eq!(
        terms,
        [
            ("first SYNs", 2),
            ("repeated SYNs", 1),
            ("handshakes that were completed", -1)
        ]
    );
}

#[test]
fn the_table_of_overflows_adds_up() {
    let table = report::why_overflows(&one("", 2, one_loser)).expect("a table");
    for line in [
        "Why 2 overflows for one losing client (trial 0):",
        "| first SYNs | + 2 |",
        "| handshakes that were completed | - 1 |",
        "| **packets that met the full accept queue** | **= 2** |",
    ] {
        assert!(table.contains(line), "{line} in {table}");
    }
    let quiet = one("", 1, || {
        measured(vec![attempt(0, 1, Ended::Answered)], vec![accept(100, 1)])
    });
    assert_eq!(report::why_overflows(&quiet), None);
}

/// Each identity notices the reading that contradicts it, and the trial says so wherever it is shown.
#[test]
fn books_that_do_not_close_are_flagged() {
    for (counter, identity) in [
        ("Tcp.ActiveOpens", "Tcp.ActiveOpens ="),
        ("Tcp.PassiveOpens", "Tcp.PassiveOpens ="),
        ("TcpExt.TCPReqQFullDrop", "TcpExt.ListenDrops ="),
        ("TcpExt.TCPSynRetrans", "TcpExt.ListenOverflows ="),
    ] {
        let lab = Scripted(|_: &str| {
            let mut readings = one_loser();
            let after = readings.server.counters.after.as_mut().expect("counters");
            *after.get_mut(counter).expect("a counter") = Some(99);
            Ok(readings)
        });
        let results = run(vec![arm("one", 2, "")], &lab);
        let result = &results.arms[0];
        assert_eq!(holds(result, identity), Some(false), "{counter}");
        let notes = result.trials[0].notes.join("\n");
        assert!(
            notes.contains("the books do not close: ") && notes.contains(identity),
            "{notes}"
        );
        let text = report::verdicts(&results, 200);
        assert!(text.contains("[the books do NOT close]"), "{text}");
    }
}

/// What cannot be known is not judged, in either direction.
#[test]
fn books_without_their_precondition_are_not_judged() {
    let lossy = || {
        let mut readings = one_loser();
        readings.server.rx_dropped.after = Some(BTreeMap::from([("lo".into(), 3)]));
        readings
    };
    assert_eq!(holds(&one("", 2, lossy), "TcpExt.ListenOverflows ="), None);
    let small = || {
        let mut readings = one_loser();
        let mut set = |name: &str, value: &str| {
            let name = format!("net.ipv4.{name}");
            readings.server.sysctls.insert(name, Some(value.into()));
        };
        set("tcp_syncookies", "0");
        set("tcp_max_syn_backlog", "1");
        readings
    };
    assert_eq!(holds(&one("", 2, small), "TcpExt.ListenDrops ="), None);
    let closed = one("", 2, one_loser);
    assert_eq!(holds(&closed, "TcpExt.EmbryonicRsts ="), None);
}

/// A client that could not do its part says nothing about the server.
#[test]
fn a_saturated_client_makes_the_trial_invalid() {
    let reason = |more: &str, change: fn(&mut Measured)| {
        let result = one(more, 2, || {
            let mut readings = one_loser();
            change(&mut readings);
            readings
        });
        let trial = &result.trials[0];
        assert_eq!(trial.status == Status::Ok, trial.reason.is_none());
        assert_eq!(trial.status == Status::Ok, !result.summary.is_empty());
        trial.reason.clone().unwrap_or_default()
    };
    assert_eq!(reason("", |_| {}), "");
    let threads = reason("", |readings| {
        readings.generator.workers = Some(1);
        readings.generator.problem = Some("cannot start client thread 2 of 2: EAGAIN".into());
    });
    assert!(
        threads.contains("1 of 2 threads: cannot start client thread 2"),
        "{threads}"
    );
    let no_port: fn(&mut Measured) = |readings| {
        readings.attempts[1].ended = Ended::Error;
        readings.attempts[1].errno = Some("EADDRNOTAVAIL".into());
    };
    let limit = reason("", no_port);
    assert!(
        limit.contains("1 attempts met a limit") && limit.contains("connect:EADDRNOTAVAIL"),
        "{limit}"
    );
    assert_eq!(
        reason("[expect]\nlocal-limit = 1", no_port),
        "",
        "an arm can be about it"
    );
    let late = reason("", |readings| readings.attempts[1].started_us = 700_000);
    assert!(late.contains("began 700 ms late"), "{late}");
    let in_turn = reason("start = \"one-by-one\"", |readings| {
        readings.attempts[1].started_us = 700_000;
    });
    assert_eq!(in_turn, "", "each begins in its turn, and none is late");
}

/// What does not spoil a trial is still said.
#[test]
fn a_busy_machine_is_noted() {
    let result = one("", 2, || {
        let mut readings = one_loser();
        readings.ended_us = 400_000;
        readings.attempts[1].started_us = 150_000;
        readings.attempts[1].ended_us = 350_000;
        readings.generator.open_files = Some(40);
        readings.cpu.client_us = Some(200_000);
        readings.cpu.idle_ticks = BeforeAfter {
            before: Some(0),
            after: Some(1),
        };
        readings.cpu.all_ticks = BeforeAfter {
            before: Some(0),
            after: Some(80),
        };
        readings
    });
    let trial = &result.trials[0];
    assert_eq!(trial.self_check.client_cpu_percent, Some(25.0));
    assert_eq!(trial.self_check.sampler_gap_max_ms, Some(399.0));
    let notes = trial.notes.join("\n");
    for part in [
        "an attempt began 150 ms late",
        "nobody looked at the listener for 399 ms",
        "only 1 % idle, and the lab's clients used 25 % of it",
        "the limit of 40 open files is below the 68",
    ] {
        assert!(notes.contains(part), "{part} in {notes}");
    }
}

/// A cookie's ghost is a client whose ACK did not come through: where it went is said only as far as it is known.
#[test]
fn a_cookies_ghost_lost_its_ack_where_the_evidence_says() {
    let ghost = |overflows: i128| {
        move || {
            let mut readings = one_loser();
            readings.attempts[1] = Attempt {
                server_side: Some(ServerSide::Nothing),
                ..attempt(1, 40_001, Ended::TimeUp)
            };
            let after = readings.server.counters.after.as_mut().expect("counters");
            after.extend(counters(&[
                ("TcpExt.SyncookiesSent", 1),
                ("TcpExt.ListenOverflows", 5 + overflows),
                ("TcpExt.ListenDrops", 5 + overflows),
            ]));
            if overflows == 0 {
                let syn = (10, End::Server, Flags::SYN, Verdict::Passed);
                let syn_ack = (20, End::Client, Flags::SYN | Flags::ACK, Verdict::Passed);
                let ack = (60, End::Server, Flags::ACK, Verdict::Lost);
                readings.wire = Some(wire(40_001, &[syn, syn_ack, ack]));
            }
            readings
        }
    };
    let text = |overflows| one("", 2, ghost(overflows)).verdict.text;
    let (queue, wire) = (text(2), text(0));
    assert!(
        queue.contains("remembers nothing and drops its ACK at a full queue."),
        "{queue}"
    );
    assert!(
        wire.contains("remembers nothing until its ACK comes. No queue dropped such an ACK")
            && wire.contains("1 lost their packets on the wire"),
        "{wire}"
    );
}

/// The record of a wire with these packets of one connection.
fn wire(port: u16, packets: &[(u64, End, u8, Verdict)]) -> WireLog {
    let packet = |&(at_us, to, flags, verdict): &(u64, End, u8, Verdict)| {
        let arrives_us = (verdict == Verdict::Passed).then_some(at_us + 5);
        Packet {
            at_us,
            to,
            client_port: port,
            flags: Flags::of_byte(flags),
            seq: 1,
            ack: 1,
            length: 0,
            verdict,
            due_us: arrives_us,
            sent_us: arrives_us,
        }
    };
    WireLog {
        packets: packets.iter().map(packet).collect(),
        ..WireLog::default()
    }
}

/// Zero drops is not "clean": every kind of trouble has its word.
#[test]
fn verdicts_have_a_kind() {
    let quiet = || {
        let mut readings = one_loser();
        readings.attempts[1] = attempt(1, 40_001, Ended::Answered);
        readings.accepts.push(accept(200, 40_001));
        let both = &mut readings.server.counters;
        let after = both.after.as_mut().expect("counters");
        after.extend(counters(&[
            ("Tcp.PassiveOpens", 2),
            ("TcpExt.TCPSynRetrans", 0),
            ("TcpExt.ListenOverflows", 5),
            ("TcpExt.ListenDrops", 5),
        ]));
        readings.listeners[0].after.drops = Some(0);
        readings
    };
    let kind = |more: &str, readings: &(dyn Fn() -> Measured + Sync)| {
        let result = one(more, 2, readings);
        let text = result.verdict.text;
        (result.verdict.kind.expect("a kind"), text)
    };
    assert_eq!(kind("", &quiet).0, Kind::Clean);
    let slow = kind("", &|| {
        let mut readings = quiet();
        readings.attempts[1].first_byte_us = Some(1_200_010);
        readings.attempts[1].ended_us = 1_200_100;
        readings
    });
    assert_eq!(slow.0, Kind::Slow);
    assert!(
        slow.1.contains("the slowest waited 1.2 s of the 2 s"),
        "{}",
        slow.1
    );
    let give_up = || {
        let mut readings = quiet();
        readings.attempts[1] = attempt(1, 40_001, Ended::TimeUp);
        readings.accepts[1].at_us = 100_100;
        readings.listeners[0].samples.recv_q[1] = 150;
        readings
    };
    let mut slow = arm("one", 2, "");
    let Server::Own(server) = &mut slow.server else {
        panic!("the lab's own server");
    };
    server.accept_delay = Span::from_ms(100);
    let lab = Scripted(|_: &str| Ok(give_up()));
    let verdict = run(vec![slow], &lab).arms.remove(0).verdict;
    assert_eq!(
        verdict.text.matches("longer").count(),
        1,
        "the useful length is said once: {}",
        verdict.text
    );
    let overloaded = kind("", &give_up);
    assert_eq!(overloaded.0, Kind::Overloaded);
    for part in [
        "Overloaded: 1 of 2",
        "10.0 accepts per second",
        "up to 20 is still useful",
    ] {
        assert!(overloaded.1.contains(part), "{part} in {}", overloaded.1);
    }
    assert_eq!(kind("", &one_loser).0, Kind::Overflowing);
    let stopped: &(dyn Fn() -> Measured + Sync) = &|| {
        let mut readings = one_loser();
        readings.listeners[0].after.recv_q = 2;
        readings.ended_us = 3_000_100;
        readings
    };
    let (stopped, text) = kind("", stopped);
    assert_eq!(stopped, Kind::AcceptStopped);
    assert!(
        text.contains("Nothing was accepted in the last 3.0 s, with 2 waiting"),
        "{text}"
    );
    assert!(!text.contains("increase"), "{text}");
    let before = kind("", &|| {
        let mut readings = one_loser();
        readings.server.rx_dropped.after = Some(BTreeMap::from([("lo".into(), 30)]));
        readings
    });
    assert_eq!(before.0, Kind::DroppedBeforeTheListener);
    assert!(
        before.1.contains("dropped 30 packets before"),
        "{}",
        before.1
    );
    let wrong = kind("", &|| {
        let mut readings = quiet();
        readings.attempts[1].ended = Ended::WrongAnswer;
        readings
    });
    assert_eq!(wrong.0, Kind::Failing);
}

/// Trials go on until the interval is tight, and a run that did not get there says so loudly.
#[test]
fn an_open_end_is_reached_or_said_not_to_be() {
    let run_until = |steady: bool, most: u32| {
        let trials = AtomicU32::new(0);
        let lab = Scripted(move |_: &str| {
            let n = trials.fetch_add(1, Ordering::Relaxed);
            let answered = if steady || n.is_multiple_of(2) { 2 } else { 1 };
            let attempts = (0..2)
                .map(|n| {
                    let ended = if n < answered {
                        Ended::Answered
                    } else {
                        Ended::TimeUp
                    };
                    attempt(n, 40_000 + u16::try_from(n).expect("few"), ended)
                })
                .collect();
            Ok(measured(attempts, Vec::new()))
        });
        let mut plan = Plan::new(vec![arm("one", 2, "")], most, 7, Vec::new());
        plan.schedule.until = Some("5%".parse().expect("an open end"));
        run_plan(plan, &lab)
    };
    let steady = run_until(true, 50);
    assert_eq!(steady.arms[0].trials.len(), 5);
    assert!(steady.complete);
    assert!(
        steady.arms[0]
            .until
            .as_ref()
            .is_some_and(|until| until.reached)
    );
    let text = report::verdicts(&steady, 200);
    assert!(text.contains("ok is within 0.0 % after 5 trials"), "{text}");
    let wavering = run_until(false, 8);
    assert_eq!(wavering.arms[0].trials.len(), 8);
    assert!(wavering.complete, "as many as were allowed");
    let text = report::verdicts(&wavering, 200);
    assert!(
        text.contains("NOT REACHED: ok within 5 %; it is within"),
        "{text}"
    );
    assert_eq!((steady.exit_code(), wavering.exit_code()), (0, 1));
    assert_eq!(report::not_reached(&steady), Vec::<String>::new());
    let said = report::not_reached(&wavering).join("\n");
    assert!(
        said.starts_with("one: NOT REACHED: ok within 5 %"),
        "{said}"
    );
    let host = Host {
        kernel: None,
        architecture: None,
        cpus: None,
    };
    let mut plan = Plan::new(vec![arm("one", 2, "")], 8, 7, Vec::new());
    plan.schedule.until = Some("5%".parse().expect("an open end"));
    let manifest = Manifest::new(Vec::new(), host, wavering.started_at, plan);
    let (_, readme) = report::readme(&manifest, &[], &wavering, &[]);
    let readme = String::from_utf8(readme).expect("text");
    assert!(
        readme.contains(&format!("## Result\n\n**{said}.**")),
        "{readme}"
    );
    for (name, chart) in charts(&wavering, &[], Options::default()) {
        let svg = String::from_utf8(chart.expect("a chart").svg).expect("text");
        assert!(svg.contains("--until NOT REACHED in 1 of 1 arms"), "{name}");
    }
}

/// A warm-up runs first and counts nowhere; trials at once are the same trials.
#[test]
fn warm_ups_and_jobs() {
    let run_with = |jobs: u32, warm_up: bool| {
        let trials = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&trials);
        let lab = Scripted(move |_: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(measured(
                vec![attempt(0, 1, Ended::Answered)],
                vec![accept(100, 1)],
            ))
        });
        let arms = ["one", "two", "three"].map(|name| arm(name, 1, ""));
        let mut plan = Plan::new(arms.to_vec(), 4, 7, Vec::new());
        plan.schedule.jobs = jobs;
        plan.schedule.warm_up = warm_up;
        (run_plan(plan, &lab), trials.load(Ordering::Relaxed))
    };
    let (serial, count) = run_with(1, false);
    assert_eq!(count, 12);
    let (warm, count) = run_with(1, true);
    assert_eq!(count, 15);
    assert_eq!(serial.arms, warm.arms);
    let (parallel, count) = run_with(8, false);
    assert_eq!(count, 12);
    assert!(parallel.complete);
    assert_eq!(
        serial.arms, parallel.arms,
        "by arm and index, whoever ended first"
    );
}

#[test]
fn the_ports_of_listeners_are_counted_once_however_many_sockets_share_them() {
    let refused = Attempt {
        connected_us: None,
        stage: Stage::Connect,
        errno: Some("EADDRNOTAVAIL".into()),
        ..attempt(0, 40_000, Ended::Error)
    };
    let mut readings = measured(vec![refused], Vec::new());
    readings.listeners = vec![readings.listeners[0].clone(); 3];
    let range = ("net.ipv4.ip_local_port_range", "8080\t8081");
    let sysctls = &mut readings.server.sysctls;
    sysctls.insert(range.0.into(), Some(range.1.into()));
    let results = run(
        vec![arm("a", 1, "")],
        &Scripted(|_: &str| Ok(readings.clone())),
    );
    let ports = results.arms[0].trials[0].self_check.ports.expect("ports");
    assert_eq!(ports.computed, Some(1));
}

#[test]
fn a_pause_that_did_not_happen_is_noted() {
    let text = "title = \"t\"\nwhy = \"w\"\nclient.connections = 1\nserver.command = [\"serve\"]\nserver.port = 1\n\
                server.pause = { at = \"1s\", for = \"1s\" }";
    let arm = backlog_lab::arm::Arm {
        name: "a".into(),
        ..toml::from_str(text).expect("an arm")
    };
    let notes = |paused_us| {
        let program = ServerProgram {
            command: vec!["serve".into()],
            ready_us: 1,
            open_files: None,
            paused_us,
            ended_by: EndedBy::Sigterm,
            ended: "exited with 0".into(),
            stubborn: Vec::new(),
            output_bytes: 0,
            output_left_out: 0,
        };
        let readings = Measured {
            program: Some(program),
            ..measured(Vec::new(), Vec::new())
        };
        let lab = Scripted(|_: &str| Ok(readings.clone()));
        run(vec![arm.clone()], &lab).arms[0].trials[0]
            .notes
            .join("; ")
    };
    assert!(
        notes(None).contains("was not stopped at 1s"),
        "{}",
        notes(None)
    );
    assert!(!notes(Some((1, None))).contains("not stopped"));
}
