//! The namespaces of one trial.
//!
//! ```text
//! here        [ server and client: lo of the namespace that this process is in, of which nothing is changed ]
//!
//! loopback    [ server and client: lo 127.0.0.1 or ::1 ]
//!
//! veth        [ server: server0 198.18.0.1 ]=====[ client0 198.18.0.2 :client ]
//!
//! wire        [ server: server0 ]==[ to-server0 :relay: to-client0 ]==[ client0 :client ]
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::link::{self, End};
use super::{Namespace, NetnsError, sysctl};
use crate::arm::{Family, LinkKind, LinkSpec, Sources, SysctlValue};
use crate::observation;

/// A trial's namespaces, with their links up and their sysctls in force.
pub struct Topology {
    /// The server's namespace.
    pub server: Namespace,
    /// The client's, when it is another one.
    other: Option<Namespace>,
    /// What lies between the two, when every packet is relayed.
    pub between: Option<Between>,
    /// The address that the server listens on.
    pub server_ip: IpAddr,
    /// The address that the clients connect from.
    client_ip: IpAddr,
    /// The server's namespace as it was read back.
    pub server_settings: observation::Namespace,
    /// The client's namespace as it was read back, when it is another one.
    pub client_settings: Option<observation::Namespace>,
}

/// How sysctls come to have the wanted values.
#[derive(Debug, Clone, Copy)]
enum Bring {
    /// They are set.
    Set,
    /// They must have them.
    Found,
}

/// The relay's namespace: two interfaces without addresses, each the other end of one of the ends.
pub struct Between {
    /// The namespace.
    pub namespace: Namespace,
    /// The index of the interface towards the server.
    pub to_server: u32,
    /// The index of the interface towards the client.
    pub to_client: u32,
}

impl Topology {
    /// Builds it in namespaces of its own. Nothing of the host changes. A wire carries nothing before its relay is
    /// at work, and is to be proved then.
    ///
    /// # Errors
    /// The kernel's refusal, a link that could not be set up, or a sysctl without the wanted value.
    pub fn build(
        spec: &LinkSpec,
        sysctls: &BTreeMap<String, SysctlValue>,
    ) -> Result<Self, NetnsError> {
        let (server, bring) = match spec.kind {
            LinkKind::Here => (Namespace::here("server")?, Bring::Found),
            LinkKind::Loopback | LinkKind::Veth | LinkKind::Wire(_) => {
                (Namespace::create("server")?, Bring::Set)
            }
        };
        let ends = ends(spec.family);
        let (other, between, [server_ip, client_ip]) = match spec.kind {
            LinkKind::Here | LinkKind::Loopback => (None, None, [loopback_ip(spec.family); 2]),
            LinkKind::Veth => {
                let client = Namespace::create("client")?;
                join(&server, ends[0].name, &client, ends[1].name)?;
                configure(&server, &client, ends)?;
                (Some(client), None, ends.map(|end| end.ip))
            }
            LinkKind::Wire(_) => {
                let client = Namespace::create("client")?;
                let between = Between::build([&server, &client], ends)?;
                (Some(client), Some(between), ends.map(|end| end.ip))
            }
        };
        let settings = |namespace: &Namespace| {
            let wanted = sysctls.clone();
            namespace
                .run(move || match bring {
                    Bring::Set => sysctl::apply(&wanted),
                    Bring::Found => sysctl::found(&wanted),
                })?
                .map_err(NetnsError::from)
        };
        let topology = Self {
            server_settings: settings(&server)?,
            client_settings: other.as_ref().map(settings).transpose()?,
            server,
            other,
            between,
            server_ip,
            client_ip,
        };
        if let LinkKind::Veth = spec.kind {
            topology.prove()?;
        }
        Ok(topology)
    }

    /// The client's namespace; the server's on a loopback link.
    pub fn client(&self) -> &Namespace {
        self.other.as_ref().unwrap_or(&self.server)
    }

    /// Gives the client's end of a link those source addresses that lie in its network. Others stay foreign, and who
    /// binds to one is told so by the kernel. Every address of 127.0.0.0/8 is local on a loopback link.
    ///
    /// # Errors
    /// An address that could not be given.
    pub fn add_sources(&self, sources: &Sources) -> Result<(), NetnsError> {
        let Some(client) = &self.other else {
            return Ok(());
        };
        let [here, there] = ends(sources.family());
        let wanted = |ip: &IpAddr| there.reaches(*ip) && *ip != here.ip && *ip != there.ip;
        let more: Vec<IpAddr> = sources.iter().filter(wanted).collect();
        let neighbours = more.clone();
        client.run(move || link::add_addresses(there, &more))??;
        let beside_them = move || link::add_neighbours(here, &neighbours, there);
        self.server.run(beside_them)?
    }

    /// Sends a datagram there and back until one has made the whole way.
    ///
    /// When a link comes up, the kernel activates a transmit queue from one work item (`linkwatch_event` in
    /// `net/core/link_watch.c`) and inserts the local route of an IPv6 address from another (`addrconf_dad_work` in
    /// `net/ipv6/addrconf.c`). What is sent before is dropped, a client's first SYN as well.
    ///
    /// # Errors
    /// No datagram has made it within seconds.
    pub fn prove(&self) -> Result<(), NetnsError> {
        const PATIENCE: Duration = Duration::from_secs(5);
        const AGAIN: Duration = Duration::from_millis(1);
        let (server_ip, client_ip) = (self.server_ip, self.client_ip);
        let failed = |error: io::Error| NetnsError::Link {
            operation: format!("send a datagram from {client_ip} to {server_ip} and back"),
            reason: error.to_string(),
        };
        let bind = |ip| move || UdpSocket::bind((ip, 0));
        let there = self.server.run(bind(server_ip))?.map_err(failed)?;
        let back = self.client().run(bind(client_ip))?.map_err(failed)?;
        let address = there.local_addr().map_err(failed)?;
        for socket in [&there, &back] {
            socket.set_read_timeout(Some(AGAIN)).map_err(failed)?;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut byte = [0];
            let trip = back
                .send_to(&byte, address)
                .and_then(|_| there.recv_from(&mut byte))
                .and_then(|(_, from)| there.send_to(&byte, from))
                .and_then(|_| back.recv_from(&mut byte));
            match trip {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(failed(error)),
                // Not yet: the next datagram follows.
                Err(_) => {}
            }
        }
    }
}

impl Between {
    const NAMES: [&str; 2] = ["to-server0", "to-client0"];

    fn build(sides: [&Namespace; 2], ends: [End; 2]) -> Result<Self, NetnsError> {
        let namespace = Namespace::create("relay")?;
        for ((side, end), name) in sides.into_iter().zip(ends).zip(Self::NAMES) {
            join(&namespace, name, side, end.name)?;
        }
        let [to_server, to_client] =
            Self::NAMES.map(|name| namespace.run(move || link::up_without_address(name)));
        let (to_server, to_client) = (to_server??, to_client??);
        for (side, end) in sides.into_iter().zip(ends) {
            side.run(move || link::plain_packets(end))??;
        }
        configure(sides[0], sides[1], ends)?;
        Ok(Self {
            namespace,
            to_server,
            to_client,
        })
    }
}

/// Makes a veth pair between two namespaces.
fn join(
    here: &Namespace,
    name: &'static str,
    there: &Namespace,
    other_name: &'static str,
) -> Result<(), NetnsError> {
    let fd = there
        .fd()
        .try_clone_to_owned()
        .map_err(|error| NetnsError::Link {
            operation: "share a namespace".into(),
            reason: error.to_string(),
        })?;
    here.run(move || link::create_veth(name, other_name, fd.as_fd()))?
}

/// Gives the two ends their addresses and each other as neighbours.
fn configure(
    server: &Namespace,
    client: &Namespace,
    [here, there]: [End; 2],
) -> Result<(), NetnsError> {
    server.run(move || link::configure(here, there))??;
    client.run(move || link::configure(there, here))?
}

const fn loopback_ip(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
    }
}

/// The server's and the client's end, in the ranges for benchmarks (RFC 2544, RFC 5180).
const fn ends(family: Family) -> [End; 2] {
    let (server, client, prefix) = match family {
        Family::Ipv4 => (
            IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)),
            IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)),
            24,
        ),
        Family::Ipv6 => (
            IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1)),
            IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2)),
            64,
        ),
    };
    [
        End {
            name: "server0",
            mac: [2, 0, 0, 0, 0, 1],
            ip: server,
            prefix,
        },
        End {
            name: "client0",
            mac: [2, 0, 0, 0, 0, 2],
            ip: client,
            prefix,
        },
    ]
}
