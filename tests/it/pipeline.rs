//! From a plan to a report on a scripted lab: what the kernel could answer, and what must become of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use backlog_lab::arm::{Arm, Server};
use backlog_lab::load::Progress;
use backlog_lab::manifest::{Host, Manifest};
use backlog_lab::observation::{
    Accept, Attempt, BeforeAfter, Counters, Cpu, Ended, Generator, Listener, Look, Measured,
    Namespace, Peer, Samples, ServerSide, Stage,
};
use backlog_lab::plan::{Plan, Trial};
use backlog_lab::report;
use backlog_lab::result::{Results, Status, results};
use backlog_lab::run::{Lab, RunFolder, TrialError, execute};

/// A lab that answers each trial by its arm's name.
pub(crate) struct Scripted<F>(pub(crate) F);

impl<F: Fn(&str) -> Result<Measured, TrialError> + Sync> Lab for Scripted<F> {
    fn ready(&self) -> Result<(), TrialError> {
        Ok(())
    }

    fn observe(&self, trial: Trial<'_>, _: &Arc<Progress>) -> Result<Measured, TrialError> {
        (self.0)(&trial.arm.name)
    }
}

pub(crate) fn arm(name: &str, connections: u32, more: &str) -> Arm {
    let text = format!(
        "title = \"t\"\nwhy = \"w\"\n[server]\nbacklog = 1\n[client]\nconnections = {connections}\n{more}"
    );
    Arm {
        name: name.into(),
        ..toml::from_str(&text).expect("an arm")
    }
}

/// The port of the `n`-th attempt.
pub(crate) fn port(n: u32) -> u16 {
    40_000 + u16::try_from(n).expect("few attempts")
}

pub(crate) fn attempt(n: u32, port: u16, ended: Ended) -> Attempt {
    Attempt {
        n,
        intended_us: 0,
        started_us: 10,
        connected_us: Some(60),
        first_byte_us: (ended == Ended::Answered).then_some(900),
        ended_us: 1_000,
        stage: Stage::Receive,
        ended,
        errno: None,
        local_port: Some(port),
        source: None,
        server_port: None,
        server_side: None,
        requests: Vec::new(),
    }
}

pub(crate) fn accept(at_us: u64, port: u16) -> Accept {
    Accept {
        at_us,
        listener: 0,
        acceptor: 0,
        peer: Peer::Inet(([127, 0, 0, 1], port).into()),
        error: None,
    }
}

pub(crate) fn counters(pairs: &[(&str, i128)]) -> Counters {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Some(*value)))
        .collect()
}

/// Readings in which both sides agree that nothing special happened.
pub(crate) fn measured(attempts: Vec<Attempt>, accepts: Vec<Accept>) -> Measured {
    let opens = i128::try_from(attempts.len()).expect("a count");
    let look = Look {
        recv_q: 0,
        send_q: 1,
        drops: Some(0),
    };
    Measured {
        notes: Vec::new(),
        server: Namespace {
            counters: BeforeAfter {
                before: Some(counters(&[
                    ("TcpExt.ListenOverflows", 5),
                    ("TcpExt.ListenDrops", 5),
                    ("Tcp.ActiveOpens", 0),
                ])),
                after: Some(counters(&[
                    ("TcpExt.ListenOverflows", 5),
                    ("TcpExt.ListenDrops", 5),
                    ("Tcp.ActiveOpens", opens),
                ])),
            },
            ..Namespace::default()
        },
        client: None,
        softnet_dropped: BeforeAfter {
            before: Some(3),
            after: Some(3),
        },
        listeners: vec![Listener {
            address: ([127, 0, 0, 1], 8080).into(),
            backlog_requested: Some(1),
            before: look,
            samples: Samples {
                period_us: 1_000,
                at_us: vec![0, 1_000],
                recv_q: vec![0, 1],
                drops: vec![Some(0), None],
                missed: 0,
            },
            after: look,
            closed_us: None,
        }],
        attempts,
        accepts,
        program: None,
        pending: Vec::new(),
        cpu: Cpu::default(),
        generator: Generator::default(),
        tool: None,
        ended_us: 1_000,
        wire: None,
        accept_failures: BTreeMap::new(),
    }
}

pub(crate) fn manifest(plan: Plan) -> Manifest {
    let host = Host {
        kernel: Some("6.18.0".into()),
        architecture: None,
        cpus: Some(2),
    };
    let started_at = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    Manifest::new(vec!["backlog-lab".into()], host, started_at, plan)
}

pub(crate) fn run_plan(plan: Plan, lab: &(impl Lab + Sync)) -> Results {
    let manifest = manifest(plan);
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::create(folder.path(), &manifest).expect("a folder");
    execute(&manifest.plan, lab, &run, |_| {}).expect("stored observations");
    let (run, manifest) = RunFolder::open(folder.path()).expect("a manifest");
    let observations = run.observations(&manifest.plan).expect("observations");
    let results = results(&manifest, &observations);
    let once = report::files(&manifest, &observations, &results);
    assert!(
        once == report::files(&manifest, &observations, &results),
        "reports differ"
    );
    results
}

pub(crate) fn run(arms: Vec<Arm>, lab: &(impl Lab + Sync)) -> Results {
    run_plan(Plan::new(arms, 1, 7, Vec::new()), lab)
}

pub(crate) fn one(
    more: &str,
    connections: u32,
    readings: impl Fn() -> Measured + Sync,
) -> backlog_lab::result::ArmResult {
    run(
        vec![arm("one", connections, more)],
        &Scripted(|_: &str| Ok(readings())),
    )
    .arms
    .remove(0)
}

#[test]
fn the_sum_of_the_outcomes_is_the_number_of_attempts() {
    let ends = [
        Ended::Answered,
        Ended::WrongAnswer,
        Ended::EndOfStream,
        Ended::TimeUp,
        Ended::Held,
    ];
    let result = one("", 5, || {
        let attempts = (0..)
            .zip(ends)
            .map(|(n, ended)| attempt(n, port(n), ended))
            .collect();
        measured(attempts, vec![accept(100, 40_000)])
    });
    let trial = &result.trials[0];
    assert_eq!(trial.attempts, Some(5));
    assert_eq!(
        trial
            .outcomes
            .as_ref()
            .expect("outcomes")
            .values()
            .sum::<u32>(),
        5
    );
    assert_eq!(
        trial.latency_ms.answered.expect("latencies").p50,
        None,
        "one sample has no median"
    );
    assert_eq!(trial.latency_ms.answered.expect("latencies").n, 1);
}

/// An attempt that is missing is a bug of the lab, never a smaller total.
#[test]
fn a_lost_attempt_makes_the_trial_invalid() {
    let result = one("", 3, || {
        measured(vec![attempt(0, 1, Ended::Answered)], Vec::new())
    });
    assert_eq!(result.trials[0].status, Status::Invalid);
    assert!(
        result.trials[0]
            .reason
            .as_deref()
            .is_some_and(|reason| reason.contains("1 of 3"))
    );
    assert!(result.summary.is_empty(), "nothing invalid is averaged in");
}

#[test]
fn ghosts_are_told_apart_and_wasted_accepts_are_counted() {
    let result = one("", 5, || {
        let sides = [
            Some(ServerSide::Established),
            Some(ServerSide::HalfOpen),
            Some(ServerSide::Nothing),
        ];
        let mut attempts: Vec<Attempt> = (0..)
            .zip(sides)
            .map(|(n, side)| Attempt {
                server_side: side,
                ..attempt(n, port(n), Ended::TimeUp)
            })
            .collect();
        attempts.push(Attempt {
            server_side: Some(ServerSide::Established),
            ..attempt(3, 50_000, Ended::TimeUp)
        });
        attempts.push(attempt(4, 50_001, Ended::Answered));
        measured(attempts, vec![accept(500, 50_001), accept(5_000, 50_000)])
    });
    let trial = &result.trials[0];
    let ghosts = trial.ghosts.expect("ghosts");
    assert_eq!((ghosts.waiting, ghosts.half_open, ghosts.lost), (1, 1, 1));
    assert_eq!((trial.accepted, trial.wasted_accepts), (Some(2), Some(1)));
}

/// A port can be used again: accepts are given to the attempts in the order of their arrival.
#[test]
fn a_port_that_is_used_twice_is_joined_in_order() {
    let result = one("", 2, || {
        let first = Attempt {
            server_side: Some(ServerSide::Nothing),
            ..attempt(0, 40_000, Ended::TimeUp)
        };
        let second = Attempt {
            started_us: 2_000,
            connected_us: Some(2_050),
            ended_us: 3_000,
            ..attempt(1, 40_000, Ended::Answered)
        };
        measured(vec![first, second], vec![accept(2_500, 40_000)])
    });
    let never = Attempt {
        connected_us: None,
        stage: Stage::Connect,
        ..attempt(0, 40_000, Ended::TimeUp)
    };
    let later = Attempt {
        started_us: 2_000,
        connected_us: Some(2_050),
        ..attempt(1, 40_000, Ended::Answered)
    };
    let both = one("", 2, || {
        measured(
            vec![never.clone(), later.clone()],
            vec![accept(2_500, 40_000)],
        )
    });
    assert_eq!(
        both.trials[0].wasted_accepts,
        Some(0),
        "the one that was connected is meant"
    );
    let trial = &result.trials[0];
    assert_eq!(trial.ghosts.expect("ghosts").lost, 1);
    assert_eq!(trial.wasted_accepts, Some(0));
}

/// Counters that cannot be read are unknown; the clients' results are still there.
#[test]
fn missing_counters_are_unknown_and_said_so() {
    let result = one(
        "[expect]\nok = 1\n\"TcpExt.ListenOverflows\" = 0",
        1,
        || {
            let mut readings =
                measured(vec![attempt(0, 1, Ended::Answered)], vec![accept(5_000, 1)]);
            readings.server.counters = BeforeAfter::default();
            readings
        },
    );
    let trial = &result.trials[0];
    assert_eq!(trial.status, Status::Ok);
    assert_eq!(
        trial.counters.problem.as_deref(),
        Some("counters unavailable")
    );
    assert_eq!(
        result.verdict.met, None,
        "what is unknown meets nothing and misses nothing"
    );
    let met: BTreeMap<_, _> = result
        .verdict
        .expectations
        .iter()
        .map(|one| (one.key.as_str(), one.met))
        .collect();
    assert_eq!(
        met,
        BTreeMap::from([("ok", Some(true)), ("TcpExt.ListenOverflows", None)])
    );
    assert!(
        result.verdict.text.contains("overflows are unknown"),
        "{}",
        result.verdict.text
    );
}

/// A kernel that emulates the counter files with zeros must not be believed.
#[test]
fn counters_that_do_not_move_are_not_believed() {
    let result = one("[expect]\n\"TcpExt.ListenOverflows\" = 0", 1, || {
        let mut readings = measured(vec![attempt(0, 1, Ended::TimeUp)], Vec::new());
        readings.server.counters.after = readings.server.counters.before.clone();
        readings
    });
    let problem = result.trials[0].counters.problem.as_deref();
    assert_eq!(
        problem,
        Some("counters do not move here (sandboxed kernel?)")
    );
    assert_eq!(
        result.trials[0].counters.server["TcpExt.ListenOverflows"],
        None
    );
    assert_eq!(result.verdict.met, None);
}

/// The plain counters may move where the extended ones are all zeros: those are not believed either.
#[test]
fn extended_counters_that_are_all_zero_are_not_believed_beside_timeouts() {
    let zeros = || {
        let unconnected = Attempt {
            connected_us: None,
            stage: Stage::Connect,
            ..attempt(0, 1, Ended::TimeUp)
        };
        let mut readings = measured(vec![unconnected], Vec::new());
        for counters in [
            &mut readings.server.counters.before,
            &mut readings.server.counters.after,
        ] {
            let counters = counters.as_mut().expect("counters");
            counters.insert("TcpExt.ListenOverflows".into(), Some(0));
            counters.insert("TcpExt.ListenDrops".into(), Some(0));
        }
        readings
    };
    let result = one("", 1, zeros);
    let problem = result.trials[0].counters.problem.as_deref();
    assert_eq!(
        problem,
        Some("counters do not move here (sandboxed kernel?)")
    );
    assert!(
        result.verdict.text.contains("overflows are unknown"),
        "{}",
        result.verdict.text
    );
}

/// A counter that this kernel does not have meets no expectation, and the run says so by its exit code.
#[test]
fn an_unknown_figure_meets_nothing() {
    let arms = vec![arm("one", 1, "[expect]\n\"TcpExt.NoSuchCounter\" = 0")];
    let lab = Scripted(|_: &str| Ok(measured(vec![attempt(0, 1, Ended::Answered)], Vec::new())));
    let results = run(arms, &lab);
    assert_eq!(results.arms[0].verdict.met, None);
    assert_eq!(results.exit_code(), 3);
    let text = report::verdicts(&results, 80);
    assert!(
        text.contains("expected TcpExt.NoSuchCounter = 0, observed unknown"),
        "{text}"
    );
}

/// The most serious code wins: 3, then 4, then 1.
#[test]
fn exit_codes_have_an_order() {
    let lab = Scripted(|name: &str| match name {
        "skipped" => Err(TrialError::Skipped("not here".into())),
        "failed" => Err(TrialError::Failed {
            reason: "broke off".into(),
            measured: None,
        }),
        _ => Ok(measured(
            vec![attempt(0, 1, Ended::Answered)],
            vec![accept(100, 1)],
        )),
    });
    let code = |names: &[&str]| {
        let arms = names.iter().map(|name| match *name {
            "missed" => arm(name, 1, "[expect]\nok = 5"),
            _ => arm(name, 1, "[expect]\nok = 1"),
        });
        run(arms.collect(), &lab).exit_code()
    };
    assert_eq!(code(&["met"]), 0);
    assert_eq!(code(&["met", "missed"]), 1);
    assert_eq!(code(&["missed", "failed"]), 4);
    assert_eq!(code(&["missed", "failed", "skipped"]), 3);
}

/// Whatever the arms, no line is wider than the terminal and the columns stay columns.
#[test]
fn tables_fit_80_and_120_columns() {
    let ends = [
        Ended::Answered,
        Ended::WrongAnswer,
        Ended::EndOfStream,
        Ended::TimeUp,
        Ended::Error,
    ];
    let lab = Scripted(|name: &str| {
        let mut attempts: Vec<Attempt> = (0..)
            .zip(ends)
            .map(|(n, ended)| attempt(n, port(n), ended))
            .collect();
        attempts[4].errno = Some(
            if name.len().is_multiple_of(2) {
                "ECONNRESET"
            } else {
                "EMFILE"
            }
            .into(),
        );
        Ok(measured(attempts, Vec::new()))
    });
    let long = "overflow-policy/abort=1,cookies=0,link=loopback-ipv6,first=server";
    let names: Vec<String> = (0..16)
        .map(|n| format!("{long}{}", "x".repeat(n % 3)))
        .collect();
    let short = ["a", "bb"].map(String::from).to_vec();
    for names in [&names[..3], &short] {
        let results = run(
            names
                .iter()
                .map(|name| arm(name, 5, "[expect]\nlocal-limit = \"0..=1\""))
                .collect(),
            &lab,
        );
        for width in [80, 120] {
            let table = report::comparison(&results, width);
            for line in table
                .lines()
                .chain(report::verdicts(&results, width).lines())
            {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            let rows: Vec<&str> = table.lines().filter(|line| line.contains("1/5")).collect();
            assert_eq!(rows.len(), names.len(), "{table}");
            let column = |line: &&str| line.find("1/5").map(|start| start + 3);
            assert!(
                rows.iter().all(|row| column(row) == column(&rows[0])),
                "{table}"
            );
        }
    }
}

#[test]
fn a_counter_that_goes_backwards_makes_the_trial_invalid() {
    let result = one("", 1, || {
        let mut readings = measured(vec![attempt(0, 1, Ended::Answered)], Vec::new());
        let after = readings.server.counters.after.as_mut().expect("counters");
        after.insert("TcpExt.ListenDrops".into(), Some(4));
        readings
    });
    assert_eq!(result.trials[0].status, Status::Invalid);
    assert!(
        result.trials[0]
            .reason
            .as_deref()
            .is_some_and(|reason| reason.contains("TcpExt.ListenDrops"))
    );
}

/// A trial that breaks off keeps what it had read; a trial that is not allowed has no figures at all.
#[test]
fn every_status_is_kept_apart() {
    let lab = Scripted(|name: &str| match name {
        "good" => Ok(measured(vec![attempt(0, 1, Ended::Answered)], Vec::new())),
        "skipped" => Err(TrialError::Skipped("sysctl x does not exist here".into())),
        _ => Err(TrialError::Failed {
            reason: "the sampler broke off".into(),
            measured: Some(Box::new(measured(
                vec![attempt(0, 1, Ended::TimeUp)],
                Vec::new(),
            ))),
        }),
    });
    let results = run(
        ["failed", "good", "skipped"]
            .map(|name| arm(name, 1, ""))
            .into(),
        &lab,
    );
    let [failed, good, skipped] = [0, 1, 2].map(|n| &results.arms[n].trials[0]);
    assert_eq!(
        [failed.status, good.status, skipped.status],
        [Status::Failed, Status::Ok, Status::Skipped]
    );
    assert_eq!(failed.attempts, Some(1), "measured data is kept");
    assert!(results.arms[0].summary.is_empty(), "and not averaged in");
    assert_eq!(skipped.attempts, None);
    assert!(results.arms[2].verdict.text.contains("does not exist here"));
    assert!(results.complete);
}

/// A delta of zero mentions no drop, whatever the counters stood at before.
#[test]
fn old_overflows_are_not_mentioned() {
    let result = one("", 1, || {
        measured(vec![attempt(0, 1, Ended::Answered)], vec![accept(100, 1)])
    });
    assert_eq!(result.verdict.text, "Clean: 1 of 1 answered. No overflow.");
}

/// The clamp is named, and nobody is told that a final ACK was dropped.
#[test]
fn the_binding_limit_is_named() {
    let result = one("", 1, || {
        measured(vec![attempt(0, 1, Ended::Answered)], Vec::new())
    });
    assert!(!result.verdict.text.contains("somaxconn"));
    let mut clamped = arm("one", 1, "");
    let Server::Own(server) = &mut clamped.server else {
        panic!("the lab's own server");
    };
    server.backlog = 1_000;
    let lab = Scripted(|_: &str| Ok(measured(vec![attempt(0, 1, Ended::Answered)], Vec::new())));
    let text = run(vec![clamped], &lab).arms.remove(0).verdict.text;
    assert!(
        text.contains("net.core.somaxconn") && text.contains("1000"),
        "{text}"
    );
    assert!(!text.contains("ACK"), "{text}");
}

#[test]
fn expectations_for_other_kernels_are_not_judged() {
    let result = one("[expect]\nkernel = \">=7.0\"\nok = 99", 1, || {
        measured(vec![attempt(0, 1, Ended::Answered)], Vec::new())
    });
    assert_eq!(result.verdict.met, None);
    assert!(
        result
            .verdict
            .not_judged
            .as_deref()
            .is_some_and(|why| why.contains(">=7.0"))
    );
}
