//! The wire's round trip, measured by the kernel itself.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use backlog_lab::arm::{End, Flags};
use backlog_lab::observation::WireLog;
use libtest_mimic::Trial;

use crate::support::{round_trip_us, set_up};
use crate::test;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test(
        "wire/tcp-info-agrees-with-the-relay",
        tcp_info_agrees_with_the_relay,
    )]
}

/// How late the relay was with the two packets of a handshake that make its round trip. It counts from the kernel's
/// stamp on the packet, so that what is left over is not the relay's.
fn late_us(log: &WireLog, port: u16) -> u64 {
    let openings = [
        (End::Server, Flags::SYN),
        (End::Client, Flags::SYN | Flags::ACK),
    ];
    let late = openings.map(|(to, flags)| {
        let is_it = |one: &&backlog_lab::observation::Packet| {
            one.client_port == port && one.to == to && one.flags.is(flags)
        };
        let packet = log.packets.iter().find(is_it).expect("its packet");
        let sent_us = packet.sent_us.expect("it arrived");
        sent_us.saturating_sub(packet.due_us.expect("it was due"))
    });
    late.into_iter().sum()
}

/// 25 ms each way are a round trip of 50 ms and at the median at most 1.5 ms more, the relay's own recorded lateness
/// taken off: a busy machine may make it late, and it says so.
fn tcp_info_agrees_with_the_relay() {
    const CONNECTIONS: usize = 21;
    let (topology, relay) = set_up("kind = \"wire\"\ndelay = \"25ms\"");
    let ip = topology.server_ip;
    let listen = move || TcpListener::bind((ip, 0)).expect("a listener");
    let listener = topology.server.run(listen).expect("a namespace");
    let address = listener.local_addr().expect("an address");
    let connect = move || -> Vec<(TcpStream, SocketAddr)> {
        let one = |_| {
            let stream = TcpStream::connect(address).expect("connect");
            let local = stream.local_addr().expect("an address");
            (stream, local)
        };
        (0..CONNECTIONS).map(one).collect()
    };
    let origin = Instant::now();
    let streams = topology.client().run(connect).expect("a namespace");
    let measured: Vec<(u64, u16)> = streams
        .iter()
        .map(|(stream, local)| {
            (
                round_trip_us(stream).expect("TCP_INFO").into(),
                local.port(),
            )
        })
        .collect();
    let log = relay.expect("a relay").stop(origin).expect("its log");
    let mut without_relay: Vec<u64> = measured
        .iter()
        .map(|(rtt_us, port)| rtt_us.saturating_sub(late_us(&log, *port)))
        .collect();
    without_relay.sort_unstable();
    assert!(
        measured.iter().all(|(rtt_us, _)| *rtt_us >= 50_000),
        "{measured:?}"
    );
    // The kernel's own threads and this one can be late too, but not for every connection.
    assert!(without_relay[0] <= 51_500, "{without_relay:?}");
}
