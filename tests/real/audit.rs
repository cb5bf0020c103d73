//! The audit of real servers, figure by figure beside `ss` and `nstat`.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use backlog_lab::audit::{self, Audit, DROPS, Finding, OVERFLOWS, Place, Scope};
use backlog_lab::netns::{Launch, Namespace, Program};
use backlog_lab::probe::{diag::Diag, host::read_host, owners};
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use socket2::{Domain, Socket, Type};

/// A server: its name, how it is started (with a folder for its files), and the backlog that it asks for.
struct Server {
    name: &'static str,
    command: fn(&str) -> Vec<OsString>,
    asks: u32,
}

const PORT: u16 = 8080;

const SERVERS: [Server; 5] = [
    Server {
        name: "nginx",
        command: nginx,
        asks: 511,
    },
    Server {
        name: "redis-server",
        command: redis,
        asks: 511,
    },
    Server {
        name: "gunicorn",
        command: gunicorn,
        asks: 2_048,
    },
    Server {
        name: "node",
        command: node,
        asks: 511,
    },
    Server {
        name: "python3",
        command: python,
        asks: 5,
    },
];

pub(crate) fn trials() -> Vec<Trial> {
    SERVERS
        .iter()
        .flat_map(|server| {
            [4_096, 128].map(|somaxconn| {
                let name = format!(
                    "audit/{}-agrees-with-ss-and-nstat(somaxconn={somaxconn})",
                    server.name
                );
                Trial::test(name, move || agrees(server, somaxconn))
            })
        })
        .chain([Trial::test(
            "audit/a-container-without-root-shows-its-limits-to-its-user",
            own_container,
        )])
        .collect()
}

/// A container as users make them without root: user and network namespace of its own.
fn own_container() -> Result<(), Failed> {
    // Where everybody may start the program.
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
    let lab = folder.path().join("backlog-lab");
    std::fs::copy(env!("CARGO_BIN_EXE_backlog-lab"), &lab)?;
    let lab = lab.display().to_string();
    let as_nobody = |words: &[&str]| {
        let user: &[&str] = if nix::unistd::geteuid().is_root() {
            &[
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
            ]
        } else {
            &["env"]
        };
        let mut command = Command::new(user[0]);
        command.args(&user[1..]).args(words);
        command
    };
    let script = format!("ip link set lo up && exec {lab} hold ghost --json");
    let mut container = as_nobody(&["unshare", "-Urn", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = container.stdout.take().ok_or("no output")?;
    BufReader::new(output).read_line(&mut String::new())?;
    let pid = container.id().to_string();
    let audit = as_nobody(&[
        &lab,
        "audit",
        "--interval",
        "100ms",
        "--json",
        "--pid",
        &pid,
    ])
    .output();
    container.kill()?;
    container.wait()?;
    let audit = audit?;
    assert!(
        audit.status.success(),
        "{}",
        String::from_utf8_lossy(&audit.stderr)
    );
    let document: serde_json::Value = serde_json::from_slice(&audit.stdout)?;
    let one = &document["listeners"][0];
    assert_eq!(
        (&one["pid"], &one["limit"], &one["somaxconn"]),
        (&pid.parse::<u32>()?.into(), &4_096.into(), &4_096.into()),
        "{document}"
    );
    Ok(())
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn nginx(folder: &str) -> Vec<OsString> {
    let file = format!("{folder}/nginx.conf");
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder}/{kind}; "))
        .concat();
    std::fs::write(
        &file,
        format!(
            "daemon off; worker_processes 2; pid {folder}/pid; error_log stderr crit; events {{}} \
             http {{ access_log off; {paths} server {{ listen 127.0.0.1:{PORT}; listen [::1]:{PORT}; }} }}"
        ),
    ).expect("a file in a fresh folder");
    words(&["nginx", "-e", "stderr", "-p", folder, "-c", &file])
}

fn redis(folder: &str) -> Vec<OsString> {
    words(&[
        "redis-server",
        "--port",
        &PORT.to_string(),
        "--save",
        "",
        "--dir",
        folder,
        "--loglevel",
        "warning",
    ])
}

fn gunicorn(folder: &str) -> Vec<OsString> {
    std::fs::write(
        format!("{folder}/app.py"),
        "def app(environ, start):\n    start('200 OK', [])\n    return [b'OK']\n",
    )
    .expect("a file in a fresh folder");
    words(&[
        "gunicorn",
        "--chdir",
        folder,
        "--workers",
        "2",
        "--log-level",
        "error",
        "--bind",
        &format!("127.0.0.1:{PORT}"),
        "app:app",
    ])
}

fn node(_: &str) -> Vec<OsString> {
    let script =
        format!("require('http').createServer((q, a) => a.end('OK')).listen({PORT}, '127.0.0.1')");
    words(&["node", "-e", &script])
}

fn python(folder: &str) -> Vec<OsString> {
    words(&[
        "python3",
        "-m",
        "http.server",
        &PORT.to_string(),
        "--bind",
        "127.0.0.1",
        "--directory",
        folder,
    ])
}

fn set_somaxconn(value: u32) -> std::io::Result<()> {
    std::fs::write("/proc/sys/net/core/somaxconn", value.to_string())
}

fn agrees(server: &Server, somaxconn: u32) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let namespace = Namespace::create("server")?;
    namespace.run(move || set_somaxconn(somaxconn))??;
    let command = (server.command)(&folder.path().to_string_lossy());
    let mut program = Program::start(&namespace, Launch::new(command))?;
    let begun = Instant::now();
    while namespace
        .run(|| Diag::open().and_then(|mut diag| diag.listeners()))??
        .is_empty()
    {
        if let Some(status) = program.ended(Duration::from_millis(10))? {
            return Err(format!("{} ended with {status}", server.name).into());
        }
        if begun.elapsed() > Duration::from_secs(20) {
            return Err(format!("{} never listened", server.name).into());
        }
    }
    // Workers take their time to inherit the socket.
    program.ended(Duration::from_millis(500))?;
    let limit = server.asks.min(somaxconn);
    namespace.run(move || inside(limit, somaxconn))?
}

fn inside(limit: u32, somaxconn: u32) -> Result<(), Failed> {
    let audit = compared()?;
    assert!(
        audit.listeners.iter().all(|one| one.limit == Some(limit)),
        "{:?}",
        audit.listeners
    );
    let is_cut = limit == somaxconn;
    let flagged = |audit: &Audit| {
        audit
            .listeners
            .iter()
            .all(|one| one.findings.contains(&Finding::ClampedByProgram))
    };
    assert_eq!(flagged(&audit), !is_cut, "{:?}", audit.listeners);

    // Raised without a restart: nothing of a running listener moves.
    set_somaxconn(somaxconn * 2)?;
    let audit = compared()?;
    assert!(
        audit.listeners.iter().all(|one| one.limit == Some(limit)),
        "{:?}",
        audit.listeners
    );
    assert!(flagged(&audit), "{:?}", audit.listeners);

    // Stopped, it accepts nobody: its queue fills, and what comes then is dropped.
    let pids: Vec<i32> = ss()?.iter().flat_map(|row| row.pids.clone()).collect();
    for pid in &pids {
        kill(Pid::from_raw(*pid), Signal::SIGSTOP)?;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let clients: Vec<Socket> = (0..limit + 11)
        .map(|_| -> Result<Socket, Failed> {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            match socket.connect(&address.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error.into()),
                _ => Ok(socket),
            }
        })
        .collect::<Result<_, _>>()?;
    // Those that were dropped knock again; from here on nothing moves.
    drop(clients);
    let audit = compared()?;
    let one = audit
        .listeners
        .iter()
        .find(|one| one.address == address.ip() || one.address.is_unspecified());
    let one = one.ok_or("no row of the server")?;
    assert_eq!(
        (one.verdict, one.depth),
        (Finding::Full, limit + 1),
        "{}",
        one.says
    );
    assert!(audit.namespaces[0].counters[OVERFLOWS].since_boot >= Some(10));
    Ok(())
}

/// An audit whose every figure is what `ss` and `nstat` say.
fn compared() -> Result<Audit, Failed> {
    let scope = Scope::default();
    let window = audit::measure(&mut [Place::here()?], Duration::from_millis(100))?;
    let owners = owners::find(&window.inodes(&scope))?;
    let audit = audit::report(&window, &owners, read_host(), &scope);

    let rows = ss()?;
    let mut theirs: Vec<_> = rows
        .iter()
        .map(|row| (row.port, row.recv_q, row.send_q))
        .collect();
    let mut ours: Vec<_> = audit
        .listeners
        .iter()
        .map(|one| (one.port, one.depth, one.limit.unwrap_or(u32::MAX)))
        .collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, theirs);
    for one in &audit.listeners {
        let pid = i32::try_from(one.pid.ok_or("a process is not visible")?)?;
        let row = rows
            .iter()
            .find(|row| row.pids.contains(&pid))
            .ok_or("ss knows no such process")?;
        assert_eq!((one.port, one.processes), (row.port, row.pids.len()));
        assert_eq!(one.process.as_ref(), row.name.as_ref());
    }
    for (name, theirs) in [
        (OVERFLOWS, "TcpExtListenOverflows"),
        (DROPS, "TcpExtListenDrops"),
    ] {
        assert_eq!(
            audit.namespaces[0].counters[name].since_boot,
            Some(nstat(theirs)?),
            "{name}"
        );
    }
    Ok(audit)
}

/// A row of `ss`.
#[derive(Debug)]
struct Row {
    recv_q: u32,
    send_q: u32,
    port: u16,
    name: Option<String>,
    pids: Vec<i32>,
}

fn printed(program: &str, arguments: &[&str]) -> Result<String, Failed> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8(output.stdout)?)
}

fn ss() -> Result<Vec<Row>, Failed> {
    let text = printed("ss", &["-Hltnp"])?;
    text.lines()
        .map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [_, recv_q, send_q, local, _, users @ ..] = columns.as_slice() else {
                return Err(Failed::from(format!("ss: {line}")));
            };
            let users = users.concat();
            Ok(Row {
                recv_q: recv_q.parse()?,
                send_q: send_q.parse()?,
                port: local.rsplit(':').next().unwrap_or_default().parse()?,
                name: users.split('"').nth(1).map(str::to_owned),
                pids: users
                    .split("pid=")
                    .skip(1)
                    .map(|rest| rest.split(',').next().unwrap_or_default().parse())
                    .collect::<Result<_, _>>()?,
            })
        })
        .collect()
}

fn nstat(name: &str) -> Result<u64, Failed> {
    // Absolute, zeros too, and without its history file.
    let text = printed("nstat", &["-asz", name])?;
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .ok_or("nstat does not know the counter")?;
    Ok(line
        .split_whitespace()
        .nth(1)
        .ok_or("nstat shows no value")?
        .parse()?)
}
