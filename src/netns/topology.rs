//! The namespaces of one trial.
//!
//! ```text
//! here        [ server and client: lo of the namespace that this process is in, of which nothing is changed ]
//!
//! loopback    [ server and client: lo 127.0.0.1 or ::1 ]
//!
//! veth        [ server: server0 198.18.0.1 ]=====[ client0 198.18.0.2 :client ]
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use super::link::{self, End};
use super::{Namespace, NetnsError, sysctl};
use crate::arm::{Family, LinkKind, LinkSpec, SysctlValue};
use crate::observation;

/// A trial's namespaces, with their links up and their sysctls in force.
pub struct Topology {
    /// The server's namespace.
    pub server: Namespace,
    /// The client's, when it is another one.
    other: Option<Namespace>,
    /// The address that the server listens on.
    pub server_ip: IpAddr,
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

impl Topology {
    /// Builds it in namespaces of its own. Nothing of the host changes.
    ///
    /// # Errors
    /// The kernel's refusal, a link that could not be set up, or a sysctl without the wanted value.
    pub fn build(
        spec: LinkSpec,
        sysctls: &BTreeMap<String, SysctlValue>,
    ) -> Result<Self, NetnsError> {
        let (server, bring) = match spec.kind {
            LinkKind::Here => (Namespace::here("server")?, Bring::Found),
            LinkKind::Loopback | LinkKind::Veth => (Namespace::create("server")?, Bring::Set),
        };
        let (other, server_ip) = match spec.kind {
            LinkKind::Here | LinkKind::Loopback => (None, loopback_ip(spec.family)),
            LinkKind::Veth => {
                let client = Namespace::create("client")?;
                let [here, there] = ends(spec.family);
                let fd = client
                    .fd()
                    .try_clone_to_owned()
                    .map_err(|error| NetnsError::Link {
                        operation: "share the client's namespace".into(),
                        reason: error.to_string(),
                    })?;
                server.run(move || {
                    use std::os::fd::AsFd;
                    link::create_veth(here, there, fd.as_fd())
                })??;
                server.run(move || link::configure(here, there))??;
                client.run(move || link::configure(there, here))??;
                prove(&server, here.ip, &client, there.ip)?;
                (Some(client), here.ip)
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
        Ok(Self {
            server_settings: settings(&server)?,
            client_settings: other.as_ref().map(settings).transpose()?,
            server,
            other,
            server_ip,
        })
    }

    /// The client's namespace; the server's on a loopback link.
    pub fn client(&self) -> &Namespace {
        self.other.as_ref().unwrap_or(&self.server)
    }
}

/// Sends a datagram there and back until one has made the whole way.
///
/// When a link comes up, the kernel activates a transmit queue from one work item (`linkwatch_event` in
/// `net/core/link_watch.c`) and inserts the local route of an IPv6 address from another (`addrconf_dad_work` in
/// `net/ipv6/addrconf.c`). What is sent before is dropped, a client's first SYN as well.
fn prove(
    server: &Namespace,
    server_ip: IpAddr,
    client: &Namespace,
    client_ip: IpAddr,
) -> Result<(), NetnsError> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const AGAIN: Duration = Duration::from_millis(1);
    let failed = |error: io::Error| NetnsError::Link {
        operation: format!("send a datagram from {client_ip} to {server_ip} and back"),
        reason: error.to_string(),
    };
    let bind = |ip| move || UdpSocket::bind((ip, 0));
    let there = server.run(bind(server_ip))?.map_err(failed)?;
    let back = client.run(bind(client_ip))?.map_err(failed)?;
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
