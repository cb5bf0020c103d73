//! The names of `AF_UNIX` sockets: abstract ones, which live and end with the network namespace.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use socket2::SockAddr;

const NAME: &str = "\0backlog-lab";

/// Where the server listens.
pub(super) fn server() -> io::Result<SockAddr> {
    SockAddr::unix(NAME)
}

/// What the `n`-th attempt is bound to, so that the server can tell whom it accepts.
pub(super) fn client(n: u32) -> io::Result<SockAddr> {
    SockAddr::unix(OsString::from_vec(format!("{NAME}.{n}").into_bytes()))
}

/// Which attempt a name belongs to.
pub(super) fn number(peer: &SockAddr) -> Option<u32> {
    let name = std::str::from_utf8(peer.as_abstract_namespace()?).ok()?;
    let name = name.strip_prefix(&NAME[1..])?;
    name.strip_prefix('.')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_attempt() {
        for n in [0, 1, 29, u32::MAX] {
            assert_eq!(number(&client(n).unwrap()), Some(n));
        }
        assert_eq!(number(&server().unwrap()), None);
        let inet: std::net::SocketAddr = ([127, 0, 0, 1], 80).into();
        assert_eq!(number(&inet.into()), None);
    }
}
