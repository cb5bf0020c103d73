//! Packets lost before TCP sees them: `/proc/net/softnet_stat` and `/proc/net/dev`.

use std::collections::BTreeMap;
use std::path::Path;

use super::{ProbeError, read};

/// One processor's line of `softnet_stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Softnet {
    /// Packets processed (first column).
    pub processed: u64,
    /// Packets dropped because the per-CPU queue was full (second column).
    pub dropped: u64,
    /// Times that the softirq's budget ran out with work left (third column).
    pub squeezed: u64,
}

/// Parses `softnet_stat`: hexadecimal columns, 9 to 15 of them depending on the kernel.
pub fn parse_softnet(text: &str) -> Result<Vec<Softnet>, String> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let mut columns = line
                .split_whitespace()
                .map(|column| u64::from_str_radix(column, 16));
            match (columns.next(), columns.next(), columns.next()) {
                (Some(Ok(processed)), Some(Ok(dropped)), Some(Ok(squeezed))) => Ok(Softnet {
                    processed,
                    dropped,
                    squeezed,
                }),
                _ => Err(format!("\"{line}\" has no three hexadecimal columns")),
            }
        })
        .collect()
}

/// Parses `/proc/net/dev` into the receive drops of each interface; a large number may follow the colon at once.
pub fn parse_rx_dropped(text: &str) -> Result<BTreeMap<String, u64>, String> {
    const RX_DROP: usize = 3;
    text.lines()
        .filter_map(|line| line.rsplit_once(':'))
        .map(|(interface, columns)| {
            columns
                .split_whitespace()
                .nth(RX_DROP)
                .and_then(|column| column.parse().ok())
                .map(|drops| (interface.trim().to_owned(), drops))
                .ok_or_else(|| format!("interface {} has no drop column", interface.trim()))
        })
        .collect()
}

/// Drops of the whole machine's per-CPU queues, read below `net`.
pub fn softnet_dropped(net: &Path) -> Result<u64, ProbeError> {
    let path = net.join("softnet_stat");
    let sum = |rows: Vec<Softnet>| {
        let mut all = rows.iter();
        all.try_fold(0_u64, |sum, row| sum.checked_add(row.dropped))
            .ok_or_else(|| "its drops add up to more than 64 bits".to_owned())
    };
    parse_softnet(&read(&path)?)
        .and_then(sum)
        .map_err(|problem| ProbeError::Malformed { path, problem })
}

/// Receive drops of the namespace's interfaces, read below `net`.
pub fn rx_dropped(net: &Path) -> Result<BTreeMap<String, u64>, ProbeError> {
    let path = net.join("dev");
    parse_rx_dropped(&read(&path)?).map_err(|problem| ProbeError::Malformed { path, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_with_and_without_a_blank_after_the_colon() {
        let text = "Inter-|   Receive        |  Transmit\n face |bytes packets errs drop fifo\n    \
                    lo: 100 2 0 7 0 0 0 0 100 2 0 0 0 0 0 0\n  eth0:18446744073709551615 2 0 9 0 0 0 0 1 1 0 0 0 0 0 0\n";
        let drops = parse_rx_dropped(text).unwrap();
        assert_eq!(
            drops,
            BTreeMap::from([("lo".into(), 7), ("eth0".into(), 9)])
        );
    }

    #[test]
    fn a_line_without_its_columns_is_an_error() {
        assert!(parse_softnet("00000001 0000000g 00000000").is_err());
        assert!(parse_softnet("00000001 00000002").is_err());
        assert!(parse_rx_dropped("lo: 1 2 3").is_err());
    }
}
