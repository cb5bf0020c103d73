//! Real servers as the arms run them, beside what `ss`, `nstat` and the server's own log say.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use backlog_lab::arm::{Arm, Catalog, Server};
use backlog_lab::load::Progress;
use backlog_lab::manifest::Manifest;
use backlog_lab::netns::Namespace;
use backlog_lab::observation::{Observation, SCHEMA_VERSION, TrialStatus};
use backlog_lab::plan::Plan;
use backlog_lab::probe::host::read_host;
use backlog_lab::result::{Cause, Outcome, Results, results};
use backlog_lab::run::{KernelLab, Lab};
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let surveyed = ["nginx", "redis", "gunicorn", "node"];
    let mut trials: Vec<Trial> = surveyed
        .into_iter()
        .map(|server| {
            Trial::test(format!("servers/{server}-as-it-comes"), move || {
                as_it_comes(server)
            })
        })
        .collect();
    trials.push(Trial::test(
        "servers/nginx-agrees-with-ss-nstat-and-its-log",
        nginx,
    ));
    trials.push(Trial::test("servers/tuning-says-what-moved", tuning));
    trials
}

fn load(word: &str) -> Result<Vec<Arm>, Failed> {
    Ok(Catalog::shipped().load(&[word.to_owned()], &[])?)
}

/// The results of one trial of each arm.
fn run(arms: Vec<Arm>) -> Result<Results, Failed> {
    let plan = Plan::new(arms, 1, 1, Vec::new());
    let mut observations = Vec::new();
    for trial in plan.order() {
        let measured = KernelLab::default().observe(trial, &Arc::new(Progress::default()));
        observations.push(Observation {
            schema_version: SCHEMA_VERSION,
            arm: trial.arm.name.clone(),
            index: 0,
            status: TrialStatus::Measured,
            reason: None,
            measured: Some(measured.map_err(|error| format!("{}: {error}", trial.arm.name))?),
        });
    }
    let manifest = Manifest::new(Vec::new(), read_host(), jiff::Timestamp::UNIX_EPOCH, plan);
    Ok(results(&manifest, &observations))
}

/// What it asks for is what it gets where nothing cuts it, and never more than somaxconn.
fn as_it_comes(server: &str) -> Result<(), Failed> {
    let results = run(load(&format!("survey/{server}"))?)?;
    let limits = |n: usize| -> Vec<u32> {
        let listeners = results.arms[n].trials[0].listeners.iter();
        listeners.map(|one| one.backlog_effective).collect()
    };
    let asks = if server == "gunicorn" { 2_048 } else { 511 };
    for (n, somaxconn) in [(0, 1_000_000), (1, 4_096), (2, 128)] {
        let verdict = &results.arms[n].verdict;
        assert_eq!(verdict.met, Some(true), "{}", verdict.text);
        let limits = limits(n);
        assert!(
            !limits.is_empty() && limits.iter().all(|limit| *limit == somaxconn.min(asks)),
            "{limits:?}"
        );
    }
    Ok(())
}

/// The name of the log by which the watched nginx is told from those of other tests.
const LOG: &str = "watched.log";

/// A process of the watched nginx and its log, once it is there.
fn watched_nginx() -> Option<(u32, File)> {
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find_map(|pid| {
        let log = File::open(format!("/proc/{pid}/cwd/{LOG}")).ok()?;
        Some((pid, log))
    })
}

/// What `ss` says in the namespace: Recv-Q and Send-Q of the listener.
fn seen() -> Result<Option<(u32, u32)>, Failed> {
    let text = |program: &str, arguments: &[&str]| -> Result<String, Failed> {
        let output = Command::new(program).args(arguments).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let ss = text("ss", &["-Hltn", "sport = :8080"])?;
    let numbers: Vec<u32> = ss
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    Ok(match numbers.as_slice() {
        [recv_q, send_q, ..] => Some((*recv_q, *send_q)),
        _ => None,
    })
}

/// The overflows of the namespace, by nstat.
fn overflows() -> Result<u64, Failed> {
    let output = Command::new("nstat")
        .args(["-asz", "TcpExtListenOverflows"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.starts_with("TcpExtListenOverflows"));
    let count = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    count.ok_or_else(|| format!("nstat printed no overflows: {text}").into())
}

fn nginx() -> Result<(), Failed> {
    let mut arms = load("tuning/2-somaxconn-only")?;
    for arm in &mut arms {
        if let Server::Program(server) = &mut arm.server {
            for text in server.program.files.values_mut() {
                *text = text.replace("access.log", LOG);
            }
        }
    }
    let lab = thread::spawn(move || {
        run(arms).map_err(|error| error.message().unwrap_or_default().to_owned())
    });
    let begun = Instant::now();
    let (pid, mut log) = loop {
        if let Some(found) = watched_nginx() {
            break found;
        }
        if lab.is_finished() || begun.elapsed() > Duration::from_secs(20) {
            return Err("nginx made no log".into());
        }
        thread::park_timeout(Duration::from_millis(2));
    };
    let namespace = Namespace::join("watcher", Path::new(&format!("/proc/{pid}/ns/net")))?;
    let (mut deepest, mut limit) = (0, 0);
    while !lab.is_finished() {
        if let Some((recv_q, send_q)) = namespace.run(seen)?? {
            (deepest, limit) = (deepest.max(recv_q), send_q);
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    let results = lab.join().map_err(|_| "the lab panicked")??;
    // Nobody is left in the namespace: the count stands still.
    let overflows = namespace.run(overflows)??;
    let mut text = String::new();
    log.read_to_string(&mut text)?;
    let answered = text.lines().filter(|line| line.contains("\" 200 ")).count();

    let arm = &results.arms[0];
    let trial = &arm.trials[0];
    assert_eq!(arm.verdict.met, Some(true), "{}", arm.verdict.text);
    let listener = &trial.listeners[0];
    assert_eq!(
        (listener.backlog_effective, listener.recv_q_max),
        (511, 512)
    );
    // A look by ss takes long: what it saw is what there was, and the lab's own looks see the full queue.
    assert!(limit == 511 && deepest <= 512, "ss: {deepest} of {limit}");
    assert_eq!(
        trial.counters.server["TcpExt.ListenOverflows"],
        Some(i64::try_from(overflows)?),
        "nstat"
    );
    assert_eq!(listener.drops.map(u64::from), Some(overflows));
    let (ok, accepted) = (trial.count(Outcome::Ok), trial.accepted);
    let answered = u32::try_from(answered)?;
    assert!(
        Some(answered) >= ok && Some(answered) <= accepted,
        "{ok:?} {answered} {accepted:?}"
    );
    // Nobody is without a fate: those that were dropped could not connect.
    let causes = trial.causes.as_ref().ok_or("no causes")?;
    let unexplained = causes[&Cause::Unexplained];
    assert_eq!(unexplained, 0, "{}", arm.verdict.text);
    Ok(())
}

fn tuning() -> Result<(), Failed> {
    let results = run(load("tuning")?)?;
    for (n, parts) in [
        (
            0,
            [
                "The limit in force, 128, is net.core.somaxconn",
                "asked for 511",
            ],
        ),
        (
            1,
            ["net.core.somaxconn 128 -> 4096 moved", "from 128 to 511"],
        ),
        (
            2,
            [
                "server.backlog 511 -> 4096 did not move the limit in force, 128",
                "clamped",
            ],
        ),
        (
            3,
            [
                "net.core.somaxconn 128 -> 4096 with server.backlog 511 -> 4096",
                "from 128 to 4096",
            ],
        ),
    ] {
        let verdict = &results.arms[n].verdict;
        assert_eq!(verdict.met, Some(true), "{}", verdict.text);
        for part in parts {
            assert!(verdict.text.contains(part), "{part}: {}", verdict.text);
        }
    }
    Ok(())
}
