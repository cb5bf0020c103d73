//! The audit of listeners whose clients have not reached the accept queue.

use std::net::Ipv4Addr;
use std::time::Duration;

use backlog_lab::arm::{AcceptPolicy, Answer, Protocol, Requests, ServerSpec, Span, SpeaksFirst};
use backlog_lab::audit::{Finding, Place};
use backlog_lab::load::Server;
use backlog_lab::netns::Namespace;
use backlog_lab::probe::diag::Diag;
use libtest_mimic::{Failed, Trial};

use crate::audit::{WINDOW, audited, knock, row};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 2] = [
        ("half-open-requests-do-not-wait-for-accept", half_open),
        ("syn-drops-are-told-from-overflows", full_syn_queue),
    ];
    tests
        .into_iter()
        .map(|(name, test)| {
            Trial::test(format!("audit/{name}"), move || {
                Namespace::create("audit-test")?.run(test)?
            })
        })
        .collect()
}

/// A listener with `TCP_DEFER_ACCEPT`: clients that say nothing stay half-open at the server.
fn deferring(backlog: i32) -> Result<Server, Failed> {
    let spec = ServerSpec {
        backlog,
        accept_delay: Span::default(),
        accept: AcceptPolicy::Never,
        accept_from: Span::default(),
        family: None,
        answer: Answer::default(),
        requests: None,
        listen: true,
        reuseport: 1,
        ports: 1,
        acceptors: 1,
        defer_accept: Some(Span::from_ms(30_000)),
        close_first_at: None,
        descriptors: None,
    };
    let protocol = Protocol {
        speaks_first: SpeaksFirst::Client,
        http: None,
        requests: Requests::ONE,
    };
    Ok(Server::open(Ipv4Addr::LOCALHOST.into(), &spec, &protocol)?)
}

fn half_open() -> Result<(), Failed> {
    let server = deferring(128)?;
    let address = server.address();
    let _clients = knock(address, 50)?;
    let mut diag = Diag::open()?;
    assert_eq!(
        diag.connections(address.port())?.len(),
        50,
        "half-open requests"
    );
    let audit = audited(Place::here()?, WINDOW)?;
    let one = row(&audit, address);
    assert_eq!((one.depth, one.depth_max, one.limit), (0, 0, Some(128)));
    assert_eq!(one.findings, [Finding::ClampedByProgram, Finding::Healthy]);
    Ok(())
}

/// Without cookies a full SYN queue drops SYNs, and the accept queue has no part in it.
fn full_syn_queue() -> Result<(), Failed> {
    std::fs::write("/proc/sys/net/ipv4/tcp_syncookies", "0")?;
    let server = deferring(20)?;
    let address = server.address();
    // Those that were dropped knock again after a second, and that is in the window.
    let _clients = knock(address, 40)?;
    let audit = audited(Place::here()?, Duration::from_millis(1_300))?;
    let one = row(&audit, address);
    assert_eq!((one.verdict, one.depth_max), (Finding::Dropping, 0));
    assert!(
        one.says
            .contains("no accept queue overflowed: SYNs that met a full SYN queue"),
        "{}",
        one.says
    );
    let advice = one.advice.advice.as_deref().unwrap_or_default();
    assert!(
        advice.contains("set net.ipv4.tcp_syncookies = 1"),
        "{advice}"
    );
    let warnings = audit.namespaces[0].warnings.join("; ");
    assert!(
        warnings.contains("tcp_syncookies = 0 and a full SYN queue"),
        "{warnings}"
    );
    Ok(())
}
