//! Interfaces, addresses and neighbours through rtnetlink.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::neighbour::NeighbourState;
use rtnetlink::{Handle, LinkUnspec, LinkVeth, new_connection};

use super::{NetnsError, Refusal};
use crate::sys;

/// The loopback interface is the first of every namespace.
const LOOPBACK_INDEX: u32 = 1;

/// One end of a link between two namespaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// The interface's name.
    pub(super) name: &'static str,
    /// The interface's link-layer address.
    pub(super) mac: [u8; 6],
    /// The interface's IP address.
    pub(super) ip: IpAddr,
    /// The length of the network's prefix.
    pub(super) prefix: u8,
}

impl End {
    /// Whether an address lies in its network.
    pub(super) fn reaches(&self, ip: IpAddr) -> bool {
        let prefix = u32::from(self.prefix);
        match (self.ip, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => {
                (own.to_bits() ^ ip.to_bits()).leading_zeros() >= prefix
            }
            (IpAddr::V6(own), IpAddr::V6(ip)) => {
                (own.to_bits() ^ ip.to_bits()).leading_zeros() >= prefix
            }
            _ => false,
        }
    }
}

pub(super) fn loopback_up() -> Result<(), NetnsError> {
    with_netlink(async |handle| {
        handle
            .link()
            .set(LinkUnspec::new_with_index(LOOPBACK_INDEX).up().build())
            .execute()
            .await
            .map_err(refused("bring up the loopback interface"))
    })
}

/// Creates a veth pair in the calling thread's namespace and moves its second end into another.
pub(super) fn create_veth(
    here: &str,
    there: &str,
    other: BorrowedFd<'_>,
) -> Result<(), NetnsError> {
    with_netlink(async |handle| {
        handle
            .link()
            .add(LinkVeth::new(here, there).build())
            .execute()
            .await
            .map_err(refused("create a veth pair"))?;
        let index = index_of(there)?;
        handle
            .link()
            .set(
                LinkUnspec::new_with_index(index)
                    .setns_by_fd(other.as_raw_fd())
                    .build(),
            )
            .execute()
            .await
            .map_err(refused(&format!("move {there} into the other namespace")))
    })
}

/// Gives an end in the calling thread's namespace its addresses, brings it up, and presets its neighbour, so
/// that address resolution costs no round trip.
pub(super) fn configure(end: End, neighbour: End) -> Result<(), NetnsError> {
    with_netlink(async |handle| {
        let index = index_of(end.name)?;
        handle
            .link()
            .set(
                LinkUnspec::new_with_index(index)
                    .address(end.mac.to_vec())
                    .up()
                    .build(),
            )
            .execute()
            .await
            .map_err(refused(&format!("bring up {}", end.name)))?;
        add_address(&handle, index, end, end.ip).await?;
        add_neighbour(&handle, index, neighbour.ip, neighbour.mac).await
    })
}

/// Gives an end in the calling thread's namespace further addresses of its network.
pub(super) fn add_addresses(end: End, more: &[IpAddr]) -> Result<(), NetnsError> {
    with_netlink(async |handle| {
        let index = index_of(end.name)?;
        for &ip in more {
            add_address(&handle, index, end, ip).await?;
        }
        Ok(())
    })
}

/// Presets further addresses of the neighbour of an end in the calling thread's namespace.
pub(super) fn add_neighbours(end: End, more: &[IpAddr], neighbour: End) -> Result<(), NetnsError> {
    with_netlink(async |handle| {
        let index = index_of(end.name)?;
        for &ip in more {
            add_neighbour(&handle, index, ip, neighbour.mac).await?;
        }
        Ok(())
    })
}

async fn add_address(handle: &Handle, index: u32, end: End, ip: IpAddr) -> Result<(), NetnsError> {
    let mut address = handle.address().add(index, ip, end.prefix);
    if ip.is_ipv6() {
        // Nobody else can have the address, and detection of duplicates would delay it by a second.
        let flags = AddressAttribute::Flags(AddressFlags::Nodad);
        address.message_mut().attributes.push(flags);
    }
    let operation = format!("give {} the address {ip}", end.name);
    address.execute().await.map_err(refused(&operation))
}

async fn add_neighbour(
    handle: &Handle,
    index: u32,
    ip: IpAddr,
    mac: [u8; 6],
) -> Result<(), NetnsError> {
    handle
        .neighbours()
        .add(index, ip)
        .link_layer_address(&mac)
        .state(NeighbourState::Permanent)
        .execute()
        .await
        .map_err(refused(&format!("preset the neighbour {ip}")))
}

/// Brings up an interface of the calling thread's namespace that has no address. Returns its index.
pub(super) fn up_without_address(name: &str) -> Result<u32, NetnsError> {
    let index = index_of(name)?;
    with_netlink(async |handle| {
        handle
            .link()
            .set(LinkUnspec::new_with_index(index).up().build())
            .execute()
            .await
            .map_err(failed(&format!("bring up {name}")))
    })?;
    Ok(index)
}

/// Takes the offloads from an end in the calling thread's namespace: what leaves it is a packet as a wire carries it.
pub(super) fn plain_packets(end: End) -> Result<(), NetnsError> {
    sys::offloads_off(end.name).map_err(failed(&format!("turn off the offloads of {}", end.name)))
}

fn index_of(name: &str) -> Result<u32, NetnsError> {
    if_nametoindex(name).map_err(failed(&format!("find the interface {name}")))
}

fn failed<E: std::fmt::Display>(operation: &str) -> impl FnOnce(E) -> NetnsError {
    move |error| NetnsError::Link {
        operation: operation.to_owned(),
        reason: error.to_string(),
    }
}

/// A request that the kernel answered with an error: forbidden, unknown to it, or failed.
fn refused(operation: &str) -> impl FnOnce(rtnetlink::Error) -> NetnsError {
    move |error| {
        let errno = match &error {
            rtnetlink::Error::NetlinkError(message) => {
                Errno::from_raw(message.raw_code().saturating_neg())
            }
            _ => Errno::UnknownErrno,
        };
        match errno {
            Errno::EPERM | Errno::EACCES => Refusal::here(operation, errno).into(),
            Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT => NetnsError::Unsupported {
                operation: operation.to_owned(),
                reason: format!("{errno:?}"),
            },
            _ => failed(operation)(error),
        }
    }
}

/// Runs `task` with a netlink connection of the calling thread's namespace.
fn with_netlink<T>(
    task: impl AsyncFnOnce(Handle) -> Result<T, NetnsError>,
) -> Result<T, NetnsError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed("start a runtime for netlink"))?;
    runtime.block_on(async {
        let (connection, handle, _) = new_connection().map_err(failed("open a netlink socket"))?;
        tokio::spawn(connection);
        task(handle).await
    })
}
