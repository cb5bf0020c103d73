//! Several requests over one connection: what the client records, and what the kernel counts.

use std::io::Read;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use backlog_lab::arm::{Arm, Bind};
use backlog_lab::load::{Clock, Flood, Interrupt, Schedule, Series, Target};
use backlog_lab::netns::Namespace;
use backlog_lab::observation::{Ended, Observation, Request};
use backlog_lab::probe::diag::Diag;
use backlog_lab::result::{Status, TrialResult, trial_result};
use libtest_mimic::{Failed, Trial};
use socket2::Socket;

use crate::load::{observation, observe};

type Test = fn(&str) -> Result<(), Failed>;
/// How an attempt ended, and its requests.
type Kept = (Ended, Vec<Request>);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in ["threads", "async"] {
        let tests: [(&str, Test); 5] = [
            ("closed-without-a-word", closed_without_a_word),
            ("twenty-on-each", twenty_on_each),
            ("the-server-closes-between", the_server_closes_between),
            ("closed-in-the-middle", closed_in_the_middle),
            ("a-closed-loop-goes-on", a_closed_loop_goes_on),
        ];
        for (name, body) in tests {
            let name = format!("keep-alive/{engine}-{name}");
            trials.push(Trial::test(name, move || body(engine)));
        }
    }
    trials
}

const HTTP: &str = "[protocol]\nkind = \"http\"\nkeep-alive = true\n";
const LINE: &str = "[protocol]\nspeaks-first = \"client\"\n";

/// The attempts' requests, and the trial's results.
fn measure(engine: &str, settings: &str) -> Result<(Vec<Kept>, TrialResult), Failed> {
    let (arm, measured) = observe(&format!("client.engine = \"{engine}\"\n{settings}"));
    let attempts = measured.attempts.iter();
    let attempts = attempts
        .map(|one| (one.ended, one.requests.clone()))
        .collect();
    let observation = observation(measured);
    // What is stored is what is read again.
    let stored = serde_json::to_vec(&observation)?;
    let again: Observation = serde_json::from_slice(&stored)?;
    assert_eq!(again, observation);
    Ok((attempts, trial_result(&arm, &again)))
}

fn counter(result: &TrialResult, name: &str) -> Option<i64> {
    result.counters.server.get(name).copied().flatten()
}

/// 200 answers over ten connections: the kernel finishes ten handshakes, and the accept delay is theirs alone.
fn twenty_on_each(engine: &str) -> Result<(), Failed> {
    let flood = "[server]\nbacklog = 16\naccept-delay = \"5ms\"\n";
    for protocol in [HTTP, LINE] {
        for start in ["together", "one-by-one"] {
            let (attempts, result) = measure(
                engine,
                &format!(
                    "client.connections = 10\nclient.start = \"{start}\"\n{flood}{protocol}requests = 20"
                ),
            )?;
            assert_eq!(attempts.len(), 10);
            for (ended, requests) in &attempts {
                assert_eq!((*ended, requests.len()), (Ended::Answered, 20));
                for pair in requests.windows(2) {
                    let [before, after] = pair else { continue };
                    assert!(before.right && before.answered_us <= Some(after.intended_us));
                    assert!(after.intended_us <= after.sent_us, "{pair:?}");
                }
            }
            let requests = result.requests.ok_or("no requests")?;
            assert_eq!((requests.answered, requests.failed), (200, 0));
            // Now and then the kernel counts a client twice whose first ACK and first data meet on two processors.
            let opened = counter(&result, "Tcp.PassiveOpens").ok_or("unknown")?;
            assert!((10..=12).contains(&opened), "{opened} handshakes");
            assert_eq!(counter(&result, "TcpExt.ListenOverflows"), Some(0));
            assert_eq!(result.accepted, Some(10));
            assert_eq!(result.open_books().count(), 0, "{:?}", result.books);
        }
    }
    Ok(())
}

/// A server that closes after five answers says so with the fifth: another connection carries the rest.
fn the_server_closes_between(engine: &str) -> Result<(), Failed> {
    let (attempts, result) = measure(
        engine,
        &format!(
            "client.connections = 4\n[server]\nbacklog = 16\nrequests = 5\n{HTTP}requests = 12"
        ),
    )?;
    let mut lengths: Vec<usize> = attempts
        .iter()
        .map(|(_, requests)| requests.len())
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [2, 2, 2, 2, 5, 5, 5, 5, 5, 5, 5, 5]);
    let requests = result.requests.ok_or("no requests")?;
    assert_eq!((requests.answered, requests.failed), (48, 0));
    assert_eq!(result.accepted, Some(12));
    assert_eq!(result.status, Status::Ok);
    Ok(())
}

/// A close instead of an answer fails the request, and with it the attempt.
fn closed_in_the_middle(engine: &str) -> Result<(), Failed> {
    let (attempts, result) = measure(
        engine,
        &format!(
            "client.connections = 3\n[server]\nbacklog = 16\nanswer = [\"OK\", \"close\", \"503\"]\n{HTTP}requests = 4"
        ),
    )?;
    let mut ends: Vec<(String, usize, usize)> = attempts
        .iter()
        .map(|(ended, requests)| {
            let right = requests.iter().filter(|one| one.right).count();
            (format!("{ended:?}"), requests.len(), right)
        })
        .collect();
    ends.sort();
    let end = |ended: &str, sent, right| (ended.to_owned(), sent, right);
    assert_eq!(
        ends,
        [
            end("Answered", 4, 4),
            end("EndOfStream", 1, 0),
            end("WrongAnswer", 1, 0)
        ]
    );
    let requests = result.requests.ok_or("no requests")?;
    assert_eq!((requests.answered, requests.failed), (4, 2));
    Ok(())
}

/// A closed loop asks for as long as it lasts, over as many connections as its server makes it open, and keeps its pace.
fn a_closed_loop_goes_on(engine: &str) -> Result<(), Failed> {
    let (attempts, result) = measure(
        engine,
        &format!(
            "client.concurrency = 3\nclient.rate = \"300/s\"\nclient.duration = \"400ms\"\n[server]\nbacklog = 16\nrequests = 2\n{HTTP}"
        ),
    )?;
    let requests = result.requests.ok_or("no requests")?;
    assert_eq!(requests.failed, 0);
    assert!((4..=120).contains(&requests.answered), "{requests:?}");
    let full = attempts
        .iter()
        .filter(|(_, requests)| requests.len() == 2)
        .count();
    assert!(full + 3 >= attempts.len() && full > 0, "{attempts:?}");
    for (_, requests) in &attempts {
        for pair in requests.windows(2) {
            assert!(
                pair[0].intended_us + 10_000 <= pair[1].intended_us,
                "{pair:?}"
            );
        }
    }
    Ok(())
}

/// A server that closes with its answer, in one packet, and does not say so: a close between two requests all the same.
fn closed_without_a_word(engine: &str) -> Result<(), Failed> {
    let arm: Arm = toml::from_str(&format!(
        "title = \"t\"\nwhy = \"w\"\nserver.backlog = 4\nclient.engine = \"{engine}\"\n{LINE}requests = 3"
    ))?;
    let namespace = Namespace::create("server")?;
    let (listener, diag) = namespace.run(|| (TcpListener::bind("127.0.0.1:0"), Diag::open()))?;
    let listener = listener?;
    let target = Target {
        addresses: vec![listener.local_addr()?],
        sources: None,
        bind: Bind::default(),
        speaks_first: arm.protocol.speaks_first,
        series: Series::new(&arm.client, &arm.protocol),
        http: None,
        timeout_us: 5_000_000,
        hold_us: 0,
        diag: Mutex::new(diag?),
        blind: Mutex::default(),
        progress: Arc::default(),
        interrupt: Interrupt::default(),
    };
    let schedule = Schedule::new(&arm.client, arm.protocol.requests, 1);
    let client = arm.client;
    let flood = namespace.run(move || Flood::prepare(&client, schedule, target))??;
    flood.release(Clock::start());
    for _ in 0..3 {
        let (mut caller, _) = listener.accept()?;
        let mut question = [0; 5];
        caller.read_exact(&mut question)?;
        let caller = Socket::from(caller);
        caller.send_with_flags(b"OK\n", libc::MSG_MORE)?;
    }
    let harvest = flood.join()?;
    let told: Vec<_> = harvest
        .attempts
        .iter()
        .map(|one| (one.ended, one.requests.len()))
        .collect();
    assert_eq!(told, [(Ended::Answered, 1); 3]);
    Ok(())
}
