//! What the wire costs and how exactly it keeps time, beside a bare veth pair in the same run.
//!
//! `cargo bench --bench wire`. Numbers belong to the machine they were measured on; nothing here fails for being slow.
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use backlog_lab::arm::Arm;
use backlog_lab::load::Progress;
use backlog_lab::netns::{KernelSteps, Topology, enter};
use backlog_lab::observation::{Attempt, Ended, Measured, Packet, Stage, Verdict, WireLog};
use backlog_lab::plan::Plan;
use backlog_lab::probe::counters;
use backlog_lab::result::{explain, join};
use backlog_lab::run::{KernelLab, Lab};

#[path = "../tests/support/wire.rs"]
mod support;

use support::{round_trip_us, set_up};

fn main() -> ExitCode {
    if let Err(refusal) = enter(&KernelSteps) {
        println!("{refusal}");
        return ExitCode::FAILURE;
    }
    println!(
        "bulk TCP, 2 s; a veth's segments are as large as its offloads make them, a wire's are packets:"
    );
    for link in ["kind = \"veth\"", "kind = \"wire\""] {
        bulk(link);
    }
    round_trips();
    paced();
    ten_thousand();
    causes();
    ExitCode::SUCCESS
}

/// A server that reads whatever comes, on a thread for each connection.
fn sink(topology: &Topology) -> SocketAddr {
    let ip = topology.server_ip;
    let listen = move || {
        let listener = TcpListener::bind((ip, 0)).expect("bind");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut stream = stream;
                    let mut bytes = vec![0; 256 * 1024];
                    while stream.read(&mut bytes).is_ok_and(|length| length > 0) {}
                });
            }
        });
        address
    };
    topology.server.run(listen).expect("a namespace")
}

/// TCP segments that the server's namespace has received and sent.
fn segments(topology: &Topology) -> i128 {
    let read = || counters::snapshot(Path::new("/proc/thread-self/net")).counters;
    let counters = topology.server.run(read).expect("a namespace");
    ["Tcp.InSegs", "Tcp.OutSegs"]
        .iter()
        .filter_map(|name| counters.get(*name).copied().flatten())
        .sum()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "packets of some seconds are far below 2^53"
)]
fn bulk(link: &str) {
    const LASTING: Duration = Duration::from_secs(2);
    let (topology, relay) = set_up(link);
    let address = sink(&topology);
    let (before, begun) = (segments(&topology), Instant::now());
    let flood = move || {
        let streams: Vec<_> = (0..4)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("connect");
                thread::spawn(move || {
                    let bytes = vec![0; 64 * 1024];
                    while begun.elapsed() < LASTING {
                        stream.write_all(&bytes).expect("write");
                    }
                })
            })
            .collect();
        for stream in streams {
            stream.join().expect("a stream");
        }
    };
    topology.client().run(flood).expect("a namespace");
    let elapsed = begun.elapsed();
    let rate = (segments(&topology) - before) as f64 / elapsed.as_secs_f64();
    print!("  {link:<16} {rate:>10.0} segments/s counted by TCP");
    if let Some(log) = relay.map(|relay| relay.stop(begun).expect("a relay")) {
        let relayed = log.packets.len() as f64 / elapsed.as_secs_f64();
        print!(
            ", {relayed:.0} packets/s relayed, {} lost unasked",
            log.overruns + log.unsent.0
        );
        print!(", {}", errors(&log));
    }
    println!();
}

/// How late the relay was.
fn errors(log: &WireLog) -> String {
    let late = |one: &Packet| Some(one.sent_us?.saturating_sub(one.due_us?));
    let mut errors: Vec<u64> = log.packets.iter().filter_map(late).collect();
    errors.sort_unstable();
    let Some(last) = errors.len().checked_sub(1) else {
        return "nothing was sent".into();
    };
    let at = |percent: usize| errors[last * percent / 100];
    format!(
        "late by us: p50 {}, p99 {}, max {}",
        at(50),
        at(99),
        at(100)
    )
}

/// The round trip as the kernel measured it (`TCP_INFO`), of connections one after the other.
fn round_trips() {
    let (topology, relay) = set_up("kind = \"wire\"\ndelay = \"25ms\"");
    let address = sink(&topology);
    let connect = move || -> Vec<u32> {
        (0..40)
            .map(|_| {
                round_trip_us(&TcpStream::connect(address).expect("connect")).expect("TCP_INFO")
            })
            .collect()
    };
    let mut round_trips = topology.client().run(connect).expect("a namespace");
    round_trips.sort_unstable();
    drop(relay);
    println!(
        "round trip by TCP_INFO, 25 ms each way: {} us at the median, {} at the least, {} at the most",
        round_trips[20], round_trips[0], round_trips[39]
    );
}

/// About 10,000 packets a second through 25 ms each way.
#[expect(
    clippy::cast_precision_loss,
    reason = "packets of some seconds are far below 2^53"
)]
fn paced() {
    const WRITES: u32 = 6_600 * 3;
    let (topology, relay) = set_up("kind = \"wire\"\ndelay = \"25ms\"");
    let address = sink(&topology);
    let begun = Instant::now();
    let flood = move || {
        let mut streams: Vec<TcpStream> = (0..10)
            .map(|_| TcpStream::connect(address).expect("connect"))
            .collect();
        for stream in &streams {
            stream.set_nodelay(true).expect("TCP_NODELAY");
        }
        let begun = Instant::now();
        for n in 0..WRITES {
            let due = Duration::from_secs(3) * n / WRITES;
            while begun.elapsed() < due {
                thread::yield_now();
            }
            let many = streams.len();
            streams[n as usize % many]
                .write_all(b"PING\n")
                .expect("write");
        }
    };
    topology.client().run(flood).expect("a namespace");
    let log = relay.expect("a wire").stop(begun).expect("a relay");
    let rate = log.packets.len() as f64 / begun.elapsed().as_secs_f64();
    println!(
        "paced TCP, 25 ms each way: {rate:.0} packets/s, {}",
        errors(&log)
    );
}

fn ten_thousand() {
    let text = "title = \"t\"\nwhy = \"w\"\n\
                server.backlog = 16384\nclient = { connections = 10000, workers = 500, timeout = \"10s\" }\n\
                link = { kind = \"wire\", delay = \"5ms\" }\n[sysctl]\n\"net.core.somaxconn\" = 16384\n";
    let arm: Arm = toml::from_str(text).expect("an arm");
    let plan = Plan {
        capture_mib: 0,
        ..Plan::new(vec![arm], 1, 1, Vec::new())
    };
    let measured = KernelLab::default()
        .observe(plan.order()[0], &Arc::new(Progress::default()))
        .expect("a trial");
    let answered = measured
        .attempts
        .iter()
        .filter(|one| one.ended == Ended::Answered)
        .count();
    let log = measured.wire.expect("a wire");
    println!(
        "10000 connections: {answered} answered, {} packets, {} lost unasked, {}",
        log.packets.len(),
        log.overruns + log.unsent.0,
        errors(&log)
    );
}

/// Causes of 100,000 attempts from 1,000,000 packets.
fn causes() {
    let before_kb = peak_kb();
    let measured = scripted();
    let made_kb = peak_kb();
    let begun = Instant::now();
    let (fates, _) = join(&measured);
    let causes = explain(&measured, &fates);
    let elapsed = begun.elapsed();
    println!(
        "causes of {} attempts from {} packets: {elapsed:.2?}; peak memory {} MB before, {} MB with the readings, {} MB in the end",
        causes.iter().flatten().count(),
        measured.wire.as_ref().map_or(0, |wire| wire.packets.len()),
        before_kb / 1024,
        made_kb / 1024,
        peak_kb() / 1024
    );
}

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn scripted() -> Measured {
    const ATTEMPTS: u32 = 100_000;
    const PACKETS: u64 = 10;
    let attempts = (0..ATTEMPTS).map(|n| Attempt {
        n,
        intended_us: u64::from(n) * 100,
        started_us: u64::from(n) * 100,
        connected_us: None,
        first_byte_us: None,
        ended_us: u64::from(n) * 100 + 900_000,
        stage: Stage::Connect,
        ended: Ended::TimeUp,
        errno: None,
        local_port: u16::try_from(n % 28_000).ok().map(|port| 32_768 + port),
        source: None,
        server_port: None,
        server_side: None,
        requests: Vec::new(),
    });
    let attempts: Vec<Attempt> = attempts.collect();
    let syn = |attempt: &Attempt, nth: u64| Packet {
        at_us: attempt.started_us + 1 + nth * 10,
        to: backlog_lab::arm::End::Server,
        client_port: attempt.local_port.unwrap_or(0),
        flags: "SYN".parse().expect("a flag"),
        seq: attempt.n,
        ack: 0,
        length: 0,
        verdict: Verdict::Passed,
        due_us: Some(attempt.started_us + nth),
        sent_us: Some(attempt.started_us + nth),
    };
    let packets = attempts
        .iter()
        .flat_map(|one| (0..PACKETS).map(move |nth| syn(one, nth)));
    let packets: Vec<Packet> = packets.collect();
    Measured {
        notes: Vec::new(),
        server: backlog_lab::observation::Namespace::default(),
        client: None,
        softnet_dropped: backlog_lab::observation::BeforeAfter::default(),
        listeners: Vec::new(),
        attempts,
        accepts: Vec::new(),
        program: None,
        tool: None,
        accept_failures: std::collections::BTreeMap::new(),
        pending: Some(Vec::new()),
        cpu: backlog_lab::observation::Cpu::default(),
        generator: backlog_lab::observation::Generator::default(),
        ended_us: 0,
        wire: Some(WireLog {
            packets,
            ..WireLog::default()
        }),
    }
}
