//! Where clients connect from, and what drives them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arm, Family, LinkKind, SpeaksFirst};
use crate::figure::Figure;

/// What drives the attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// A thread for each attempt that is under way.
    #[default]
    Threads,
    /// An event loop that waits for all attempts at once; in a load that lasts, one for each processor.
    Async,
}

/// How an attempt that has a source address comes by its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bind {
    /// When it connects (`IP_BIND_ADDRESS_NO_PORT`, ip(7)): each destination has the whole range of ports.
    #[default]
    NoPort,
    /// When it is bound: all destinations share the range.
    PortFirst,
}

/// The addresses that clients connect from, in turn: one, or the first and the last of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sources {
    first: IpAddr,
    count: u32,
}

/// More addresses than these only lengthen the way to a trial.
const MOST_SOURCES: u32 = 1_024;

impl Sources {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whose turn it is for the `n`-th.
    pub fn turn(&self, n: u32) -> IpAddr {
        let step = n % self.count;
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + step).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + u128::from(step)).into(),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        (0..self.count).map(|n| self.turn(n))
    }

    /// The kind of addresses they are.
    pub fn family(&self) -> Family {
        if self.first.is_ipv4() {
            Family::Ipv4
        } else {
            Family::Ipv6
        }
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "client.sources = \"{text}\": {why}; write \"127.0.0.10\" or \"127.0.0.10-127.0.0.19\""
            )
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let address = |text: &str| {
            let address: Result<IpAddr, _> = text.trim().parse();
            address.map_err(|_| wrong("not an address or a row of them"))
        };
        let (first, last) = (address(first)?, address(last)?);
        let steps = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                last.to_bits().checked_sub(first.to_bits()).map(u128::from)
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => last.to_bits().checked_sub(first.to_bits()),
            _ => return Err(wrong("both ends must be of one family")),
        };
        let steps = steps.ok_or_else(|| wrong("the last address comes before the first"))?;
        match u32::try_from(steps) {
            Ok(steps) if steps < MOST_SOURCES => Ok(Self {
                first,
                count: steps + 1,
            }),
            _ => Err(wrong(&format!("at most {MOST_SOURCES} addresses"))),
        }
    }
}

impl TryFrom<String> for Sources {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sources> for String {
    fn from(sources: Sources) -> Self {
        sources.to_string()
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.count > 1 {
            write!(f, "-{}", self.turn(self.count - 1))?;
        }
        Ok(())
    }
}

/// The sysctl that bounds the client's ports.
const PORT_RANGE: &str = "net.ipv4.ip_local_port_range";
/// Its value in a fresh namespace (Documentation/networking/ip-sysctl.rst).
const DEFAULT_PORTS: &str = "32768 60999";

/// The ports of a range such as `32768 60999`.
pub fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut ends = text.split_whitespace().map(str::parse::<u16>);
    match (ends.next(), ends.next(), ends.next()) {
        (Some(Ok(low)), Some(Ok(high)), None) => Some(low..=high),
        _ => None,
    }
}

impl Arm {
    /// How often a port can be in use at once: a connection is told apart by both addresses and both ports. A port
    /// that is chosen before the destination is known serves one connection of its address.
    pub fn uses_of_a_port(&self) -> u32 {
        let sources = self.client.sources.map_or(1, |sources| sources.count());
        match self.client.bind {
            Bind::NoPort => sources * self.server.ports(),
            Bind::PortFirst => sources,
        }
    }

    pub(super) fn check_sources(&self) -> Result<(), String> {
        let Some(sources) = self.client.sources else {
            if self.client.bind == Bind::PortFirst {
                return Err(
                    "client.bind = \"port-first\": without client.sources nothing is bound".into(),
                );
            }
            return self.check_wire(1);
        };
        if sources.family() != self.link.family {
            return Err(format!(
                "client.sources = \"{sources}\": not of the family of the link; change link.family, or the addresses"
            ));
        }
        self.check_wire(sources.count())
    }

    /// The packets of a wire are told apart by the client's port.
    fn check_wire(&self, sources: u32) -> Result<(), String> {
        if matches!(self.link.kind, LinkKind::Wire(_)) && (sources > 1 || self.server.ports() > 1) {
            return Err("link.kind = \"wire\" tells connections apart by the client's port alone: use one of client.sources and server.ports = 1, or \"veth\"".into());
        }
        Ok(())
    }

    /// Connections that are open at once each need a port, unless the shortage is the point.
    pub(super) fn check_ports(&self) -> Result<(), String> {
        let (range, from) = match self.sysctl.get(PORT_RANGE) {
            Some(value) => (value.as_str(), "set by this arm"),
            None => (DEFAULT_PORTS, "the kernel's default"),
        };
        let Some(ports) = port_range(range) else {
            return Err(format!(
                "sysctl.\"{PORT_RANGE}\" = \"{range}\" is not two port numbers"
            ));
        };
        // Silent clients hold their connections to the end.
        let open = match self.protocol.speaks_first {
            SpeaksFirst::Nobody => self.client.connections,
            SpeaksFirst::Server | SpeaksFirst::Client => self.client.at_once(),
        };
        let key = if open == self.client.connections {
            "connections"
        } else {
            "workers"
        };
        let ports = u32::try_from(ports.count()).unwrap_or(u32::MAX);
        let uses = self.uses_of_a_port();
        if open > ports.saturating_mul(uses) && !self.expects_local_limit() {
            let each = if uses > 1 {
                format!(", each of use {uses} times")
            } else {
                String::new()
            };
            return Err(format!(
                "client.{key} = {open} is more than the {ports} ports of {PORT_RANGE} = \"{range}\" ({from}){each}; use more client.sources, or let the arm expect local-limit"
            ));
        }
        Ok(())
    }

    /// Whether a limit of the client's machine is what the arm shows.
    pub fn expects_local_limit(&self) -> bool {
        let limits = [
            "local-limit",
            "client-out-of-ports",
            "client-out-of-descriptors",
            "source-not-local",
        ];
        let mut limits = limits.into_iter().map(Figure::Named);
        limits.any(|figure| self.expect.bounds.contains_key(&figure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_and_printed_alike() {
        for (text, count) in [
            ("127.0.0.10", 1),
            ("127.0.0.10-127.0.0.19", 10),
            ("10.0.0.250-10.0.1.5", 12),
            ("2001:2::10-2001:2::1f", 16),
        ] {
            let sources: Sources = text.parse().unwrap();
            assert_eq!((sources.count(), sources.to_string()), (count, text.into()));
            assert_eq!(sources.turn(count), sources.turn(0));
            assert_eq!(sources.iter().count(), count as usize);
        }
        let across: Sources = "10.0.0.255-10.0.1.0".parse().unwrap();
        assert_eq!(across.turn(1), IpAddr::from([10, 0, 1, 0]));
        let end: Sources = "255.255.255.254-255.255.255.255".parse().unwrap();
        assert_eq!(end.turn(1), IpAddr::from([255; 4]));
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for (text, word) in [
            ("", "not an address"),
            ("localhost", "not an address"),
            ("10.0.0.0/8", "not an address"),
            ("127.0.0.2-127.0.0.1", "before the first"),
            ("127.0.0.1-::1", "one family"),
            ("10.0.0.0-10.0.4.0", "at most 1024"),
            ("::-ffff::", "at most 1024"),
        ] {
            let error = text.parse::<Sources>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
