//! What the lab costs, each figure beside what it is to be compared with, both taken in the same run.
//!
//! `cargo bench --bench costs` prints a table. It needs the namespaces that `run` needs; `ss` and `ip` are
//! only looked at where they exist.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]

use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use backlog_lab::arm::{Arm, Catalog};
use backlog_lab::load::{Clock, Server};
use backlog_lab::manifest::Manifest;
use backlog_lab::netns::{KernelSteps, Topology, enter};
use backlog_lab::observation::Observation;
use backlog_lab::probe::diag::Diag;
use backlog_lab::report::charts::{Options, charts};
use backlog_lab::result::results;
use backlog_lab::run::RunFolder;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    if let Err(refusal) = enter(&KernelSteps) {
        eprintln!("{refusal}");
        return ExitCode::FAILURE;
    }
    match all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn all() -> Outcome<()> {
    println!("| what | measured | beside | wanted |\n| --- | --- | --- | --- |");
    a_look()?;
    sampling()?;
    readiness()?;
    a_whole_run("arm-b")?;
    a_whole_run("arm-b-control")?;
    pictures()
}

fn row(what: &str, measured: &str, beside: &str, wanted: &str) {
    println!("| {what} | {measured} | {beside} | {wanted} |");
}

/// The middle of an odd number of durations.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed(n: usize, mut body: impl FnMut() -> Outcome<()>) -> Outcome<Duration> {
    let mut times = Vec::new();
    for _ in 0..n {
        let start = Instant::now();
        body()?;
        times.push(start.elapsed());
    }
    Ok(median(times))
}

fn micros(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn arm(name: &str) -> Outcome<Arm> {
    let arms = Catalog::new(Path::new("/nonexistent")).load(&[name.to_owned()], &[])?;
    arms.into_iter().next().ok_or_else(|| "no such arm".into())
}

/// A listening server in a namespace of its own.
fn listening() -> Outcome<(Topology, Server)> {
    let arm = arm("arm-b")?;
    let topology = Topology::build(&arm.link, &arm.sysctl)?;
    let (ip, protocol) = (topology.server_ip, arm.protocol);
    let spec = arm
        .server
        .own()
        .cloned()
        .ok_or("arm-b has the lab's own server")?;
    let server = topology
        .server
        .run(move || Server::open(ip, &spec, &protocol))??;
    Ok((topology, server))
}

/// A command that must succeed; `None` where there is no such program.
fn spawned(program: &str, arguments: &[&str]) -> Outcome<Option<()>> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(Some(())),
        Ok(status) => Err(format!("{program} {}: {status}", arguments.join(" ")).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One exact look at a listening socket, beside `ss -ltnH` in the same namespace.
fn a_look() -> Outcome<()> {
    const LOOKS: u32 = 200;
    let (topology, server) = listening()?;
    let address = server.address();
    let (look, ss) = topology.server.run(move || -> Result<_, String> {
        let fail = |error: Box<dyn Error>| error.to_string();
        let mut diag = Diag::open().map_err(|error| error.to_string())?;
        let look = timed(51, || {
            for _ in 0..LOOKS {
                diag.look(address)?.ok_or("nothing listens")?;
            }
            Ok(())
        });
        let look = look.map_err(fail)? / LOOKS;
        if spawned("ss", &["-ltnH"]).map_err(fail)?.is_none() {
            return Ok((look, None));
        }
        let ss = timed(31, || spawned("ss", &["-ltnH"]).map(|_| ()));
        Ok((look, Some(ss.map_err(fail)?)))
    })??;
    let beside = ss.map_or_else(
        || "no ss here".into(),
        |ss| {
            format!(
                "`ss -ltnH` {}, {:.0} times",
                millis(ss),
                ss.as_secs_f64() / look.as_secs_f64()
            )
        },
    );
    row(
        "one exact look through `sock_diag`",
        &micros(look),
        &beside,
        "at most 10 us, 200 times cheaper",
    );
    Ok(())
}

/// Processor time of the calling thread.
fn cpu() -> Outcome<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// A second of looks at 1 kHz, as the sampler takes them, beside a second of a timer that does nothing else.
fn sampling() -> Outcome<()> {
    const TICKS: u64 = 1_000;
    let (topology, server) = listening()?;
    let address = server.address();
    let mut diag = topology.server.run(Diag::open)??;
    let mut second = |look: bool| -> Outcome<Duration> {
        let before = cpu()?;
        let clock = Clock::start();
        for tick in 0..TICKS {
            clock.sleep_until(tick * 1_000);
            if look {
                diag.look(address)?.ok_or("nothing listens")?;
            }
        }
        Ok(cpu()?.saturating_sub(before))
    };
    // In turns, so that a slow drift of the machine meets both alike.
    let (mut looking, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        looking.push(second(true)?);
        idle.push(second(false)?);
    }
    let (looking, idle) = (median(looking), median(idle));
    row(
        "a second of sampling at 1 kHz, processor time",
        &millis(looking),
        &format!(
            "empty timer {}, {:.2} times",
            millis(idle),
            looking.as_secs_f64() / idle.as_secs_f64()
        ),
        "at most 1.5 times",
    );
    Ok(())
}

/// Namespace, loopback, sysctls and a listening server, beside `ip netns add` and `ip link set lo up`.
fn readiness() -> Outcome<()> {
    const NAME: &str = "backlog-lab-bench";
    let ready = timed(51, || listening().map(drop))?;
    let ip = if matches!(spawned("ip", &["netns", "add", NAME]), Ok(Some(()))) {
        spawned("ip", &["netns", "delete", NAME])?;
        let mut times = Vec::new();
        for _ in 0..11 {
            let start = Instant::now();
            spawned("ip", &["netns", "add", NAME])?;
            spawned("ip", &["-n", NAME, "link", "set", "lo", "up"])?;
            times.push(start.elapsed());
            spawned("ip", &["netns", "delete", NAME])?;
        }
        format!(
            "`ip netns add` and `ip link set lo up` {}",
            millis(median(times))
        )
    } else {
        "`ip netns` does not work here".into()
    };
    row(
        "namespace, lo, sysctls and listening server ready",
        &millis(ready),
        &ip,
        "under 5 ms",
    );
    Ok(())
}

/// `run ARM --no-charts` from start to exit. A run in which a SYN is dropped waits a second for the next one:
/// that is the kernel's time, and how often it happens depends on what else the machine does.
fn a_whole_run(arm: &str) -> Outcome<()> {
    const RUNS: usize = 31;
    let folder = tempfile::tempdir()?;
    let (mut all, mut undisturbed) = (Vec::new(), Vec::new());
    for n in 0..RUNS {
        let out = folder.path().join(n.to_string());
        let start = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_backlog-lab"))
            .args(["run", arm, "--no-charts", "--quiet", "--json", "--out"])
            .arg(&out)
            .output()?;
        let wall = start.elapsed();
        let results: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let trial = &results["arms"][0]["trials"][0];
        let overflows = &trial["counters"]["server"]["TcpExt.ListenOverflows"];
        all.push(wall);
        if overflows.as_i64() == Some(0) {
            undisturbed.push(wall);
        }
    }
    let beside = format!(
        "{} of {RUNS} without an overflow{}",
        undisturbed.len(),
        if undisturbed.is_empty() {
            String::new()
        } else {
            format!(", these {}", millis(median(undisturbed)))
        }
    );
    row(
        &format!("`run {arm} --no-charts`, wall"),
        &millis(median(all)),
        &beside,
        "under 150 ms",
    );
    Ok(())
}

/// The charts of the default run, its starts and its sampler, and the charts of a run with a million looks.
fn pictures() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("run");
    Command::new(env!("CARGO_BIN_EXE_backlog-lab"))
        .args(["run", "--no-charts", "--quiet", "--out"])
        .arg(&out)
        .stdout(Stdio::null())
        .status()?;
    let (run, manifest) = RunFolder::open(&out)?;
    let mut observations = run.observations(&manifest.plan)?;
    skew_and_misses(&observations)?;
    row(
        "charts of three arms",
        &millis(drawn(&manifest, &observations)?),
        "-",
        "under 1 s",
    );

    let measured = observations[0]
        .measured
        .as_mut()
        .ok_or("arm A was not measured")?;
    let samples = &mut measured
        .listeners
        .first_mut()
        .ok_or("arm A does not listen")?
        .samples;
    samples.at_us = (0..1_000_000).map(|n| n * 1_000).collect();
    samples.recv_q = (0..1_000_000).map(|n| n % 3).collect();
    samples.drops = (0..1_000_000).map(|n| Some(n / 7)).collect();
    measured.ended_us = 1_000_000_000;
    row(
        "charts of a run with 1,000,000 looks",
        &millis(drawn(&manifest, &observations)?),
        "-",
        "under 3 s",
    );
    Ok(())
}

fn drawn(manifest: &Manifest, observations: &[Observation]) -> Outcome<Duration> {
    let results = results(manifest, observations);
    timed(3, || {
        for (_, chart) in charts(&results, observations, Options::default()) {
            chart?;
        }
        Ok(())
    })
}

/// How late the first 150 clients of arm A were, and which ticks its sampler missed.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a trial are far below 2^53"
)]
fn skew_and_misses(observations: &[Observation]) -> Outcome<()> {
    let measured = observations[0]
        .measured
        .as_ref()
        .ok_or("arm A was not measured")?;
    let first = measured.attempts.iter().filter(|one| one.n < 150);
    let mut late: Vec<u64> = first
        .map(|one| one.started_us.saturating_sub(one.intended_us))
        .collect();
    late.sort_unstable();
    let p99 = late[late.len() * 99 / 100];
    let beside = format!(
        "median {} us, last {} us",
        late[late.len() / 2],
        late[late.len() - 1]
    );
    row(
        "start skew of the first 150 clients of arm A, p99",
        &format!("{:.1} ms", p99 as f64 / 1e3),
        &beside,
        "under 10 ms",
    );
    let samples = &measured
        .listeners
        .first()
        .ok_or("arm A does not listen")?
        .samples;
    let looks = samples.at_us.len() as f64;
    let missed = samples.missed as f64;
    row(
        "ticks that the sampler missed in arm A",
        &format!("{:.2} %", missed / (missed + looks) * 100.0),
        &format!("{missed} of {}", missed + looks),
        "under 1 %",
    );
    Ok(())
}
