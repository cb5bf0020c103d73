//! Staircases of a model server: 100 accepted per second, 65 places, and a client with limits of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use backlog_lab::arm::{Arm, LoadKind, Server, Source};
use backlog_lab::observation::{Attempt, Ended, Measured, Stage};
use backlog_lab::plan::Plan;
use backlog_lab::report;
use backlog_lab::result::{Held, Limit, Results, Staircase, results};
use backlog_lab::run::{RunFolder, Sought, TrialError, seek};
use backlog_lab::search::Search;

use crate::pipeline::{Scripted, accept, attempt, counters, manifest, measured, run_plan};

const CAPACITY: u64 = 100;
const PLACES: u64 = 65;
const STEP_S: u64 = 4;

fn arms(rates: &[u64]) -> Vec<Arm> {
    let rates: Vec<String> = rates.iter().map(|rate| format!("\"{rate}/s\"")).collect();
    let text = format!(
        "title = \"t\"\nwhy = \"w\"\nserver.backlog = 64\nserver.accept-delay = \"10ms\"\n[client]\nrate = [{}]\nstep = \"{STEP_S}s\"",
        rates.join(", ")
    );
    Source::new("k80", &text).arms(&[]).expect("steps")
}

/// What a trial of so many per second reads: whoever comes when the queue is full is lost.
fn model(rate: u64, mut lost: impl FnMut(&mut Attempt)) -> Measured {
    let full_us = (rate > CAPACITY).then(|| PLACES * 1_000_000 / (rate - CAPACITY));
    let mut free_us = 0;
    let attempts: Vec<Attempt> = (0..rate * STEP_S)
        .map(|n| {
            let at_us = n * 1_000_000 / rate;
            let n = u32::try_from(n).expect("few");
            let mut one = Attempt {
                intended_us: at_us,
                started_us: at_us,
                connected_us: Some(at_us + 50),
                first_byte_us: Some(free_us.max(at_us + 60)),
                ended_us: free_us.max(at_us) + 100,
                ..attempt(n, 10_000 + u16::try_from(n).expect("few"), Ended::Answered)
            };
            if full_us.is_some_and(|full_us| at_us >= full_us) {
                (one.stage, one.ended) = (Stage::Connect, Ended::TimeUp);
                (one.connected_us, one.first_byte_us) = (None, None);
                lost(&mut one);
            } else {
                free_us = free_us.max(at_us + 60) + 1_000_000 / CAPACITY;
            }
            one
        })
        .collect();
    let is_well = |one: &&Attempt| one.ended == Ended::Answered;
    let accepts = attempts.iter().filter(is_well);
    let accepts = accepts.filter_map(|one| Some(accept(one.first_byte_us?, one.local_port?)));
    let overflows = attempts
        .iter()
        .filter(|one| one.errno.is_none() && !is_well(one))
        .count();
    let overflows = i128::try_from(overflows).expect("few");
    let accepts = accepts.collect();
    let mut measured = measured(attempts, accepts);
    let after = measured.server.counters.after.as_mut().expect("counters");
    after.extend(counters(&[
        ("TcpExt.ListenOverflows", 5 + overflows),
        ("TcpExt.ListenDrops", 5 + overflows),
    ]));
    let listener = &mut measured.listeners[0];
    listener.before.send_q = 64;
    let samples = &mut listener.samples;
    samples.at_us = (0..STEP_S * 1_000).map(|ms| ms * 1_000).collect();
    samples.recv_q = vec![0; samples.at_us.len()];
    let drops = |at_us: &u64| u32::from(overflows > 0 && full_us.is_some_and(|us| us <= *at_us));
    samples.drops = samples
        .at_us
        .iter()
        .map(|at_us| Some(drops(at_us)))
        .collect();
    measured.ended_us = STEP_S * 1_000_000;
    measured
}

fn steps(rates: &[u64], lost: impl Fn(&mut Attempt) + Sync) -> (Results, Staircase) {
    let lab = Scripted(|name: &str| {
        let rate = name.rsplit('=').next().and_then(|rate| rate.parse().ok());
        Ok(model(rate.expect("a rate"), &lost))
    });
    let results = run_plan(Plan::new(arms(rates), 1, 7, Vec::new()), &lab);
    let staircase = results.staircases.first().expect("steps").clone();
    (results, staircase)
}

#[test]
fn the_breaking_point_stands_beside_the_predicted_one() {
    let (results, one) = steps(&[50, 80, 95, 110, 120, 150, 300], |_| {});
    assert_eq!(
        (one.name.as_str(), one.holds, one.breaks),
        ("k80", Some(110.0), Some(120.0))
    );
    assert_eq!(
        (one.predicted, one.limit),
        (Some(116.25), Some(Limit::AcceptRate))
    );
    let overflow = |n: usize| {
        (
            one.steps[n].first_overflow_ms,
            one.steps[n].predicted_overflow_ms,
        )
    };
    assert_eq!(overflow(2), (None, None));
    assert_eq!(overflow(4), (Some(3_250.0), Some(3_250.0)));
    assert_eq!(overflow(5), (Some(1_300.0), Some(1_300.0)));
    assert_eq!(overflow(6), (Some(325.0), Some(325.0)));
    let short: Vec<f64> = one
        .steps
        .iter()
        .filter(|step| step.too_short)
        .map(|step| step.load)
        .collect();
    assert_eq!(short, [110.0]);
    for width in [80, 120] {
        let text = report::staircases(&results, width);
        assert!(
            text.lines().all(|line| line.chars().count() <= width),
            "{text}"
        );
        for words in [
            "between 110/s",
            "Predicted: 116/s",
            "the accept rate",
            "Too short to fill the queue: 110/s",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

#[test]
fn what_the_client_could_not_raise_is_never_the_servers_fault() {
    for (errno, limit) in [
        ("EADDRNOTAVAIL", Limit::ClientPorts),
        ("EMFILE", Limit::ClientDescriptors),
        ("ENOBUFS", Limit::ClientMemory),
    ] {
        let (results, one) = steps(&[80, 150, 300], |attempt| {
            attempt.stage = if errno == "EMFILE" {
                Stage::Socket
            } else {
                Stage::Connect
            };
            attempt.ended = Ended::Error;
            attempt.errno = Some(errno.into());
            attempt.local_port = None;
        });
        let held: Vec<Held> = one.steps.iter().map(|step| step.held).collect();
        assert_eq!(
            held,
            [Held::Holds, Held::ClientLimited, Held::ClientLimited],
            "{errno}"
        );
        assert_eq!(
            (one.holds, one.breaks, one.limit),
            (Some(80.0), None, Some(limit))
        );
        let text = report::staircases(&results, 80);
        assert!(
            text.contains("beyond that the client is the limit"),
            "{text}"
        );
    }
}

#[test]
fn late_starts_are_the_clients_limit_too() {
    let (_, one) = steps(&[80, 150], |attempt| attempt.started_us += 600_000);
    assert_eq!((one.breaks, one.limit), (None, Some(Limit::ClientSchedule)));
}

#[test]
fn arms_that_differ_in_more_than_their_load_are_no_steps() {
    let mut arms = arms(&[50, 80]);
    let Server::Own(server) = &mut arms[1].server else {
        panic!("the lab's own server");
    };
    server.backlog = 3;
    let lab = Scripted(|_: &str| Ok(model(50, |_| {})));
    let results = run_plan(Plan::new(arms, 1, 7, Vec::new()), &lab);
    assert!(results.staircases.is_empty());
}

/// A machine without idle time is no server that accepts too slowly, unless it accepts as it was meant to.
#[test]
fn a_starved_server_is_not_blamed() {
    let on_a_busy_machine = |accept_every_us: u64| {
        let lab = Scripted(move |name: &str| {
            let rate = name.rsplit('=').next().and_then(|rate| rate.parse().ok());
            let mut one = model(rate.expect("a rate"), |_| {});
            starve(&mut one, accept_every_us);
            Ok(one)
        });
        let results = run_plan(Plan::new(arms(&[80, 150]), 1, 7, Vec::new()), &lab);
        let one = results.staircases.first().expect("steps").clone();
        (one.breaks, one.limit)
    };
    assert_eq!(
        on_a_busy_machine(10_000),
        (Some(150.0), Some(Limit::AcceptRate))
    );
    assert_eq!(
        on_a_busy_machine(14_000),
        (None, Some(Limit::ClientProcessor))
    );
}

/// What an arm that is a change of another one has moved ends its verdict.
#[test]
fn a_change_is_told_against_what_it_changed() {
    let text = |backlog: u32, against: &str| {
        format!(
            "title = \"t\"\nwhy = \"w\"\n{against}server.backlog = {backlog}\n[client]\nrate = \"50/s\"\nduration = \"{STEP_S}s\""
        )
    };
    let arm = |name: &str, text: String| {
        Source::new(name, &text)
            .arms(&[])
            .expect("an arm")
            .remove(0)
    };
    let arms = vec![
        arm("before", text(64, "")),
        arm("after", text(128, "against = \"before\"\n")),
    ];
    let lab = Scripted(|_: &str| Ok(model(50, |_| {})));
    let results = run_plan(Plan::new(arms, 1, 7, Vec::new()), &lab);
    let told = |n: usize| results.arms[n].verdict.text.contains("Against before, ");
    assert!(!told(0) && told(1), "{}", results.arms[1].verdict.text);
}

/// A search on the model server; `spoil` decides what becomes of the n-th trial.
fn searched(
    search: Search,
    spoil: impl Fn(u32, Measured) -> Result<Measured, TrialError> + Sync,
) -> (Results, Vec<String>) {
    let n = AtomicU32::new(0);
    searched_on(search, |rate| {
        spoil(n.fetch_add(1, Ordering::Relaxed), model(rate, |_| {}))
    })
}

/// A search on a lab that answers by the rate.
fn searched_on(
    mut search: Search,
    answer: impl Fn(u64) -> Result<Measured, TrialError> + Sync,
) -> (Results, Vec<String>) {
    let lab = Scripted(|name: &str| {
        let rate = name.rsplit('=').next().and_then(|rate| rate.parse().ok());
        answer(rate.expect("a rate"))
    });
    let whole = arms(&[50]).remove(0);
    let step = whole.client.duration;
    let arm_at = |load| whole.with_load(LoadKind::Rate, load, step);
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = manifest(Plan::new(Vec::new(), 1, 7, Vec::new()));
    let run = RunFolder::create(&folder.path().join("run"), &manifest).expect("a folder");
    let mut told = Vec::new();
    let found = seek(&mut search, arm_at, &lab, &run, manifest, |sought| {
        if let Sought::Load {
            load, step, again, ..
        } = sought
        {
            let again = if again { ", again" } else { "" };
            told.push(format!("{load} {}{again}", step.held));
        }
    });
    let found = found.expect("it is stored");
    // What a report would make of the stored files is the same.
    let (_, stored) = RunFolder::open(run.path()).expect("a run");
    let read = run.observations(&stored.plan).expect("observations");
    assert_eq!(
        (stored, read.len()),
        (found.manifest.clone(), found.observations.len())
    );
    (results(&found.manifest, &read), told)
}

fn search() -> Search {
    Search::new(93, 20_000, 5, 1)
}

/// Both edges are tried twice, and the run has as many trials of each load as it needed.
#[test]
fn a_search_confirms_both_edges() {
    let (results, told) = searched(search(), |_, one| Ok(one));
    assert_eq!(
        told,
        [
            "93 holds",
            "139 breaks",
            "116 holds",
            "127 breaks",
            "121 breaks",
            "116 holds",
            "121 breaks"
        ]
    );
    let one = &results.staircases[0];
    assert_eq!((one.holds, one.breaks), (Some(116.0), Some(121.0)));
    assert_eq!(one.over_predicted, Some([0.998, 1.041]));
    let tries: Vec<u32> = one.steps.iter().map(|step| step.tries.counted).collect();
    assert_eq!(tries, [1, 2, 2, 1, 1]);
    assert!(results.complete && results.exit_code() == 0);
    let text = report::staircases(&results, 80);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "116 holds 2/2",
        "Trials: 116/s held in 2 of 2 trials, 121/s broke in 2 of 2 trials.",
        "Measured over predicted: 1.00 to 1.04.",
    ] {
        assert!(flat.contains(words), "{words}: {text}");
    }
}

/// What other work has spoiled is taken again: it neither ends the search nor moves the interval.
#[test]
fn a_spoiled_trial_does_not_end_a_search() {
    let late = |mut one: Measured| {
        for attempt in &mut one.attempts {
            attempt.started_us += 600_000;
        }
        one
    };
    let failed = || TrialError::Failed {
        reason: "the sampler broke off".into(),
        measured: None,
    };
    let (results, told) = searched(search(), |n, one| match n {
        1 => Err(failed()),
        2 => Ok(late(one)),
        _ => Ok(one),
    });
    assert_eq!(
        told[..4],
        [
            "93 holds",
            "139 unknown, again",
            "139 client limit, again",
            "139 breaks"
        ]
    );
    let one = &results.staircases[0];
    assert_eq!((one.holds, one.breaks), (Some(116.0), Some(121.0)));
    let of_139 = one.steps.last().expect("steps").tries;
    assert_eq!((of_139.counted, of_139.broken, of_139.spoiled), (1, 1, 2));
    let text = report::staircases(&results, 80);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("139 breaks 0/1+2"), "{text}");
    // What always goes wrong is given up after three trials, and blames nobody.
    let (results, told) = searched(search(), |n, one| match n {
        0 => Ok(one),
        _ => Err(failed()),
    });
    assert_eq!(
        told,
        [
            "93 holds",
            "139 unknown, again",
            "139 unknown, again",
            "139 unknown"
        ]
    );
    let one = &results.staircases[0];
    assert_eq!((one.holds, one.breaks, one.limit), (Some(93.0), None, None));
    // A client that is always late is a limit of its own, and bounds the search.
    let (results, told) = searched(search(), |n, one| Ok(if n > 0 { late(one) } else { one }));
    assert_eq!(told[3], "139 client limit");
    let one = &results.staircases[0];
    assert_eq!((one.holds, one.breaks), (Some(93.0), None));
    assert_eq!(one.limit, Some(Limit::ClientSchedule));
}

/// A machine without idle time, on which the server accepts no faster than this.
fn starve(one: &mut Measured, accept_every_us: u64) {
    for (accept, n) in one.accepts.iter_mut().zip(0..) {
        accept.at_us = accept.at_us.max(n * accept_every_us);
    }
    (one.cpu.server_us, one.cpu.client_us) = (Some(40_000), Some(400_000));
    (one.cpu.idle_ticks.before, one.cpu.idle_ticks.after) = (Some(0), Some(4));
    (one.cpu.all_ticks.before, one.cpu.all_ticks.after) = (Some(0), Some(800));
}

/// Whatever the client runs out of, the search ends there, names it, and has no breaking point.
#[test]
fn a_search_never_blames_the_server_for_a_limit_of_the_client() {
    fn without(errno: &'static str, stage: Stage) -> impl Fn(u64) -> Measured {
        move |rate| {
            model(rate, |attempt| {
                (attempt.stage, attempt.ended) = (stage, Ended::Error);
                (attempt.errno, attempt.local_port) = (Some(errno.into()), None);
            })
        }
    }
    fn beyond_110(change: impl Fn(&mut Measured)) -> impl Fn(u64) -> Measured {
        move |rate| {
            let mut one = model(rate, |_| {});
            if rate > 110 {
                change(&mut one);
            }
            one
        }
    }
    type Answer = Box<dyn Fn(u64) -> Measured + Sync>;
    let limits: [(Limit, Answer); 7] = [
        (
            Limit::ClientPorts,
            Box::new(without("EADDRNOTAVAIL", Stage::Connect)),
        ),
        (
            Limit::ClientDescriptors,
            Box::new(without("EMFILE", Stage::Socket)),
        ),
        (
            Limit::ClientMemory,
            Box::new(without("ENOBUFS", Stage::Connect)),
        ),
        (
            Limit::ClientThreads,
            Box::new(beyond_110(|one| one.generator.starved = 7)),
        ),
        (
            Limit::ClientThreads,
            Box::new(beyond_110(|one| one.generator.workers = Some(1))),
        ),
        (
            Limit::ClientSchedule,
            Box::new(beyond_110(|one| {
                for attempt in &mut one.attempts {
                    attempt.started_us += 600_000;
                }
            })),
        ),
        (
            Limit::ClientProcessor,
            Box::new(beyond_110(|one| starve(one, 14_000))),
        ),
    ];
    for (limit, answer) in limits {
        let (results, told) = searched_on(search(), |rate| Ok(answer(rate)));
        let one = &results.staircases[0];
        assert_eq!((one.breaks, one.limit), (None, Some(limit)), "{told:?}");
        assert!(
            one.holds.is_some_and(|load| load >= 104.0),
            "{limit}: {told:?}"
        );
        assert!(
            told.iter().all(|line| !line.contains("breaks")),
            "{limit}: {told:?}"
        );
        let text = report::staircases(&results, 80);
        assert!(
            text.contains("beyond that the client is the limit"),
            "{text}"
        );
    }
}
