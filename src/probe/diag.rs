//! `sock_diag(7)`: what the kernel knows of TCP sockets, as `ss` shows it, without `ss`.
//!
//! An exact lookup asks for one socket and costs microseconds; a dump walks tables. A netlink socket stays in
//! the namespace in which it was opened, whichever thread uses it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{
    AF_INET, AF_INET6, IPPROTO_TCP, TCP_CLOSE_WAIT, TCP_ESTABLISHED, TCP_LISTEN, TCP_SYN_RECV,
};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddr};

pub use super::diag_error::DiagError;
use super::diag_error::{DUMP_TRIES, OPEN};
use crate::observation::{Look, Pending, ServerSide};

/// A listening socket as a dump shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenRow {
    /// Where it listens.
    pub address: SocketAddr,
    /// The kernel's cookie of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// The socket's inode, as the links below `/proc/PID/fd` name it.
    pub inode: u32,
    /// What was seen.
    pub look: Look,
}

/// A `sock_diag` socket of the namespace in which it was opened.
pub struct Diag {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens one in the calling thread's namespace.
    pub fn open() -> Result<Self, DiagError> {
        let io = |operation| move |source| DiagError::Io { operation, source };
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(io(OPEN))?;
        socket.bind_auto().map_err(io("bind the netlink socket"))?;
        socket
            .connect(&NetlinkAddr::new(0, 0))
            .map_err(io("connect the netlink socket to the kernel"))?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: Vec::with_capacity(64 * 1024),
        })
    }

    /// Looks at the one socket that listens on `address`; `None` when none does.
    /// Of a `SO_REUSEPORT` group the kernel returns one member: see [`Diag::listeners`].
    pub fn look(&mut self, address: SocketAddr) -> Result<Option<Look>, DiagError> {
        let about = format_args!("the listener on {address}").to_string();
        let request = request(address.ip(), address.port(), None, StateFlags::LISTEN);
        let Some(response) = self.lookup(request, &about)? else {
            return Ok(None);
        };
        if response.header.state != TCP_LISTEN {
            return Ok(None);
        }
        if response.header.family != family_of(address.ip()) {
            let family = response.header.family;
            return Err(malformed(&about, format!("a socket of family {family}")));
        }
        if response.header.socket_id.source_port != address.port() {
            return Err(DiagError::Malformed {
                about,
                problem: format!("port {}", response.header.socket_id.source_port),
            });
        }
        look_of(&response, &about).map(Some)
    }

    /// What the kernel holds of the connection from `peer` to the listener on `local`.
    pub fn server_side(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<ServerSide, DiagError> {
        let about = format!("the connection {peer} to {local}");
        let request = request(local.ip(), local.port(), Some(peer), StateFlags::all());
        // Where no connection matches, the kernel falls back to the listener.
        let found = self.lookup(request, &about)?;
        Ok(found
            .and_then(|found| side_of(&found))
            .unwrap_or(ServerSide::Nothing))
    }

    /// The cookie of the socket that a SYN to `address` reaches; `None` when none listens there. A socket of the
    /// other family is found too, when the kernel gives it such packets. Of a `SO_REUSEPORT` group one is named.
    pub fn reached(&mut self, address: SocketAddr) -> Result<Option<u64>, DiagError> {
        let about = format!("the listener on {address}");
        let request = request(address.ip(), address.port(), None, StateFlags::LISTEN);
        let found = self.lookup(request, &about)?;
        Ok(found
            .filter(|found| found.header.state == TCP_LISTEN)
            .map(|found| u64::from_ne_bytes(found.header.socket_id.cookie)))
    }

    /// Every listening TCP socket of the namespace, both families, one row for each.
    pub fn listeners(&mut self) -> Result<Vec<ListenRow>, DiagError> {
        let mut rows = Vec::new();
        for family in [AF_INET, AF_INET6] {
            for response in self.dump(family, &StateFlags::LISTEN, 0, "the listening sockets")? {
                rows.push(ListenRow {
                    address: address_of(&response),
                    cookie: u64::from_ne_bytes(response.header.socket_id.cookie),
                    inode: response.header.inode,
                    look: look_of(&response, "the listening sockets")?,
                });
            }
        }
        Ok(rows)
    }

    /// Half-open requests and full sockets on a port. An IPv4 connection to a socket of both families stands among
    /// the IPv6 ones.
    pub fn connections(&mut self, port: u16) -> Result<Vec<Pending>, DiagError> {
        let about = format!("the connections to port {port}");
        let states = StateFlags::SYN_RECV | StateFlags::ESTABLISHED | StateFlags::CLOSE_WAIT;
        let mut found = Vec::new();
        for family in [AF_INET, AF_INET6] {
            let rows = self.dump(family, &states, port, &about)?;
            found.extend(rows.iter().filter_map(|response| {
                let id = &response.header.socket_id;
                let state = side_of(response)?;
                (id.source_port == port).then(|| Pending {
                    peer: SocketAddr::new(
                        id.destination_address.to_canonical(),
                        id.destination_port,
                    ),
                    server_port: None,
                    state,
                })
            }));
        }
        Ok(found)
    }

    fn lookup(
        &mut self,
        request: InetRequest,
        about: &str,
    ) -> Result<Option<Box<InetResponse>>, DiagError> {
        self.send(request, NLM_F_REQUEST)?;
        let mut found = None;
        self.receive(about, |message| match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                found = Some(response);
                Ok(Next::Finished)
            }
            NetlinkPayload::Error(error) if error.raw_code() == -libc::ENOENT => Ok(Next::Finished),
            other => Err(unexpected(other, about)),
        })?;
        Ok(found)
    }

    fn dump(
        &mut self,
        family: u8,
        states: &StateFlags,
        port: u16,
        about: &str,
    ) -> Result<Vec<InetResponse>, DiagError> {
        for _ in 0..DUMP_TRIES {
            let ip = if family == AF_INET {
                IpAddr::from([0; 4])
            } else {
                IpAddr::from([0; 16])
            };
            self.send(
                request(ip, port, None, states.clone()),
                NLM_F_REQUEST | NLM_F_DUMP,
            )?;
            let (mut found, mut interrupted) = (Vec::new(), false);
            self.receive(about, |message| {
                interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                        found.push(*response);
                        Ok(Next::More)
                    }
                    NetlinkPayload::Done(done) if done.code == 0 => Ok(Next::Finished),
                    NetlinkPayload::Done(done) => Err(DiagError::Refused {
                        about: about.to_owned(),
                        source: io::Error::from_raw_os_error(done.code.saturating_neg()),
                    }),
                    other => Err(unexpected(other, about)),
                }
            })?;
            if !interrupted {
                return Ok(found);
            }
        }
        Err(DiagError::Interrupted {
            about: about.to_owned(),
        })
    }

    fn send(&mut self, request: InetRequest, flags: u16) -> Result<(), DiagError> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket
            .send(&bytes, 0)
            .map(|_| ())
            .map_err(|source| DiagError::Io {
                operation: "send the question",
                source,
            })
    }

    /// Hands every message of the answer to `each` until it says that the answer is complete.
    fn receive(
        &mut self,
        about: &str,
        mut each: impl FnMut(NetlinkMessage<SockDiagMessage>) -> Result<Next, DiagError>,
    ) -> Result<(), DiagError> {
        loop {
            self.buffer.clear();
            let length = match self.socket.recv(&mut self.buffer, libc::MSG_TRUNC) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(DiagError::Io {
                        operation: "receive the answer",
                        source,
                    });
                }
            };
            if length > self.buffer.len() {
                return Err(malformed(about, format!("{length} bytes, cut off")));
            }
            for message in messages(&self.buffer, about) {
                let message = message?;
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                if let Next::Finished = each(message)? {
                    return Ok(());
                }
            }
        }
    }
}

enum Next {
    More,
    Finished,
}

/// The messages of one datagram; a message that is cut off is an error, never the end.
fn messages<'a>(
    datagram: &'a [u8],
    about: &'a str,
) -> impl Iterator<Item = Result<NetlinkMessage<SockDiagMessage>, DiagError>> + 'a {
    const HEADER: usize = 16;
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = rest
            .first_chunk::<4>()
            .map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
        if rest.len() < HEADER || length < HEADER || length > rest.len() {
            rest = &[];
            return Some(Err(malformed(about, "a message that is cut off".into())));
        }
        let (bytes, after) = rest.split_at(length);
        rest = &after[(length.next_multiple_of(4) - length).min(after.len())..];
        Some(
            NetlinkMessage::deserialize(bytes).map_err(|error| malformed(about, error.to_string())),
        )
    })
}

/// The listening sockets of a datagram that is known from elsewhere.
///
/// # Errors
/// It is cut off, or tells of anything else.
pub fn looks(datagram: &[u8]) -> Result<Vec<Look>, DiagError> {
    const ABOUT: &str = "a stored datagram";
    messages(datagram, ABOUT)
        .map(|message| match message?.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                look_of(&response, ABOUT)
            }
            other => Err(unexpected(other, ABOUT)),
        })
        .collect()
}

fn malformed(about: &str, problem: String) -> DiagError {
    DiagError::Malformed {
        about: about.to_owned(),
        problem,
    }
}

fn unexpected(payload: NetlinkPayload<SockDiagMessage>, about: &str) -> DiagError {
    match payload {
        NetlinkPayload::Error(error) => DiagError::Refused {
            about: about.to_owned(),
            source: io::Error::from_raw_os_error(error.raw_code().saturating_neg()),
        },
        other => malformed(
            about,
            format!("an unexpected message of type {}", other.message_type()),
        ),
    }
}

const fn family_of(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

fn request(ip: IpAddr, port: u16, peer: Option<SocketAddr>, states: StateFlags) -> InetRequest {
    let mut socket_id = match ip {
        IpAddr::V4(_) => SocketId::new_v4(),
        IpAddr::V6(_) => SocketId::new_v6(),
    };
    socket_id.source_address = ip;
    socket_id.source_port = port;
    if let Some(peer) = peer {
        socket_id.destination_address = peer.ip();
        socket_id.destination_port = peer.port();
    }
    // INET_DIAG_NOCOOKIE: with any other value the kernel finds only the socket of that cookie.
    socket_id.cookie = [0xff; 8];
    InetRequest {
        family: family_of(ip),
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::SKMEMINFO,
        states,
        socket_id,
    }
}

/// What the server's kernel holds; `None` for a listener. A socket that `accept()` has not returned belongs to no
/// file yet, so it has no inode (`inet_diag_msg_common_fill` in `net/ipv4/inet_diag.c`); nor has one that was
/// closed, but that is in another state.
fn side_of(response: &InetResponse) -> Option<ServerSide> {
    match (response.header.state, response.header.inode) {
        (TCP_LISTEN, _) => None,
        (TCP_SYN_RECV, _) => Some(ServerSide::HalfOpen),
        (TCP_ESTABLISHED | TCP_CLOSE_WAIT, 0) => Some(ServerSide::Established),
        _ => Some(ServerSide::Accepted),
    }
}

fn address_of(response: &InetResponse) -> SocketAddr {
    let id = &response.header.socket_id;
    SocketAddr::new(id.source_address, id.source_port)
}

fn look_of(response: &InetResponse, about: &str) -> Result<Look, DiagError> {
    let header = &response.header;
    if header.state != TCP_LISTEN {
        return Err(malformed(
            about,
            format!("a socket in state {}", header.state),
        ));
    }
    Ok(Look {
        recv_q: header.recv_queue,
        send_q: header.send_queue,
        drops: response.nlas.iter().find_map(|nla| match nla {
            Nla::MemInfo(info) => Some(info.drops),
            _ => None,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's answer about a listener on 127.0.0.1:8080 with `ss -m` values 3/2 and d4, laid out by
    /// the structures of `linux/inet_diag.h`.
    fn listener_answer() -> Vec<u8> {
        let mut payload = vec![AF_INET, TCP_LISTEN, 0, 0];
        payload.extend(8080_u16.to_be_bytes());
        payload.extend(0_u16.to_be_bytes());
        payload.extend([127, 0, 0, 1]);
        payload.extend([0; 12 + 16 + 4]);
        payload.extend(77_u64.to_ne_bytes());
        for word in [0_u32, 3, 2, 0, 4711] {
            payload.extend(word.to_ne_bytes());
        }
        payload.extend(40_u16.to_ne_bytes());
        payload.extend(7_u16.to_ne_bytes());
        for word in [0_u32, 0, 0, 0, 0, 0, 0, 0, 4] {
            payload.extend(word.to_ne_bytes());
        }
        let mut message = Vec::new();
        message.extend(u32::try_from(16 + payload.len()).unwrap().to_ne_bytes());
        message.extend(20_u16.to_ne_bytes());
        message.extend(0_u16.to_ne_bytes());
        message.extend(1_u32.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend(payload);
        message
    }

    #[test]
    fn queue_limit_and_drops_stand_where_the_kernel_puts_them() {
        let look = Look {
            recv_q: 3,
            send_q: 2,
            drops: Some(4),
        };
        assert_eq!(looks(&listener_answer()).unwrap(), [look]);
        let twice = [listener_answer(), listener_answer()].concat();
        assert_eq!(looks(&twice).unwrap(), [look, look]);
    }

    #[test]
    fn an_answer_cut_off_anywhere_is_an_error_and_never_a_number() {
        let whole = listener_answer();
        for length in 1..whole.len() {
            assert!(
                looks(&whole[..length]).is_err(),
                "cut off after {length} bytes"
            );
        }
    }

    #[test]
    fn a_length_that_lies_is_an_error() {
        for length in [0_u32, 15, 4_000_000_000] {
            let mut answer = listener_answer();
            answer[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(looks(&answer).is_err(), "length {length}");
        }
    }

    #[test]
    fn an_error_reply_is_an_error() {
        let mut answer = Vec::new();
        answer.extend(36_u32.to_ne_bytes());
        answer.extend(2_u16.to_ne_bytes());
        answer.extend([0; 10]);
        answer.extend((-libc::EPERM).to_ne_bytes());
        answer.extend([0; 16]);
        let error = looks(&answer).unwrap_err();
        assert!(matches!(error, DiagError::Refused { .. }), "{error}");
    }

    #[test]
    fn a_socket_in_another_state_is_no_listener() {
        let mut answer = listener_answer();
        answer[17] = TCP_ESTABLISHED;
        assert!(looks(&answer).is_err());
    }
}
