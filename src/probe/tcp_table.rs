//! `/proc/net/tcp` and `/proc/net/tcp6`: what is left without `sock_diag`.
//!
//! A listening row shows how many connections wait for accept, never the limit: its transmit column is 0
//! (the kernel's `get_tcp4_sock`). The table walks every socket of the namespace, so it is slow on a busy host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::{ProbeError, read};

/// A listening socket as the table shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRow {
    /// Where it listens.
    pub address: SocketAddr,
    /// Connections that wait for accept.
    pub waiting: u32,
    /// The socket's inode.
    pub inode: u32,
}

/// The state LISTEN, in the kernel's spelling.
const LISTEN: &str = "0A";

/// Parses the listening rows of either file.
///
/// # Errors
/// A listening row that lacks a column or has a wrong one, or a text without the table's heading.
pub fn parse(text: &str) -> Result<Vec<TableRow>, String> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    if !heading.contains("local_address") {
        return Err(format!(
            "\"{}\" is not the heading of a table of sockets",
            heading.trim()
        ));
    }
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|columns| columns.get(3) == Some(&LISTEN))
        .map(|columns| {
            row(&columns)
                .ok_or_else(|| format!("\"{}\" is no row of a table of sockets", columns.join(" ")))
        })
        .collect()
}

fn row(columns: &[&str]) -> Option<TableRow> {
    let (_, waiting) = columns.get(4)?.split_once(':')?;
    Some(TableRow {
        address: address(columns.get(1)?)?,
        waiting: u32::from_str_radix(waiting, 16).ok()?,
        inode: columns.get(9)?.parse().ok()?,
    })
}

/// `0100007F:1F90`: the address as words in the machine's byte order, the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words: Vec<[u8; 4]> = ip
        .as_bytes()
        .chunks(8)
        .map(|word| {
            u32::from_str_radix(std::str::from_utf8(word).ok()?, 16)
                .ok()
                .map(u32::to_ne_bytes)
        })
        .collect::<Option<_>>()?;
    let ip = match words.as_slice() {
        [word] => IpAddr::V4(Ipv4Addr::from(*word)),
        [_, _, _, _] => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// The listening rows of both families, read below `net`; a kernel without IPv6 has no second file.
///
/// # Errors
/// A file that cannot be read or is no such table.
pub fn listeners(net: &Path) -> Result<Vec<TableRow>, ProbeError> {
    let mut rows = Vec::new();
    for (file, may_be_missing) in [("tcp", false), ("tcp6", true)] {
        let path = net.join(file);
        let text = match read(&path) {
            Err(ProbeError::Unreadable { source, .. })
                if may_be_missing && source.kind() == std::io::ErrorKind::NotFound =>
            {
                continue;
            }
            text => text?,
        };
        rows.extend(parse(&text).map_err(|problem| ProbeError::Malformed { path, problem })?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../tests/data/proc_net_tcp_listen_full.txt");

    #[test]
    fn only_listening_rows_are_read_and_their_receive_column_is_the_queue() {
        let rows = parse(FIXTURE).unwrap();
        let short: Vec<_> = rows
            .iter()
            .map(|row| (row.address.to_string(), row.waiting, row.inode))
            .collect();
        assert_eq!(
            short,
            [
                ("0.0.0.0:443".into(), 129, 20001),
                ("127.0.0.1:8080".into(), 0, 20002)
            ]
        );
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn ipv6_addresses_are_four_words() {
        let text = "  sl  local_address remote_address st tx_queue rx_queue\n   0: \
                    B80D0120000000000000000001000000:0050 0:0 0A 00000000:00000003 00:00000000 00000000 0 0 77 1\n";
        assert_eq!(
            parse(text).unwrap()[0].address,
            "[2001:db8::1]:80".parse().unwrap()
        );
    }

    #[test]
    fn what_is_no_table_is_an_error_and_never_an_empty_list() {
        assert!(parse("").is_err());
        assert!(parse("TcpExt: ListenOverflows\n").is_err());
        assert!(parse("  sl  local_address\n 0: 0100007F:1F90 0:0 0A 0:0\n").is_err());
        assert!(parse("  sl  local_address\n 0: 0100007F:1F9Z 0:0 0A 0:0 0 0 0 0 7\n").is_err());
        assert_eq!(parse("  sl  local_address\n").unwrap(), []);
    }
}
