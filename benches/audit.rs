//! What an audit costs on a busy host, beside `ss`, and how soon a held port is ready.
//!
//! ```text
//! cargo bench --bench audit
//! ```
//!
//! The host is a namespace with 1,000 listeners and 20,000 other sockets, held by two processes. Nothing here judges
//! but the goals printed beside each figure; an exit status of 1 says that one was missed.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use backlog_lab::audit::{self, Place, Scope};
use backlog_lab::netns::{KernelSteps, Namespace, enter};
use backlog_lab::probe::owners;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use socket2::{Domain, Socket, Type};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LISTENERS: usize = 1_000;
const OTHERS: usize = 20_000;
const RUNS: usize = 21;
const LAB: &str = env!("CARGO_BIN_EXE_backlog-lab");

/// A measured figure beside its goal.
struct Row {
    what: &'static str,
    figure: f64,
    goal: f64,
    unit: &'static str,
}

fn main() -> Result<ExitCode, Failure> {
    if std::env::args().any(|argument| argument == HOLDER) {
        return hold_sockets();
    }
    enter(&KernelSteps)?;
    let mut rows = Namespace::create("bench")?.run(busy_host)??;
    rows.extend(holds()?);
    println!("{:<58}{:>10}{:>10}", "", "measured", "goal");
    for row in &rows {
        println!(
            "{:<58}{:>10.2}{:>10} {}",
            row.what,
            row.figure,
            if row.goal > 0.0 {
                format!("< {}", row.goal)
            } else {
                String::new()
            },
            row.unit
        );
    }
    let missed = rows
        .iter()
        .any(|row| row.goal > 0.0 && row.figure >= row.goal);
    Ok(ExitCode::from(u8::from(missed)))
}

fn listen(backlog: i32) -> Result<(Socket, SocketAddr), Failure> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(backlog)?;
    let address = socket.local_addr()?.as_socket().ok_or("no address")?;
    Ok((socket, address))
}

/// What a holder is started with.
const HOLDER: &str = "--hold-sockets";

const HOLDERS: usize = 2;

/// Opens its part of the sockets, says so, and holds them until its input ends.
fn hold_sockets() -> Result<ExitCode, Failure> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let listeners: Vec<(Socket, SocketAddr)> = (0..LISTENERS / HOLDERS)
        .map(|_| listen(128))
        .collect::<Result<_, _>>()?;
    let mut others = Vec::new();
    for (listener, address) in listeners.iter().cycle() {
        if others.len() >= OTHERS / HOLDERS {
            break;
        }
        let client = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        client.connect(&(*address).into())?;
        others.extend([client, listener.accept()?.0]);
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(ExitCode::SUCCESS)
}

fn busy_host() -> Result<Vec<Row>, Failure> {
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535")?;
    let mut holders = Vec::new();
    for _ in 0..HOLDERS {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(HOLDER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut String::new())?;
        holders.push(child);
    }
    let rows = measure();
    for mut holder in holders {
        drop(holder.stdin.take());
        holder.wait()?;
    }
    rows
}

fn measure() -> Result<Vec<Row>, Failure> {
    let mut place = [Place::here()?];
    let look = median(|| audit::measure(&mut place, Duration::ZERO).map(drop))?;
    let window = audit::measure(&mut place, Duration::ZERO)?;
    assert!(
        window.places[0].listeners.len() >= LISTENERS,
        "the look missed listeners"
    );
    let inodes = window.inodes(&Scope::default());
    let names = median(|| {
        let owners = owners::find(&inodes)?;
        if owners.of.len() < LISTENERS {
            Err(std::io::Error::other("an owner was missed"))
        } else {
            Ok(())
        }
    })?;

    run(LAB, &["audit", "--interval", "0s"])?;
    // Of all children so far: the audit's own.
    let rss_mb = kilobytes(getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss()) / 1024.0;
    let (mut lab, mut ss) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        lab.push(run(LAB, &["audit", "--interval", "0s"])?);
        ss.push(run("ss", &["-ltnp"])?);
    }
    let (lab, ss) = (middle(lab), middle(ss));
    Ok(vec![
        Row {
            what: "one look without process names",
            figure: ms(look),
            goal: 10.0,
            unit: "ms",
        },
        Row {
            what: "the names of the processes",
            figure: ms(names),
            goal: 0.0,
            unit: "ms",
        },
        Row {
            what: "backlog-lab audit --interval 0s, the whole command",
            figure: ms(lab),
            goal: 0.0,
            unit: "ms",
        },
        Row {
            what: "ss -ltnp, the whole command",
            figure: ms(ss),
            goal: 0.0,
            unit: "ms",
        },
        Row {
            what: "the first to the second",
            figure: lab.as_secs_f64() / ss.as_secs_f64(),
            goal: 0.7,
            unit: "",
        },
        Row {
            what: "memory of the audit (resident, most)",
            figure: rss_mb,
            goal: 30.0,
            unit: "MB",
        },
    ])
}

/// From the start of the program to its ready line, the slowest mode.
fn holds() -> Result<Vec<Row>, Failure> {
    [
        ("hold full", "full"),
        ("hold ghost", "ghost"),
        ("hold slow", "slow"),
        ("hold reset", "reset"),
        ("hold close", "close"),
        ("hold refuse", "refuse"),
    ]
    .into_iter()
    .map(|(what, mode)| {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let begun = Instant::now();
            let mut child = Command::new(LAB)
                .args(["hold", mode])
                .stdout(Stdio::piped())
                .spawn()?;
            let output = child.stdout.take().ok_or("no output")?;
            BufReader::new(output).read_line(&mut String::new())?;
            times.push(begun.elapsed());
            child.kill()?;
            child.wait()?;
        }
        Ok(Row {
            what,
            figure: ms(middle(times)),
            goal: 50.0,
            unit: "ms until ready",
        })
    })
    .collect()
}

fn run(program: &str, arguments: &[&str]) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("{program} ended with {status}").into());
    }
    Ok(begun.elapsed())
}

fn median<E>(mut task: impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begun = Instant::now();
        task()?;
        times.push(begun.elapsed());
    }
    Ok(middle(times))
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn kilobytes(count: i64) -> f64 {
    count as f64
}
