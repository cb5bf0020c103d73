//! What curl makes of a held port.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use backlog_lab::hold::{self, Held, Mode};
use backlog_lab::netns::Namespace;
use libtest_mimic::{Failed, Trial};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for ip in ["127.0.0.1", "::1"] {
        for cookies in [0, 1] {
            let name = format!("hold/curl-tells-the-modes-apart({ip}, tcp_syncookies={cookies})");
            trials.push(Trial::test(name, move || {
                inside(cookies, move || modes(ip))
            }));
        }
        let name = format!("hold/curl-times-out-at-full-50-of-50-also-20-at-once({ip})");
        trials.push(Trial::test(name, move || inside(1, move || full(ip))));
    }
    trials.push(Trial::test(
        "hold/the-documented-shell-example-holds",
        || example("sh", "sh", "-c"),
    ));
    trials.push(Trial::test(
        "hold/the-documented-python-example-holds",
        || example("python", "python3", "-c"),
    ));
    trials
}

/// Runs the first example in this language from docs/hold.md, with the program on its path.
fn example(language: &str, program: &str, option: &str) -> Result<(), Failed> {
    let docs = include_str!("../../docs/hold.md");
    let fence = format!("```{language}\n");
    let example = docs
        .split(&fence)
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let lab = std::path::Path::new(env!("CARGO_BIN_EXE_backlog-lab"));
    let folder = lab.parent().ok_or("the program is in no folder")?;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH")?);
    let output = Command::new(program)
        .args([option, example.ok_or("there is no such example")?])
        .env("PATH", path)
        .output()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn inside(
    cookies: u8,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Result<(), Failed> {
    Namespace::create("hold-test")?.run(move || {
        std::fs::write("/proc/sys/net/ipv4/tcp_syncookies", cookies.to_string())?;
        test()
    })?
}

fn hold_on(ip: &str, mode: Mode) -> Result<Held, Failed> {
    Ok(hold::at(mode, SocketAddr::new(ip.parse()?, 0))?)
}

/// curl's exit code, and how long its connect took; 0 when it did not connect.
fn curl(held: &Held, most: &str) -> Result<(Option<i32>, f64), Failed> {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--globoff",
            "--noproxy",
            "*",
            "--output",
            "/dev/null",
        ])
        .args([
            "--connect-timeout",
            "1",
            "--max-time",
            most,
            "--write-out",
            "%{time_connect}",
        ])
        .arg(format!("http://{}/", held.address()))
        .output()
        .map_err(|error| format!("curl: {error}"))?;
    let connect_s = String::from_utf8_lossy(&output.stdout).trim().parse()?;
    Ok((output.status.code(), connect_s))
}

fn modes(ip: &str) -> Result<(), Failed> {
    let (code, connect_s) = curl(&hold_on(ip, Mode::Full)?, "5")?;
    assert!(
        code == Some(28) && connect_s == 0.0,
        "full: {code:?} {connect_s}"
    );
    let (code, connect_s) = curl(&hold_on(ip, Mode::Ghost)?, "1.5")?;
    assert!(
        code == Some(28) && connect_s > 0.0,
        "ghost: {code:?} {connect_s}"
    );
    for (mode, expected) in [
        (Mode::Slow(Duration::from_millis(300)), 0),
        (Mode::Reset, 56),
        (Mode::Close, 52),
        (Mode::Refuse, 7),
    ] {
        let held = hold_on(ip, mode)?;
        for _ in 0..10 {
            assert_eq!(curl(&held, "5")?.0, Some(expected), "{mode:?}");
        }
        assert_eq!(held.broke(Duration::ZERO), None);
    }
    Ok(())
}

fn full(ip: &str) -> Result<(), Failed> {
    let held = hold_on(ip, Mode::Full)?;
    for (at_once, times) in [(10, 5), (20, 1)] {
        let timed_out: usize = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..at_once)
                .map(|_| {
                    scope.spawn(|| {
                        (0..times)
                            .filter(|_| matches!(curl(&held, "5"), Ok((Some(28), _))))
                            .count()
                    })
                })
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().expect("a client panicked"))
                .sum()
        });
        assert_eq!(timed_out, at_once * times);
    }
    assert_eq!(held.broke(Duration::ZERO), None);
    Ok(())
}
