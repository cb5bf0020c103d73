//! A wire to measure on, and what the kernel says of a connection. For tests and benchmarks.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use backlog_lab::arm::{LinkKind, LinkSpec};
use backlog_lab::netns::Topology;
use backlog_lab::wire::{Cpus, Relay, Running};

/// The namespaces of a link with its relay at work.
pub(crate) fn set_up(link: &str) -> (Topology, Option<Running>) {
    let spec: LinkSpec = toml::from_str(link).expect("a link");
    let topology = Topology::build(&spec, &BTreeMap::new()).expect("a topology");
    let relay = match (&spec.kind, &topology.between) {
        (LinkKind::Wire(wire), Some(between)) => {
            let (to_server, to_client) = (between.to_server, between.to_client);
            let open = move || Relay::open(to_server, to_client, 0x0800);
            let relay = between
                .namespace
                .run(open)
                .expect("a namespace")
                .expect("a relay");
            let cpus = Cpus::share().expect("processors");
            for namespace in [&topology.server, topology.client()] {
                let cpus = cpus.clone();
                let leave = move || cpus.map(|cpus| cpus.leave()).transpose();
                namespace
                    .run(leave)
                    .expect("a namespace")
                    .expect("other processors");
            }
            Some(relay.start(wire.clone(), 1, cpus, 0).expect("a relay"))
        }
        _ => None,
    };
    topology.prove().expect("a link that is up");
    (topology, relay)
}

/// The smoothed round trip of a connection as the kernel holds it (`tcpi_rtt`), in microseconds.
#[allow(unsafe_code, reason = "no crate at hand wraps TCP_INFO")]
pub(crate) fn round_trip_us(stream: &TcpStream) -> std::io::Result<u32> {
    // SAFETY: all-zero bytes are a valid tcp_info.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length =
        libc::socklen_t::try_from(size_of::<libc::tcp_info>()).map_err(std::io::Error::other)?;
    // SAFETY: `info` is writable for `length` bytes, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(info.tcpi_rtt)
    } else {
        Err(std::io::Error::last_os_error())
    }
}
