//! Our client beside others, against the same servers in the same run, and what an attempt of the event-driven engine
//! takes.
//!
//! `cargo bench --bench clients`. The other clients are looked at where they exist: wrk, hey, oha, ab; nginx is too.
//! Each measurement has a namespace and a server of its own; what counts is how many connections that namespace
//! opened (`Tcp.PassiveOpens`), and the client's own word that all were answered. With words behind `--`, only the
//! speed of clients with such a word in their name: `cargo bench --bench clients -- threads wrk`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use backlog_lab::arm::{
    Arm, Bind, ClientSpec, Engine, LinkSpec, Protocol, Requests, Span, SysctlValue,
};
use backlog_lab::load::{Clock, Flood, Interrupt, Progress, Schedule, Series, Server, Target};
use backlog_lab::netns::{KernelSteps, Namespace, Topology, enter};
use backlog_lab::observation::Ended;
use backlog_lab::plan::Plan;
use backlog_lab::probe::counters;
use backlog_lab::probe::diag::Diag;
use backlog_lab::run::{KernelLab, Lab};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Connections under way at once, of every client.
const AT_ONCE: u32 = 64;
/// Every pair of client and server is measured so often, in turn.
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    if let Err(refusal) = enter(&KernelSteps) {
        eprintln!("{refusal}");
        return ExitCode::FAILURE;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Cargo adds an option of its own.
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let outcome = if words.is_empty() {
        speed(&words).and_then(|()| memory()).and_then(|()| held())
    } else {
        speed(&words)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What opens connections, and each time asks for `/` and for a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Ours(Engine),
    Other(&'static str, &'static [&'static str]),
}

const CLIENTS: [Client; 6] = [
    Client::Ours(Engine::Threads),
    Client::Ours(Engine::Async),
    Client::Other("wrk", &["-t2", "-c64", "-d3s", "-H", "Connection: close"]),
    Client::Other("hey", &["-c", "64", "-n", "60000", "-disable-keepalive"]),
    Client::Other(
        "oha",
        &["-c", "64", "-n", "60000", "--disable-keepalive", "--no-tui"],
    ),
    Client::Other("ab", &["-q", "-c", "64", "-n", "60000"]),
];

impl Client {
    fn name(self) -> String {
        match self {
            Self::Ours(engine) => format!("backlog-lab, {}", format!("{engine:?}").to_lowercase()),
            Self::Other(program, _) => program.to_owned(),
        }
    }

    fn exists(self) -> bool {
        match self {
            Self::Ours(_) => true,
            Self::Other(program, _) => is_installed(program),
        }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Accepted and answered connections per second, of the clients that are called by one of these words, or of all.
fn speed(words: &[&str]) -> Outcome<()> {
    let servers = ["nginx", "backlog-lab"];
    let servers: Vec<&str> = servers
        .into_iter()
        .filter(|one| *one != "nginx" || is_installed("nginx"))
        .collect();
    let is_wanted = |name: String| words.is_empty() || words.iter().any(|word| name.contains(word));
    let clients: Vec<Client> = CLIENTS
        .into_iter()
        .filter(|one| one.exists() && is_wanted(one.name()))
        .collect();
    let mut measured: BTreeMap<(usize, usize), Vec<Measured>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for (s, server) in servers.iter().enumerate() {
            for (c, client) in clients.iter().enumerate() {
                let rounds = measured.entry((c, s)).or_default();
                rounds.push(measure(*client, server)?);
            }
        }
    }
    println!(
        "\nConnections per second, opened, answered and closed; {AT_ONCE} at once; median of {ROUNDS} rounds. Behind it \
         the processor time that client and server take for one: it also tells on a busy machine. In brackets: beside \
         the best of the others.\n"
    );
    println!("| client | server {} |", servers.join(" | server "));
    println!("| --- |{}", " --- |".repeat(servers.len()));
    let medians: BTreeMap<(usize, usize), Measured> = measured
        .into_iter()
        .map(|(pair, rounds)| (pair, Measured::median(&rounds)))
        .collect();
    for (c, client) in clients.iter().enumerate() {
        let mut cells = Vec::new();
        for s in 0..servers.len() {
            let others = medians.iter().filter(|((other, server), _)| {
                *server == s && matches!(clients[*other], Client::Other(..))
            });
            let best = others.map(|(_, one)| one.per_s).max_by(f64::total_cmp);
            let Measured { per_s, cpu_us } = medians[&(c, s)];
            let beside = best.map(|best| format!(" ({:.2})", per_s / best));
            cells.push(format!(
                "{per_s:.0} /s{}, {cpu_us:.0} us",
                beside.unwrap_or_default()
            ));
        }
        println!("| {} | {} |", client.name(), cells.join(" | "));
    }
    Ok(())
}

/// What opening, answering and closing connections took.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// Connections per second.
    per_s: f64,
    /// Processor time of client and server for each connection.
    cpu_us: f64,
}

impl Measured {
    fn median(rounds: &[Self]) -> Self {
        let median = |value: fn(&Self) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Self {
            per_s: median(|one| one.per_s),
            cpu_us: median(|one| one.cpu_us),
        }
    }
}

/// Processor time so far of this process and of those that it started and that have ended, in microseconds.
fn cpu_us() -> Outcome<f64> {
    let mut sum = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        for time in [usage.user_time(), usage.system_time()] {
            let seconds = Duration::from_secs(u64::try_from(time.tv_sec())?);
            let rest = Duration::from_micros(u64::try_from(time.tv_usec())?);
            sum += (seconds + rest).as_secs_f64() * 1e6;
        }
    }
    Ok(sum)
}

/// One client and one server in a namespace of their own.
fn measure(client: Client, server: &str) -> Outcome<Measured> {
    let sysctls = [
        ("net.core.somaxconn", "4096"),
        ("net.ipv4.ip_local_port_range", "10000 60999"),
    ];
    let value = |text: &str| toml::Value::from(text).try_into::<SysctlValue>();
    let sysctls: Result<BTreeMap<String, SysctlValue>, _> = sysctls
        .into_iter()
        .map(|(name, text)| Ok::<_, toml::de::Error>((name.to_owned(), value(text)?)))
        .collect();
    let topology = Topology::build(&LinkSpec::default(), &sysctls?)?;
    let namespace = &topology.server;
    let serving = Serving::start(server, namespace)?;
    let before = opened(namespace)?;
    let cpu_before_us = cpu_us()?;
    let took = match client {
        Client::Ours(engine) => ours(engine, namespace, serving.address)?,
        Client::Other(program, arguments) => {
            let mut command = Command::new(program);
            command
                .args(arguments)
                .arg(format!("http://{}/", serving.address));
            command.stdout(Stdio::piped()).stderr(Stdio::null());
            let (output, took) = namespace.run(move || {
                let start = Instant::now();
                (command.output(), start.elapsed())
            })?;
            let output = output?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // wrk and ab name other answers by these words.
            let wrong = ["Non-2xx", "Socket errors"];
            if !output.status.success() || wrong.iter().any(|word| text.contains(word)) {
                return Err(
                    format!("{program} against {server}: {}\n{text}", output.status).into(),
                );
            }
            took
        }
    };
    let opened = opened(namespace)? - before;
    // The processor time of a program is known when it has ended.
    drop(serving);
    Ok(Measured {
        per_s: opened / took.as_secs_f64(),
        cpu_us: (cpu_us()? - cpu_before_us) / opened,
    })
}

/// Connections that the namespace's listeners have opened.
fn opened(namespace: &Namespace) -> Outcome<f64> {
    let snapshot = namespace.run(|| counters::snapshot(Path::new("/proc/thread-self/net")))?;
    let count = snapshot.counters.get("Tcp.PassiveOpens").copied().flatten();
    let count = count.and_then(|count| u32::try_from(count).ok());
    Ok(count.ok_or("Tcp.PassiveOpens is unknown")?.into())
}

/// A server at work.
struct Serving {
    address: SocketAddr,
    _server: AtWork,
}

/// It ends when it is dropped.
enum AtWork {
    Ours(#[expect(dead_code, reason = "it works as long as it is held")] Server),
    Nginx(#[expect(dead_code, reason = "it works as long as it is held")] Nginx),
}

/// nginx and the folder of its files.
struct Nginx {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT);
        let _ = self.child.wait();
    }
}

impl Serving {
    fn start(server: &str, namespace: &Namespace) -> Outcome<Self> {
        if server != "nginx" {
            let arm: Arm = toml::from_str(
                "title = \"t\"\nwhy = \"w\"\nserver.backlog = 4096\nprotocol.kind = \"http\"",
            )?;
            let spec = arm.server.own().ok_or("the lab's own server")?.clone();
            let protocol = arm.protocol;
            let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let server = namespace.run(move || Server::open(ip, &spec, &protocol))??;
            server.begin(Clock::start())?;
            return Ok(Self {
                address: server.address(),
                _server: AtWork::Ours(server),
            });
        }
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        let folder = tempfile::tempdir()?;
        let configuration = format!(
            "daemon off; worker_processes 2; pid {0}/pid; error_log {0}/error.log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; keepalive_timeout 0; server {{ listen {address} backlog=4096;\n\
             location / {{ return 200 \"OK\\n\"; }} }} }}\n",
            folder.path().display()
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, configuration)?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&file).stderr(Stdio::null());
        let child = namespace.run(move || command.spawn())??;
        let serving = Self {
            address,
            _server: AtWork::Nginx(Nginx {
                child,
                _folder: folder,
            }),
        };
        let connects = move || std::net::TcpStream::connect(address).is_ok();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !namespace.run(connects)? {
            if Instant::now() > deadline {
                return Err("nginx does not listen".into());
            }
            thread::yield_now();
        }
        Ok(serving)
    }
}

fn target(namespace: &Namespace, address: SocketAddr, protocol: Protocol) -> Outcome<Target> {
    Ok(Target {
        addresses: vec![address],
        sources: None,
        bind: Bind::default(),
        speaks_first: protocol.speaks_first,
        series: Series::new(&ClientSpec::default(), &protocol),
        http: protocol.http,
        timeout_us: 5_000_000,
        hold_us: 0,
        diag: Mutex::new(namespace.run(Diag::open)??),
        blind: Mutex::default(),
        progress: Arc::default(),
        interrupt: Interrupt::new()?,
    })
}

/// A flood of ours; every connection must be answered rightly.
fn ours(engine: Engine, namespace: &Namespace, address: SocketAddr) -> Outcome<Duration> {
    let spec = ClientSpec {
        connections: AT_ONCE,
        workers: Some(AT_ONCE),
        concurrency: Some(AT_ONCE),
        duration: Span::from_ms(3_000),
        engine,
        ..ClientSpec::default()
    };
    let protocol: Arm =
        toml::from_str("title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\nprotocol.kind = \"http\"")?;
    let target = target(namespace, address, protocol.protocol)?;
    let schedule = Schedule::new(&spec, Requests::ONE, 1);
    let flood = namespace.run(move || Flood::prepare(&spec, schedule, target))??;
    let start = Instant::now();
    flood.release(Clock::start());
    let harvest = flood.join()?;
    let took = start.elapsed();
    let mut wrong = harvest
        .attempts
        .iter()
        .filter(|one| one.ended != Ended::Answered);
    match wrong.next() {
        None => Ok(took),
        Some(one) => Err(format!("{} of ours: {one:?}", 1 + wrong.count()).into()),
    }
}

/// Resident memory of this process, in bytes.
fn resident() -> Outcome<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    Ok(kib.ok_or("VmRSS is unknown")? * 1024)
}

/// What each of many attempts takes that are under way at once, connected and unanswered.
fn memory() -> Outcome<()> {
    const OWN_FILES: u64 = 256;
    const MOST: u64 = 50_000;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    println!(
        "\n| concurrent attempts, event-driven | resident memory of each | wanted |\n| --- | --- | --- |"
    );
    for kind in ["line", "http"] {
        let text = format!(
            "title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\nprotocol.kind = \"{kind}\"\n\
             [sysctl]\n\"net.core.somaxconn\" = 65535\n\"net.ipv4.ip_local_port_range\" = \"1024 65535\""
        );
        let arm: Arm = toml::from_str(&text)?;
        let topology = Topology::build(&arm.link, &arm.sysctl)?;
        let namespace = &topology.server;
        let listener = namespace.run(|| TcpListener::bind("127.0.0.1:80"))??;
        // Calling listen() again changes the limit of the queue.
        let listener = socket2::Socket::from(listener);
        listener.listen(65_535)?;
        let spec = ClientSpec {
            connections: u32::try_from(hard.saturating_sub(OWN_FILES).min(MOST))?,
            engine: Engine::Async,
            ..ClientSpec::default()
        };
        let address = listener.local_addr()?.as_socket().ok_or("no address")?;
        let target = target(namespace, address, arm.protocol)?;
        let (wanted, progress) = (spec.connections, Arc::clone(&target.progress));
        let schedule = Schedule::new(&spec, Requests::ONE, 1);
        let before = resident()?;
        let flood = namespace.run(move || Flood::prepare(&spec, schedule, target))??;
        flood.release(Clock::start());
        let most = peak(&progress, wanted)?;
        let each = most.saturating_sub(before) / wanted as usize;
        let wish = if kind == "line" {
            "under 4096 bytes"
        } else {
            "-"
        };
        println!("| {wanted}, {kind} | {each} bytes | {wish} |");
        drop(flood.join()?);
    }
    Ok(())
}

/// Resident memory when everybody is connected and nobody has ended.
fn peak(progress: &Progress, wanted: u32) -> Outcome<usize> {
    let clock = Clock::start();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match progress.counts() {
            [connected, _, 0] if connected == wanted => return resident(),
            [_, _, 0] if Instant::now() < deadline => clock.sleep_until(clock.now_us() + 1_000),
            counts => return Err(format!("not {wanted} at once: {counts:?}").into()),
        }
    }
}

/// A trial that holds as many connections as the limit of open files allows: both ends are this process's.
fn held() -> Outcome<()> {
    const OWN_FILES: u64 = 64;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let connections = (hard.saturating_sub(OWN_FILES) / 2).min(60_000);
    let arm: Arm = toml::from_str(&format!(
        "title = \"t\"\nwhy = \"w\"\nserver.backlog = 4096\n\
         [client]\nconnections = {connections}\nengine = \"async\"\ntimeout = \"5s\"\n\
         [protocol]\nspeaks-first = \"nobody\"\n\
         [sysctl]\n\"net.core.somaxconn\" = 4096\n\"net.ipv4.ip_local_port_range\" = \"1024 65535\""
    ))?;
    let plan = Plan::new(vec![arm], 1, 1, Vec::new());
    let measured = KernelLab::default().observe(plan.order()[0], &Arc::default())?;
    let held = measured
        .attempts
        .iter()
        .filter(|one| one.ended == Ended::Held);
    println!("\n| hard limit of open files | connections asked for | held at once | accepted |");
    println!("| --- | --- | --- | --- |");
    println!(
        "| {hard} | {connections} | {} | {} |",
        held.count(),
        measured.accepts.len()
    );
    Ok(())
}
