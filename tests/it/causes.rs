//! One cause for every attempt that is not ok, from scripted readings.

use backlog_lab::observation::Measured;
use backlog_lab::result::{Cause, Evidence, explain, join};
use serde_json::{Value, json};

/// A trial with a listener of backlog 1, what its counters grew by, and its attempts.
pub(crate) fn measured(counters: &Value, sysctls: &Value, attempts: &Value) -> Measured {
    let zeros: Value = counters
        .as_object()
        .expect("counters")
        .keys()
        .map(|name| (name.clone(), json!(0)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let namespace = json!({
        "sysctls": sysctls,
        "measured_sysctls": {},
        "counters": { "before": zeros, "after": counters },
        "rx_dropped": { "before": null, "after": null },
    });
    let look = json!({ "recv_q": 0, "send_q": 1, "drops": 0 });
    serde_json::from_value(json!({
        "notes": [],
        "server": namespace,
        "client": null,
        "softnet_dropped": { "before": null, "after": null },
        "listeners": [{
            "address": "127.0.0.1:80",
            "backlog_requested": 1,
            "before": look,
            "samples": {
                "period_us": 1000,
                "missed": 0,
                "at_us": [0, 1000, 2000, 3000],
                "recv_q": [0, 0, 2, 2],
                "drops": [0, 0, 0, 0],
            },
            "after": look,
        }],
        "attempts": attempts,
        "accepts": [],
        "pending": [],
        "cpu": {
            "server_us": null,
            "client_us": null,
            "idle_ticks": { "before": null, "after": null },
            "all_ticks": { "before": null, "after": null },
        },
        "ended_us": 900_000,
    }))
    .expect("readings")
}

/// An attempt on port 1000 that began at `started_us`.
pub(crate) fn attempt(started_us: u64, stage: &str, ended: &str, more: &Value) -> Value {
    let mut attempt = json!({
        "n": 0,
        "intended_us": started_us,
        "started_us": started_us,
        "connected_us": (stage != "connect" && stage != "socket").then_some(started_us + 50),
        "first_byte_us": null,
        "ended_us": 900_000,
        "stage": stage,
        "ended": ended,
        "errno": null,
        "local_port": 1000,
        "server_side": null,
    });
    let more = more.as_object().expect("more").clone();
    attempt.as_object_mut().expect("an attempt").extend(more);
    attempt
}

fn causes(measured: &Measured) -> Vec<Option<(Cause, Evidence)>> {
    let (fates, _) = join(measured);
    explain(measured, &fates)
        .into_iter()
        .map(|one| one.map(|one| (one.cause, one.evidence)))
        .collect()
}

#[test]
fn without_packets_records_and_counters_are_joined() {
    use Cause::*;
    use Evidence::{Join, Totals};
    let cookies = json!({ "net.ipv4.tcp_syncookies": "1" });
    let none = json!({ "net.ipv4.tcp_syncookies": "0" });
    let abort = json!({ "net.ipv4.tcp_abort_on_overflow": "1" });
    let overflows = json!({ "TcpExt.ListenOverflows": 5, "TcpExt.ListenDrops": 5 });
    let drops = json!({ "TcpExt.ListenOverflows": 0, "TcpExt.ListenDrops": 5 });
    let sent = json!({ "TcpExt.SyncookiesSent": 5, "TcpExt.ListenOverflows": 5 });
    let resets = json!({ "TcpExt.EmbryonicRsts": 5, "TcpExt.ListenOverflows": 5 });
    let quiet = json!({});
    let side = |what: &str| json!({ "server_side": what });
    let errno = |name: &str| json!({ "errno": name });
    for (counters, sysctls, attempt, expected) in [
        (
            &overflows,
            &cookies,
            attempt(2_500, "connect", "time-up", &quiet),
            Some((SynDroppedAcceptQueueFull, Join)),
        ),
        (
            &overflows,
            &cookies,
            attempt(500, "connect", "time-up", &quiet),
            Some((SynDroppedAcceptQueueFull, Totals)),
        ),
        (
            &drops,
            &none,
            attempt(500, "connect", "time-up", &quiet),
            Some((SynDroppedSynQueueFull, Totals)),
        ),
        (
            &drops,
            &cookies,
            attempt(500, "connect", "time-up", &quiet),
            Some((Unexplained, Totals)),
        ),
        (
            &sent,
            &cookies,
            attempt(0, "receive", "time-up", &side("nothing")),
            Some((CookieAckDropped, Join)),
        ),
        (
            &overflows,
            &none,
            attempt(0, "receive", "time-up", &side("nothing")),
            Some((FinalAckDropped, Join)),
        ),
        (
            &quiet,
            &none,
            attempt(0, "receive", "time-up", &side("nothing")),
            Some((Unexplained, Join)),
        ),
        (
            &overflows,
            &none,
            attempt(0, "receive", "time-up", &side("half-open")),
            Some((FinalAckDropped, Join)),
        ),
        (
            &quiet,
            &none,
            attempt(0, "receive", "time-up", &side("established")),
            Some((WaitedInAcceptQueue, Join)),
        ),
        (
            &resets,
            &abort,
            attempt(0, "receive", "error", &errno("ECONNRESET")),
            Some((ResetByAbortOnOverflow, Join)),
        ),
        (
            &quiet,
            &abort,
            attempt(0, "receive", "error", &errno("ECONNRESET")),
            Some((Unexplained, Join)),
        ),
        (
            &quiet,
            &none,
            attempt(0, "connect", "error", &errno("ECONNREFUSED")),
            Some((NoListener, Join)),
        ),
        (
            &quiet,
            &none,
            attempt(0, "receive", "end-of-stream", &quiet),
            Some((ServerClosedEarly, Join)),
        ),
        (
            &quiet,
            &none,
            attempt(0, "receive", "wrong-answer", &quiet),
            Some((WrongAnswer, Join)),
        ),
        (
            &quiet,
            &none,
            attempt(0, "connect", "error", &errno("EADDRNOTAVAIL")),
            Some((ClientOutOfPorts, Join)),
        ),
        (
            &quiet,
            &none,
            attempt(0, "socket", "error", &errno("EMFILE")),
            Some((ClientOutOfDescriptors, Join)),
        ),
        (
            &quiet,
            &none,
            attempt(0, "connect", "error", &errno("EHOSTUNREACH")),
            Some((Unexplained, Join)),
        ),
        (
            &overflows,
            &none,
            attempt(0, "receive", "answered", &quiet),
            None,
        ),
    ] {
        let measured = measured(counters, sysctls, &json!([attempt]));
        assert_eq!(
            causes(&measured),
            [expected],
            "{attempt} {counters} {sysctls}"
        );
    }
}

/// A packet of port 1000: when, where to, flags, data, verdict.
pub(crate) fn packet(at_us: u64, to: &str, flags: &str, length: u32, verdict: &str) -> Value {
    let arrives = (verdict == "passed").then_some(at_us + 25);
    json!([
        at_us, to, 1000, flags, 1, 1, length, verdict, arrives, arrives
    ])
}

#[test]
fn on_a_wire_the_packets_tell() {
    use Cause::*;
    use Evidence::Packets;
    let (none, abort) = (
        json!({ "net.ipv4.tcp_syncookies": "0" }),
        json!({ "net.ipv4.tcp_abort_on_overflow": "1" }),
    );
    let overflows =
        json!({ "TcpExt.ListenOverflows": 5, "TcpExt.ListenDrops": 5, "TcpExt.EmbryonicRsts": 5 });
    let drops = json!({ "TcpExt.ListenOverflows": 0, "TcpExt.ListenDrops": 5 });
    let quiet = json!({});
    let syn = packet(10, "server", "SYN", 0, "passed");
    let lost_syn = packet(10, "server", "SYN", 0, "lost");
    let syn_ack = packet(40, "client", "SYN+ACK", 0, "passed");
    let lost_syn_ack = packet(40, "client", "SYN+ACK", 0, "dropped-by-rule");
    let ack = packet(70, "server", "ACK", 0, "passed");
    let lost_ack = packet(70, "server", "ACK", 0, "lost");
    let rst = packet(100, "client", "RST", 0, "passed");
    let late_rst = packet(9_000, "client", "RST", 0, "passed");
    let lost_answer = packet(100, "client", "PSH+ACK", 3, "lost");
    let unconnected = || attempt(0, "connect", "time-up", &quiet);
    let unanswered = |side: &str| attempt(0, "receive", "time-up", &json!({ "server_side": side }));
    let reset = || attempt(0, "receive", "error", &json!({ "errno": "ECONNRESET" }));
    for (counters, sysctls, attempt, packets, expected) in [
        (
            &overflows,
            &none,
            unconnected(),
            vec![&syn],
            SynDroppedAcceptQueueFull,
        ),
        (
            &drops,
            &none,
            unconnected(),
            vec![&syn],
            SynDroppedSynQueueFull,
        ),
        (
            &overflows,
            &none,
            unconnected(),
            vec![&lost_syn],
            LostOnTheWire,
        ),
        (
            &overflows,
            &none,
            unconnected(),
            vec![&syn, &lost_syn_ack],
            LostOnTheWire,
        ),
        (
            &overflows,
            &none,
            unconnected(),
            vec![&syn, &syn, &syn_ack],
            SynDroppedAcceptQueueFull,
        ),
        (&quiet, &none, unconnected(), vec![], Unexplained),
        (
            &overflows,
            &none,
            unanswered("half-open"),
            vec![&syn, &syn_ack, &lost_ack],
            LostOnTheWire,
        ),
        (
            &overflows,
            &none,
            unanswered("half-open"),
            vec![&syn, &syn_ack, &ack],
            FinalAckDropped,
        ),
        (
            &quiet,
            &none,
            unanswered("established"),
            vec![&syn, &syn_ack, &ack],
            WaitedInAcceptQueue,
        ),
        (
            &quiet,
            &none,
            unanswered("established"),
            vec![&syn, &syn_ack, &ack, &lost_answer],
            LostOnTheWire,
        ),
        (
            &overflows,
            &abort,
            reset(),
            vec![&syn, &syn_ack, &ack, &rst],
            ResetByAbortOnOverflow,
        ),
        (
            &overflows,
            &abort,
            reset(),
            vec![&syn, &syn_ack, &ack, &late_rst],
            Unexplained,
        ),
    ] {
        let mut measured = measured(counters, sysctls, &json!([attempt]));
        let wire = json!({ "cpu": 1, "overruns": 0, "unsent": [0, null], "captured": 0, "packets": packets });
        measured.wire = Some(serde_json::from_value(wire).expect("a wire's record"));
        assert_eq!(
            causes(&measured),
            [Some((expected, Packets))],
            "{attempt} {packets:?}"
        );
    }
}

#[test]
fn every_cause_is_a_figure() {
    for cause in Cause::ALL {
        assert!(
            cause.name().parse::<backlog_lab::figure::Figure>().is_ok(),
            "{cause}"
        );
    }
}
