//! Programs that an audit starts, and programs at their limits.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use backlog_lab::audit::{Finding, Place};
use backlog_lab::netns::{Launch, Namespace, Program};
use backlog_lab::probe::diag::Diag;
use backlog_lab::probe::owners;
use libtest_mimic::{Failed, Trial};

use crate::audit::{WINDOW, audited, row};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        ("a-process-without-files-is-told-apart", out_of_files),
        ("a-command-is-audited-gated-and-ended", command),
        ("a-killed-audit-leaves-no-process", killed),
    ];
    tests
        .into_iter()
        .map(|(name, test)| Trial::test(format!("audit/{name}"), test))
        .collect()
}

/// Asks `ready` until it says yes, for ten seconds at most.
pub(crate) fn eventually(
    what: &str,
    mut ready: impl FnMut() -> Result<bool, Failed>,
) -> Result<(), Failed> {
    let begun = Instant::now();
    while !ready()? {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(format!("not within 10 s: {what}").into());
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    Ok(())
}

fn listening_inodes(namespace: &Namespace) -> Result<BTreeSet<u32>, Failed> {
    let rows = namespace.run(|| Diag::open().and_then(|mut diag| diag.listeners()))??;
    Ok(rows.into_iter().map(|row| row.inode).collect())
}

fn out_of_files() -> Result<(), Failed> {
    let namespace = Namespace::create("server")?;
    let script = format!("ulimit -n 64; exec {} hold slow 9000 --delay 60s", lab());
    let _program = Program::start(
        &namespace,
        Launch::new(["sh", "-c", &script].map(Into::into).into()),
    )?;
    let address: SocketAddr = "127.0.0.1:9000".parse()?;
    let mut clients = Vec::new();
    // One client after another, until the server has no file left for the next.
    let mut server = 0;
    eventually("it has no file left", || {
        clients.extend(namespace.run(move || TcpStream::connect(address))?);
        let owners = owners::find(&listening_inodes(&namespace)?)?;
        let owner = owners.of.values().flatten().next();
        server = owner.map_or(server, |owner| owner.pid);
        Ok(owner.is_some_and(|owner| Some(owner.files_used) == owner.files_allowed))
    })?;
    let audit = audited(Place::inside(namespace)?, WINDOW)?;
    assert_eq!(row(&audit, address).pid, Some(server));
    let one = row(&audit, address);
    assert_eq!((one.files_used, one.files_allowed), (Some(64), Some(64)));
    assert!(
        one.findings.contains(&Finding::OutOfFiles),
        "{:?}",
        one.findings
    );
    assert!(one.says.contains("open files 64, used 64"), "{}", one.says);
    assert!(
        one.advice
            .advice
            .as_deref()
            .unwrap_or_default()
            .contains("raise the open-files limit")
    );
    Ok(())
}

/// The program under test, as a word of a shell.
fn lab() -> String {
    crate::program().display().to_string()
}

fn run(arguments: &[&str]) -> Result<Output, Failed> {
    Ok(Command::new(crate::program()).args(arguments).output()?)
}

/// Processes with this word on their command line.
pub(crate) fn processes_with(word: &str) -> usize {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| {
            line.split(|byte| *byte == 0)
                .any(|argument| argument == word.as_bytes())
        })
        .count()
}

fn command() -> Result<(), Failed> {
    // A program that gets all it can, cut by somaxconn; one that asks for less itself; and what each leaves behind.
    for (mode, says) in [
        ("ghost", "128, expected 2048: clamped by somaxconn (128)"),
        (
            "full",
            "0, expected 2048: the process passed a smaller value",
        ),
    ] {
        let mark = if mode == "ghost" {
            "98765431"
        } else {
            "98765432"
        };
        let script = format!("setsid sleep {mark} & exec {} hold {mode} 9000", lab());
        let output = run(&[
            "audit",
            "--somaxconn",
            "128",
            "--interval",
            "100ms",
            "--expect-backlog",
            "2048",
            "--",
            "sh",
            "-c",
            &script,
        ])?;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(says), "{text}");
        assert_eq!(processes_with(mark), 0, "a process was left behind");
    }
    let output = run(&[
        "audit",
        "--interval",
        "100ms",
        "--expect-backlog",
        "128",
        "--somaxconn",
        "128",
        "--json",
        "--",
        &lab(),
        "hold",
        "ghost",
    ])?;
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let one = &document["listeners"][0];
    assert_eq!(
        (&one["limit"], &one["capacity"], &one["somaxconn"]),
        (&128.into(), &129.into(), &128.into())
    );
    assert_eq!(
        (&one["process"], &one["verdict"]),
        (&"backlog-lab".into(), &"healthy".into())
    );

    // One that goes into the background, out of the session, and lets its first process end.
    let mark = "9123";
    let script = format!(
        "(setsid {} hold ghost {mark} >/dev/null 2>&1 &); exit 0",
        lab()
    );
    let output = run(&[
        "audit",
        "--interval",
        "100ms",
        "--json",
        "--",
        "sh",
        "-c",
        &script,
    ])?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(
        (output.status.code(), &document["listeners"][0]["port"]),
        (Some(0), &9_123.into())
    );
    assert_eq!(processes_with(mark), 0, "a process was left behind");

    let output = run(&["audit", "--", "sh", "-c", "exit 3"])?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(4)
            && text.contains("ended with exit status: 3 and never listened"),
        "{text}"
    );
    Ok(())
}

fn killed() -> Result<(), Failed> {
    let mark = "98765433";
    let script = format!("setsid sleep {mark} & exec {} hold ghost 9000", lab());
    let mut audit = Command::new(crate::program())
        .args(["audit", "--interval", "60s", "--", "sh", "-c", &script])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    eventually("it has started", || Ok(processes_with(mark) == 1))?;
    audit.kill()?;
    audit.wait()?;
    eventually("its processes have gone", || Ok(processes_with(mark) == 0))
}
