//! `hold` as another crate's tests use it, and the command: on the host's loopback, without privileges.

#![allow(clippy::unwrap_used, reason = "a test may fail so")]

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use backlog_lab::hold::{self, HoldError, Mode};

#[test]
fn a_real_http_clients_connect_timeout() {
    let port = hold::local(Mode::Full).unwrap();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_millis(200)))
        .proxy(None)
        .build()
        .into();
    let error = agent
        .get(format!("http://{}/", port.address()))
        .call()
        .unwrap_err();
    assert!(
        matches!(error, ureq::Error::Timeout(ureq::Timeout::Connect)),
        "{error}"
    );
}

#[test]
fn a_real_http_clients_read_timeout() {
    let port = hold::local(Mode::Ghost).unwrap();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(5)))
        .timeout_recv_response(Some(Duration::from_millis(200)))
        .proxy(None)
        .build()
        .into();
    let error = agent
        .get(format!("http://{}/", port.address()))
        .call()
        .unwrap_err();
    assert!(
        matches!(error, ureq::Error::Timeout(ureq::Timeout::RecvResponse)),
        "{error}"
    );
}

#[test]
fn a_slow_answer_is_an_answer() {
    let port = hold::local(Mode::Slow(Duration::from_millis(100))).unwrap();
    let begun = Instant::now();
    let mut answer = ureq::get(format!("http://{}/", port.address()))
        .call()
        .unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(100));
    assert_eq!(answer.body_mut().read_to_string().unwrap(), "OK\n");
}

#[test]
fn the_port_is_free_again_after_the_hold() {
    for mode in [Mode::Full, Mode::Ghost, Mode::Refuse] {
        let held = hold::local(mode).unwrap();
        let address = held.address();
        assert!(TcpListener::bind(address).is_err(), "{mode:?}");
        drop(held);
        TcpListener::bind(address).unwrap();
    }
}

/// A server that closes first leaves its connections in `TIME_WAIT` at its port.
#[test]
fn a_port_can_be_held_again_at_once_in_any_mode() {
    let modes = [
        Mode::Close,
        Mode::Refuse,
        Mode::Full,
        Mode::Slow(Duration::ZERO),
        Mode::Refuse,
        Mode::Ghost,
        Mode::Reset,
    ];
    let address = hold::local(Mode::Close).unwrap().address();
    for mode in modes {
        let held = hold::at(mode, address).unwrap();
        assert_eq!(held.broke(Duration::ZERO), None, "{mode:?}");
        if let Mode::Close = mode {
            let mut client = TcpStream::connect(address).unwrap();
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
        }
        if let Mode::Refuse = mode {
            let error = TcpStream::connect(address).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            assert!(
                TcpListener::bind(address).is_err(),
                "others can listen on it"
            );
            assert!(
                hold::at(Mode::Refuse, address).is_err(),
                "it is reserved twice"
            );
        }
    }
}

#[test]
fn two_on_one_port_are_told() {
    for first in [Mode::Full, Mode::Refuse, Mode::Close] {
        let held = hold::local(first).unwrap();
        for second in [Mode::Full, Mode::Refuse, Mode::Reset] {
            let error = hold::at(second, held.address()).unwrap_err();
            assert!(matches!(error, HoldError::Socket { .. }), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains(&held.address().to_string()) && text.contains("the port is taken"),
                "{text}"
            );
        }
    }
}

#[test]
fn an_address_of_another_machine_is_told() {
    let error = hold::at(Mode::Full, "198.51.100.1:0".parse().unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("does not have that address"),
        "{error}"
    );
}

#[test]
fn it_is_ready_soon_and_held_from_then_on() {
    for mode in [
        Mode::Full,
        Mode::Ghost,
        Mode::Slow(Duration::from_secs(9)),
        Mode::Reset,
        Mode::Close,
        Mode::Refuse,
    ] {
        let held = hold::local(mode).unwrap();
        // Longer than every mode's own checks are apart.
        assert_eq!(held.broke(Duration::from_millis(1_200)), None, "{mode:?}");
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backlog-lab"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

/// Starts a hold and reads its ready line.
fn started(arguments: &[&str]) -> (Child, SocketAddr) {
    let mut child = program(arguments)
        .arg("--json")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let ip = ready["address"].as_str().unwrap().parse().unwrap();
    (
        child,
        SocketAddr::new(ip, u16::try_from(ready["port"].as_u64().unwrap()).unwrap()),
    )
}

fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

#[test]
fn signals_leave_nothing() {
    use nix::sys::signal::Signal::{SIGINT, SIGKILL, SIGTERM};
    for (by, code) in [(SIGTERM, Some(143)), (SIGINT, Some(130)), (SIGKILL, None)] {
        for mode in ["full", "ghost", "slow", "reset", "close", "refuse"] {
            let (mut child, address) = started(&["hold", mode]);
            signal(&child, by);
            assert_eq!(child.wait().unwrap().code(), code, "{mode} {by}");
            let error = TcpStream::connect(address).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{mode} {by}");
        }
    }
}

#[test]
fn a_command_gets_the_address_and_gives_its_status() {
    let done = output(&[
        "hold",
        "full",
        "--",
        "sh",
        "-c",
        "echo $BACKLOG_LAB_ADDR; exit 7",
    ]);
    assert_eq!(done.status.code(), Some(7));
    let address: SocketAddr = String::from_utf8_lossy(&done.stdout)
        .trim()
        .parse()
        .unwrap();
    assert!(address.ip().is_loopback() && address.port() != 0);
    let done = output(&[
        "hold",
        "refuse",
        "--bind",
        "::",
        "--",
        "sh",
        "-c",
        "echo $BACKLOG_LAB_ADDR; kill -9 $$",
    ]);
    assert_eq!(done.status.code(), Some(137));
    assert!(String::from_utf8_lossy(&done.stdout).starts_with("[::1]:"));
    assert_eq!(
        output(&["hold", "full", "--", "/no/such/program"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn a_command_ends_with_the_hold() {
    use nix::sys::signal::Signal::{SIGKILL, SIGTERM};
    for (by, code) in [(SIGTERM, Some(143)), (SIGKILL, None)] {
        let mut child = program(&[
            "hold",
            "ghost",
            "--",
            "sh",
            "-c",
            "echo started; exec sleep 60",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        pipe.read_line(&mut String::new()).unwrap();
        signal(&child, by);
        assert_eq!(child.wait().unwrap().code(), code);
        // The end of the pipe is the end of the last process that could write to it.
        pipe.read_to_end(&mut Vec::new()).unwrap();
    }
    let done = output(&["hold", "ghost", "--for", "100ms", "--", "sleep", "60"]);
    assert_eq!(done.status.code(), Some(143));
}

#[test]
fn it_ends_by_itself_after_its_time() {
    let begun = Instant::now();
    let done = output(&["hold", "close", "--for", "300ms"]);
    assert_eq!(
        done.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn two_commands_on_one_port_are_told() {
    let (mut child, address) = started(&["hold", "full"]);
    let second = output(&["hold", "full", &address.port().to_string()]);
    assert_eq!(second.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&second.stderr).contains("the port is taken"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn as_a_dev_dependency_it_builds_with_at_most_twelve_crates() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--prefix",
            "none",
            "--edges",
            "normal,build",
            "--no-dedupe",
        ])
        .args(["--no-default-features", "--features", "hold"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let text = String::from_utf8(tree.stdout).unwrap();
    let mut crates: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    crates.sort_unstable();
    crates.dedup();
    assert!(
        crates.contains(&"backlog-lab") && crates.len() <= 12,
        "{}: {crates:?}",
        crates.len()
    );
}
