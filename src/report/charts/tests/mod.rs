//! Charts of made-up runs. The runs are here.

mod comparisons;
mod composition;
mod ladders;
mod pictures;
mod prepared;

use std::collections::BTreeMap;

use crate::arm::Arm;
use crate::manifest::{Host, Manifest};
use crate::observation::{
    Attempt, BeforeAfter, Counters, Cpu, Ended, Generator, Listener, Look, Measured, Namespace,
    Observation, SCHEMA_VERSION, Samples, Stage, TrialStatus,
};
use crate::plan::Plan;
use crate::result::{Results, results};

/// A run of one trial for each arm.
struct Run {
    results: Results,
    observations: Vec<Observation>,
}

fn run(arms: Vec<(String, Option<Measured>)>) -> Run {
    let settings = |name: &str, measured: Option<&Measured>| {
        let connections = measured.map_or(1, |one| one.attempts.len().max(1));
        let rate = name
            .split_once("rate=")
            .map_or_else(String::new, |(_, rate)| {
                format!("rate = \"{rate}/s\"\nduration = \"2s\"\n")
            });
        let text = format!(
            "title = \"what {name} is about\"\nwhy = \"w\"\n[server]\nbacklog = 1\naccept-delay = \"10ms\"\n[client]\n{rate}connections = {connections}\n[expect]\nlocal-limit = \"0..=1000\""
        );
        Arm {
            name: name.to_owned(),
            ..toml::from_str(&text).unwrap()
        }
    };
    let plan = Plan::new(
        arms.iter()
            .map(|(name, one)| settings(name, one.as_ref()))
            .collect(),
        1,
        7,
        Vec::new(),
    );
    let host = Host {
        kernel: Some("6.18.0".into()),
        architecture: None,
        cpus: Some(2),
    };
    let manifest = Manifest::new(
        Vec::new(),
        host,
        "2026-01-01T00:00:00Z".parse().unwrap(),
        plan,
    );
    let observations: Vec<Observation> = arms
        .into_iter()
        .map(|(arm, measured)| Observation {
            schema_version: SCHEMA_VERSION,
            arm,
            index: 0,
            status: if measured.is_some() {
                TrialStatus::Measured
            } else {
                TrialStatus::Skipped
            },
            reason: measured
                .is_none()
                .then(|| "net.core.nonesuch does not exist".into()),
            measured,
        })
        .collect();
    Run {
        results: results(&manifest, &observations),
        observations,
    }
}

fn attempt(n: u32, stage: Stage, ended: Ended, at_us: u64) -> Attempt {
    Attempt {
        n,
        intended_us: 0,
        started_us: 0,
        connected_us: (stage > Stage::Connect).then_some(at_us / 2),
        first_byte_us: (ended == Ended::Answered).then_some(at_us),
        ended_us: at_us,
        stage,
        ended,
        errno: None,
        local_port: None,
        source: None,
        server_port: None,
        server_side: None,
        requests: Vec::new(),
    }
}

fn look(recv_q: u32, send_q: u32, drops: u32) -> Look {
    Look {
        recv_q,
        send_q,
        drops: Some(drops),
    }
}

fn counters(overflows: i128, opens: i128) -> Counters {
    [
        ("TcpExt.ListenOverflows", overflows),
        ("TcpExt.ListenDrops", overflows),
        ("Tcp.ActiveOpens", opens),
    ]
    .map(|(name, value)| (name.to_owned(), Some(value)))
    .into()
}

fn measured(attempts: Vec<Attempt>, samples: Samples, overflows: i128) -> Measured {
    let opens = i128::try_from(attempts.len()).unwrap();
    let drops = samples.drops.iter().copied().flatten().last().unwrap_or(0);
    let sysctls = [
        ("net.ipv4.tcp_syn_retries", "6"),
        ("net.ipv4.tcp_syn_linear_timeouts", "4"),
    ];
    Measured {
        notes: Vec::new(),
        server: Namespace {
            sysctls: sysctls
                .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
                .into(),
            counters: BeforeAfter {
                before: Some(counters(0, 0)),
                after: Some(counters(overflows, opens)),
            },
            ..Namespace::default()
        },
        client: None,
        softnet_dropped: BeforeAfter::default(),
        ended_us: samples.at_us.last().map_or(2_000_000, |last| last + 500),
        listeners: vec![Listener {
            address: ([127, 0, 0, 1], 8080).into(),
            backlog_requested: Some(1),
            before: look(0, 1, 0),
            samples,
            after: look(0, 1, drops),
            closed_us: None,
        }],
        attempts,
        accepts: Vec::new(),
        program: None,
        tool: None,
        pending: Vec::new(),
        cpu: Cpu::default(),
        generator: Generator::default(),
        wire: None,
        accept_failures: BTreeMap::new(),
    }
}

/// Looks every millisecond, with this depth and these drops at each.
fn samples(n: u64, look: impl Fn(u64) -> (u32, u32)) -> Samples {
    Samples {
        period_us: 1_000,
        missed: 0,
        at_us: (0..n).map(|n| n * 1_000).collect(),
        recv_q: (0..n).map(|n| look(n).0).collect(),
        drops: (0..n).map(|n| Some(look(n).1)).collect(),
    }
}

/// Thirty answered, the others lost in every way there is.
fn every_fate() -> Vec<Attempt> {
    let lost = [
        (Stage::Connect, Ended::TimeUp, "", 150),
        (Stage::Receive, Ended::TimeUp, "", 7),
        (Stage::Connect, Ended::Error, "ECONNREFUSED", 3),
        (Stage::Receive, Ended::Error, "ECONNRESET", 4),
        (Stage::Receive, Ended::EndOfStream, "", 2),
        (Stage::Receive, Ended::WrongAnswer, "", 1),
        (Stage::Connect, Ended::Error, "EADDRNOTAVAIL", 1),
        (Stage::Connect, Ended::Error, "EHOSTUNREACH", 2),
    ];
    let mut attempts: Vec<Attempt> = (0..30)
        .map(|n| {
            attempt(
                n,
                Stage::Receive,
                Ended::Answered,
                1_000 + u64::from(n) * 60_000,
            )
        })
        .collect();
    for (stage, ended, errno, n) in lost {
        for _ in 0..n {
            let n = u32::try_from(attempts.len()).unwrap();
            let errno = (!errno.is_empty()).then(|| errno.to_owned());
            attempts.push(Attempt {
                errno,
                ..attempt(n, stage, ended, 2_000_000)
            });
        }
    }
    attempts
}

fn busy() -> Measured {
    let burst = |n: u64| if n < 1_000 { 150 } else { 300 };
    measured(
        every_fate(),
        samples(2_200, |n| (u32::from(n < 2_000) * 2, burst(n))),
        362,
    )
}

fn quiet() -> Measured {
    let attempts = (0..200)
        .map(|n| attempt(n, Stage::Receive, Ended::Answered, 500 + u64::from(n)))
        .collect();
    measured(attempts, samples(12, |_| (0, 0)), 0)
}

/// A queue that was full at first and is empty after `n` tenths of the trial.
fn emptied(n: u64) -> Measured {
    let attempts = (0..30)
        .map(|n| attempt(n, Stage::Receive, Ended::Answered, 100))
        .collect();
    measured(attempts, samples(12, |at| (u32::from(at < n) * 2, 0)), 0)
}

/// Runs that a layout may stumble over.
fn runs() -> Vec<(&'static str, Run)> {
    let named = |name: &str, one: Measured| (name.to_owned(), Some(one));
    let long = |n: usize| {
        format!("folder/a-rather-long-name-that-says-everything-about-arm-{n}-and-then-some-more")
    };
    let matrix = |names: &[&str]| names.iter().map(|name| named(name, busy())).collect();
    let many_levels: Vec<String> = (0..16)
        .map(|n| {
            format!(
                "overflow-policy/abort={},cookies={},link=wire-25ms,first={}",
                n / 8,
                n / 4 % 2,
                n % 4
            )
        })
        .collect();
    let many_levels: Vec<&str> = many_levels.iter().map(String::as_str).collect();
    let one_look = measured(
        vec![attempt(0, Stage::Receive, Ended::Answered, 900)],
        samples(1, |_| (1, 0)),
        0,
    );
    let no_look = measured(Vec::new(), samples(0, |_| (0, 0)), 0);
    let mut blind = busy();
    blind.server.counters = BeforeAfter::default();
    blind.listeners[0].samples.drops[5] = None;
    let mut deaf = quiet();
    deaf.listeners.clear();
    let huge = measured(
        (0..28_000)
            .map(|n| attempt(n, Stage::Connect, Ended::TimeUp, 2_000_000 + u64::from(n)))
            .collect(),
        samples(4_000, |n| {
            (
                u32::try_from(n % 4_097).unwrap(),
                u32::try_from(n * 300).unwrap(),
            )
        }),
        1_234_567_890,
    );
    vec![
        (
            "three arms",
            run(vec![
                named("arm-a", busy()),
                named("arm-b", quiet()),
                named("arm-c", busy()),
            ]),
        ),
        ("one arm", run(vec![named("arm-a", busy())])),
        ("one look", run(vec![named("arm-a", one_look)])),
        (
            "nothing at all",
            run(vec![
                named("arm-a", no_look.clone()),
                named("arm-b", no_look),
            ]),
        ),
        (
            "everything unknown",
            run(vec![
                named("arm-a", blind),
                named("arm-b", deaf),
                ("arm-c".into(), None),
            ]),
        ),
        (
            "all quiet",
            run((0..5)
                .map(|n| named(&format!("arm-{n}"), quiet()))
                .collect()),
        ),
        (
            "sixteen",
            run((0..16)
                .map(|n| named(&long(n), if n % 3 == 0 { quiet() } else { busy() }))
                .collect()),
        ),
        (
            "large numbers",
            run(vec![named("arm-a", huge), named("arm-b", quiet())]),
        ),
        (
            "forty",
            run((0..40).map(|n| named(&long(n), busy())).collect()),
        ),
        (
            "two by two",
            run(matrix(&[
                "m/b=1,d=0s",
                "m/b=1,d=80ms",
                "m/b=128,d=0s",
                "m/b=128,d=80ms",
            ])),
        ),
        (
            "a matrix with a hole",
            run(matrix(&["m/b=1,d=0s", "m/b=1,d=80ms", "m/b=128,d=0s"])),
        ),
        ("four factors", run(matrix(&many_levels))),
        (
            "remedies",
            run((0..6)
                .map(|n| named(&long(n), if n == 0 { busy() } else { emptied(n as u64) }))
                .collect()),
        ),
        (
            "two groups of steps",
            run(vec![
                named("m/b=1,rate=50", quiet()),
                named("m/b=1,rate=120", busy()),
                named("m/b=9,rate=50", quiet()),
                named("m/b=9,rate=120", busy()),
            ]),
        ),
        (
            "steps",
            run(vec![
                named("s/rate=50", quiet()),
                named("s/rate=120", quiet()),
                named("s/rate=150", busy()),
                ("s/rate=300".into(), None),
            ]),
        ),
        (
            "a wire",
            run(vec![
                named("policy/link=wire", ladders::wired()),
                named("policy/link=loopback", busy()),
            ]),
        ),
    ]
}
