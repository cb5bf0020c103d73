//! Whether a run may be believed: the books of a trial and what the lab says of itself.

use std::collections::BTreeMap;

use backlog_lab::observation::{Attempt, BeforeAfter, Ended, Measured, Stage};
use backlog_lab::report;
use backlog_lab::result::ArmResult;

use crate::pipeline::{Scripted, accept, arm, attempt, counters, measured, one, run};

/// A flood of two with one that is answered and one whose SYN and its repetition meet the full queue.
fn one_loser() -> Measured {
    let loser = Attempt {
        connected_us: None,
        stage: Stage::Connect,
        ..attempt(1, 40_001, Ended::TimeUp)
    };
    let answered = attempt(0, 40_000, Ended::Answered);
    let mut readings = measured(vec![answered, loser], vec![accept(100, 40_000)]);
    let zero = [
        "Tcp.PassiveOpens",
        "TcpExt.EmbryonicRsts",
        "TcpExt.SyncookiesRecv",
        "TcpExt.SyncookiesSent",
        "TcpExt.TCPDeferAcceptDrop",
        "TcpExt.TCPReqQFullDrop",
        "TcpExt.TCPSYNChallenge",
        "TcpExt.TCPSynRetrans",
    ];
    let before = readings.server.counters.before.as_mut().expect("counters");
    before.extend(zero.map(|name| (name.to_owned(), Some(0))));
    let grown = [
        ("Tcp.ActiveOpens", 2),
        ("Tcp.PassiveOpens", 1),
        ("TcpExt.TCPSynRetrans", 1),
        ("TcpExt.ListenOverflows", 5 + 2),
        ("TcpExt.ListenDrops", 5 + 2),
    ];
    let mut after = before.clone();
    after.extend(counters(&grown));
    readings.server.counters.after = Some(after);
    readings.server.rx_dropped = BeforeAfter {
        before: Some(BTreeMap::from([("lo".into(), 0)])),
        after: Some(BTreeMap::from([("lo".into(), 0)])),
    };
    readings.server.sysctls = [
        ("tcp_abort_on_overflow", "0"),
        ("tcp_max_syn_backlog", "128"),
        ("tcp_synack_retries", "5"),
        ("tcp_syncookies", "1"),
    ]
    .map(|(name, value)| (format!("net.ipv4.{name}"), Some(value.to_owned())))
    .into();
    readings.listeners[0].after.drops = Some(2);
    readings
}

fn holds(result: &ArmResult, identity: &str) -> Option<bool> {
    let books = &result.trials[0].books;
    let entry = books.iter().find(|one| one.identity.starts_with(identity));
    entry.unwrap_or_else(|| panic!("{identity}")).holds
}

#[test]
fn books_that_close_explain_every_overflow() {
    let result = one("", 2, one_loser);
    for entry in &result.trials[0].books {
        assert_ne!(entry.holds, Some(false), "{entry:?}");
        assert_eq!(entry.holds.is_none(), entry.not_judged.is_some());
    }
    assert_eq!(holds(&result, "TcpExt.ListenOverflows ="), Some(true));
    let terms: Vec<(&str, i64)> = result.trials[0]
        .why_overflows
        .iter()
        .map(|term| (term.what, term.packets))
        .collect();
    assert_eq!(
        terms,
        [
            ("first SYNs", 2),
            ("repeated SYNs", 1),
            ("handshakes that were completed", -1)
        ]
    );
}

/// Each identity notices the reading that contradicts it, and the trial says so wherever it is shown.
#[test]
fn books_that_do_not_close_are_flagged() {
    for (counter, identity) in [
        ("Tcp.ActiveOpens", "Tcp.ActiveOpens ="),
        ("Tcp.PassiveOpens", "Tcp.PassiveOpens ="),
        ("TcpExt.TCPReqQFullDrop", "TcpExt.ListenDrops ="),
        ("TcpExt.TCPSynRetrans", "TcpExt.ListenOverflows ="),
    ] {
        let lab = Scripted(|_: &str| {
            let mut readings = one_loser();
            let after = readings.server.counters.after.as_mut().expect("counters");
            *after.get_mut(counter).expect("a counter") = Some(99);
            Ok(readings)
        });
        let results = run(vec![arm("one", 2, "")], &lab);
        let result = &results.arms[0];
        assert_eq!(holds(result, identity), Some(false), "{counter}");
        let notes = result.trials[0].notes.join("\n");
        assert!(
            notes.contains("the books do not close: ") && notes.contains(identity),
            "{notes}"
        );
        let text = report::verdicts(&results, 200);
        assert!(text.contains("[the books do NOT close]"), "{text}");
    }
}

/// What cannot be known is not judged, in either direction.
#[test]
fn books_without_their_precondition_are_not_judged() {
    let lossy = || {
        let mut readings = one_loser();
        readings.server.rx_dropped.after = Some(BTreeMap::from([("lo".into(), 3)]));
        readings
    };
    assert_eq!(holds(&one("", 2, lossy), "TcpExt.ListenOverflows ="), None);
    let small = || {
        let mut readings = one_loser();
        let mut set = |name: &str, value: &str| {
            let name = format!("net.ipv4.{name}");
            readings.server.sysctls.insert(name, Some(value.into()));
        };
        set("tcp_syncookies", "0");
        set("tcp_max_syn_backlog", "1");
        readings
    };
    assert_eq!(holds(&one("", 2, small), "TcpExt.ListenDrops ="), None);
    let closed = one("", 2, one_loser);
    assert_eq!(holds(&closed, "TcpExt.EmbryonicRsts ="), None);
}
