//! Every mode of `hold`, on both families, with and without SYN cookies.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use backlog_lab::hold::{self, Held, Mode};
use backlog_lab::netns::Namespace;
use libtest_mimic::{Failed, Trial};

/// How long a client of these tests waits for what must not come.
const PATIENCE: Duration = Duration::from_millis(300);

const DELAY: Duration = Duration::from_millis(200);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for ip in ["127.0.0.1", "::1"] {
        for cookies in [0, 1] {
            let name = format!("hold/every-mode-keeps-its-promise({ip}, tcp_syncookies={cookies})");
            trials.push(Trial::test(name, move || {
                inside(cookies, move || every_mode(ip))
            }));
            let name = format!(
                "hold/full-times-out-50-of-50-also-20-at-once({ip}, tcp_syncookies={cookies})"
            );
            trials.push(Trial::test(name, move || {
                inside(cookies, move || full_for_many(ip))
            }));
            let name = format!(
                "hold/ghost-connects-50-of-50-and-answers-0({ip}, tcp_syncookies={cookies})"
            );
            trials.push(Trial::test(name, move || {
                inside(cookies, move || ghost_for_many(ip))
            }));
        }
    }
    trials.push(Trial::test("hold/ghost-outlives-a-small-somaxconn", || {
        inside(1, || {
            std::fs::write("/proc/sys/net/core/somaxconn", "16")?;
            let held = hold_on("127.0.0.1", Mode::Ghost)?;
            // Far more than the queue holds, in groups that leave the keeper time to make room.
            for _ in 0..20 {
                let group: Vec<TcpStream> =
                    (0..4).map(|_| connect(&held)).collect::<Result<_, _>>()?;
                assert!(held.broke(Duration::from_millis(60)).is_none());
                drop(group);
            }
            Ok(())
        })
    }));
    trials
}

fn inside(
    cookies: u8,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Result<(), Failed> {
    let namespace = Namespace::create("hold-test")?;
    namespace.run(move || {
        std::fs::write("/proc/sys/net/ipv4/tcp_syncookies", cookies.to_string())?;
        test()
    })?
}

fn hold_on(ip: &str, mode: Mode) -> Result<Held, Failed> {
    Ok(hold::at(mode, SocketAddr::new(ip.parse()?, 0))?)
}

fn connect(held: &Held) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&held.address(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// What a client that sends a request reads.
fn asked(held: &Held) -> Result<std::io::Result<Vec<u8>>, Failed> {
    let mut stream = connect(held)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    Ok(stream.read_to_end(&mut answer).map(|_| answer))
}

fn every_mode(ip: &str) -> Result<(), Failed> {
    let full = hold_on(ip, Mode::Full)?;
    assert_eq!(
        connect(&full).expect_err("it must fail").kind(),
        ErrorKind::TimedOut
    );

    let ghost = hold_on(ip, Mode::Ghost)?;
    assert_eq!(
        asked(&ghost)?.expect_err("it must fail").kind(),
        ErrorKind::WouldBlock
    );

    let slow = hold_on(ip, Mode::Slow(DELAY))?;
    let begun = Instant::now();
    let answer = asked(&slow)??;
    assert!(
        answer.starts_with(b"HTTP/1.1 200 OK") && begun.elapsed() >= DELAY,
        "{:?}",
        begun.elapsed()
    );

    let reset = hold_on(ip, Mode::Reset)?;
    assert_eq!(
        asked(&reset)?.expect_err("it must fail").kind(),
        ErrorKind::ConnectionReset
    );
    let mut silent = connect(&reset)?;
    silent.set_read_timeout(Some(Duration::from_secs(5)))?;
    assert_eq!(
        silent.read(&mut [0]).expect_err("it must fail").kind(),
        ErrorKind::ConnectionReset
    );

    let close = hold_on(ip, Mode::Close)?;
    assert_eq!(asked(&close)??, b"");
    // However much is sent, before the FIN and after it: never a RST.
    let mut talker = connect(&close)?;
    let mut end = Vec::new();
    for _ in 0..200 {
        talker.write_all(&[b'x'; 10_000])?;
    }
    talker.read_to_end(&mut end)?;
    assert_eq!(end, b"");
    for _ in 0..200 {
        talker.write_all(&[b'x'; 10_000])?;
    }
    drop(talker);

    let refuse = hold_on(ip, Mode::Refuse)?;
    assert_eq!(
        connect(&refuse).expect_err("it must fail").kind(),
        ErrorKind::ConnectionRefused
    );
    assert!(
        std::net::TcpListener::bind(refuse.address()).is_err(),
        "the port is free for others"
    );

    for held in [full, ghost, slow, reset, close, refuse] {
        assert_eq!(held.broke(Duration::ZERO), None, "{:?}", held.mode());
    }
    Ok(())
}

/// Runs `client` one after another, then from 20 threads at once; 50 times each. Returns how often it was true.
fn fifty_of_fifty(client: impl Fn() -> bool + Sync) -> [usize; 2] {
    let alone = (0..50).filter(|_| client()).count();
    let at_once = std::thread::scope(|scope| {
        let threads: Vec<_> = [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
            .map(|times| {
                let client = &client;
                scope.spawn(move || (0..times).filter(|_| client()).count())
            })
            .into_iter()
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a client panicked"))
            .sum()
    });
    [alone, at_once]
}

fn full_for_many(ip: &str) -> Result<(), Failed> {
    let held = hold_on(ip, Mode::Full)?;
    let times_out = || {
        let attempt = TcpStream::connect_timeout(&held.address(), Duration::from_millis(30));
        attempt.is_err_and(|error| error.kind() == ErrorKind::TimedOut)
    };
    assert_eq!(fifty_of_fifty(times_out), [50, 50]);
    assert_eq!(held.broke(Duration::ZERO), None);
    Ok(())
}

fn ghost_for_many(ip: &str) -> Result<(), Failed> {
    let held = hold_on(ip, Mode::Ghost)?;
    let hangs = || {
        let Ok(mut stream) = connect(&held) else {
            return false;
        };
        stream
            .set_read_timeout(Some(Duration::from_millis(30)))
            .expect("a timeout can be set");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").is_ok()
            && stream
                .read(&mut [0])
                .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    assert_eq!(fifty_of_fifty(hangs), [50, 50]);
    assert_eq!(held.broke(Duration::ZERO), None);
    Ok(())
}
