//! The `[link]` table: what lies between client and server.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DropRule, End, Rate, Share, Span};

/// What lies between client and server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "LinkTable", into = "LinkTable")]
pub struct LinkSpec {
    /// The kind of link.
    pub kind: LinkKind,
    /// The address family of the experiment.
    pub family: Family,
}

/// The kind of link between client and server.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum LinkKind {
    /// One namespace, its loopback interface.
    #[default]
    Loopback,
    /// A namespace for each side, joined by a veth pair; their counters are apart.
    Veth,
    /// No namespace of its own: the loopback interface where the lab runs. Only behind an explicit flag; sysctls
    /// are read and never written, and other programs move the same counters.
    Here,
    /// A namespace for each side; every packet between them passes the lab's own relay.
    Wire(WireSpec),
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("loopback"),
            Self::Veth => f.write_str("veth"),
            Self::Here => f.write_str("here"),
            Self::Wire(wire) => {
                let (there, back) = (wire.to_server.delay, wire.to_client.delay);
                write!(f, "wire, {there} to the server and {back} back")
            }
        }
    }
}

/// An IP address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What the relay does to the packets of each direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WireSpec {
    /// Client to server.
    pub to_server: Impairments,
    /// Server to client.
    pub to_client: Impairments,
    /// Packets that are dropped on purpose.
    pub drop: Vec<DropRule>,
}

impl WireSpec {
    /// What happens to packets on their way to one end.
    pub fn towards(&self, to: End) -> &Impairments {
        match to {
            End::Server => &self.to_server,
            End::Client => &self.to_client,
        }
    }
}

/// What happens to the packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Impairments {
    /// How long a packet is under way.
    pub delay: Span,
    /// Each packet takes up to this much longer, drawn evenly for each; packets may overtake each other.
    pub jitter: Span,
    /// The share of packets that is lost.
    pub loss: Share,
    /// The share of packets that arrives twice.
    pub duplicate: Share,
    /// How fast the bottleneck sends; without one there is none.
    pub rate: Option<Rate>,
    /// How many packets may wait at the bottleneck.
    pub queue: u32,
}

/// The queue of a bottleneck that does not name one: the kernel's usual length of an interface's queue.
const DEFAULT_QUEUE: u32 = 1_000;

/// A table with the keys of a direction after some others and before the rest.
macro_rules! wire_table {
    (
        $(#[$attribute:meta])*
        struct $name:ident {
            before { $($before:tt)* }
            after { $($after:tt)* }
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        struct $name {
            $($before)*
            /// How long a packet is under way; wire only.
            #[serde(skip_serializing_if = "Option::is_none")]
            delay: Option<Span>,
            /// Each packet takes up to this much longer; wire only.
            #[serde(skip_serializing_if = "Option::is_none")]
            jitter: Option<Span>,
            /// The share of packets that is lost; wire only.
            #[serde(skip_serializing_if = "Option::is_none")]
            loss: Option<Share>,
            /// The share of packets that arrives twice; wire only.
            #[serde(skip_serializing_if = "Option::is_none")]
            duplicate: Option<Share>,
            /// How fast the bottleneck sends; without one there is none; wire only.
            #[serde(skip_serializing_if = "Option::is_none")]
            rate: Option<Rate>,
            /// How many packets may wait at the bottleneck; wire only.
            #[serde(skip_serializing_if = "Option::is_none")]
            queue: Option<u32>,
            $($after)*
        }
    };
}

wire_table! {
    /// The table as a file writes it: keys for both directions, and those that differ for one.
    struct LinkTable {
        before {
            /// The kind of link.
            kind: KindName,
            family: Family,
        }
        after {
            /// Packets that are dropped on purpose; wire only.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            drop: Vec<DropRule>,
            /// What differs on the way to the server; wire only.
            #[serde(skip_serializing_if = "Option::is_none")]
            to_server: Option<DirectionTable>,
            /// What differs on the way to the client; wire only.
            #[serde(skip_serializing_if = "Option::is_none")]
            to_client: Option<DirectionTable>,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    /// One namespace, its loopback interface.
    #[default]
    Loopback,
    /// A namespace for each side, joined by a veth pair; their counters are apart.
    Veth,
    /// No namespace of its own; only with `--here`.
    Here,
    /// A namespace for each side; every packet between them passes the lab's own relay.
    Wire,
}

wire_table! {
    /// `[link.to-server]` or `[link.to-client]`.
    struct DirectionTable {
        before {}
        after {}
    }
}

impl LinkTable {
    /// The first key that only a wire understands.
    fn wire_key(&self) -> Option<&'static str> {
        [
            ("delay", self.delay.is_some()),
            ("jitter", self.jitter.is_some()),
            ("loss", self.loss.is_some()),
            ("duplicate", self.duplicate.is_some()),
            ("rate", self.rate.is_some()),
            ("queue", self.queue.is_some()),
            ("drop", !self.drop.is_empty()),
            ("to-server", self.to_server.is_some()),
            ("to-client", self.to_client.is_some()),
        ]
        .into_iter()
        .find_map(|(key, is_there)| is_there.then_some(key))
    }

    /// One direction's settings: its own where it has any, else those for both.
    fn impairments(&self, own: Option<&DirectionTable>) -> Result<Impairments, String> {
        let none = DirectionTable::default();
        let own = own.unwrap_or(&none);
        let rate = own.rate.or(self.rate);
        let queue = own.queue.or(self.queue);
        match (rate, queue) {
            (None, Some(queue)) => {
                return Err(format!(
                    "queue = {queue} needs a rate: without one no packet ever waits"
                ));
            }
            (Some(_), Some(0)) => return Err("queue: at least one packet must fit".into()),
            _ => {}
        }
        Ok(Impairments {
            delay: own.delay.or(self.delay).unwrap_or_default(),
            jitter: own.jitter.or(self.jitter).unwrap_or_default(),
            loss: own.loss.or(self.loss).unwrap_or_default(),
            duplicate: own.duplicate.or(self.duplicate).unwrap_or_default(),
            rate,
            queue: queue.unwrap_or(DEFAULT_QUEUE),
        })
    }
}

impl TryFrom<LinkTable> for LinkSpec {
    type Error = String;

    fn try_from(table: LinkTable) -> Result<Self, String> {
        let kind = match table.kind {
            KindName::Wire => {
                if table.drop.iter().any(|rule| rule.nth == Some(0)) {
                    return Err(
                        "drop: nth counts from 1; leave it out to drop every such packet".into(),
                    );
                }
                LinkKind::Wire(WireSpec {
                    to_server: table.impairments(table.to_server.as_ref())?,
                    to_client: table.impairments(table.to_client.as_ref())?,
                    drop: table.drop,
                })
            }
            kind => {
                if let Some(key) = table.wire_key() {
                    return Err(format!(
                        "{key} is for kind = \"wire\": no other link holds packets up"
                    ));
                }
                match kind {
                    KindName::Veth => LinkKind::Veth,
                    KindName::Here => LinkKind::Here,
                    _ => LinkKind::Loopback,
                }
            }
        };
        Ok(Self {
            kind,
            family: table.family,
        })
    }
}

impl From<LinkSpec> for LinkTable {
    fn from(spec: LinkSpec) -> Self {
        let direction = |one: Impairments| {
            Some(DirectionTable {
                delay: Some(one.delay),
                jitter: Some(one.jitter),
                loss: Some(one.loss),
                duplicate: Some(one.duplicate),
                rate: one.rate,
                queue: one.rate.map(|_| one.queue),
            })
        };
        let table = Self {
            family: spec.family,
            ..Self::default()
        };
        match spec.kind {
            LinkKind::Loopback => table,
            LinkKind::Veth => Self {
                kind: KindName::Veth,
                ..table
            },
            LinkKind::Here => Self {
                kind: KindName::Here,
                ..table
            },
            LinkKind::Wire(wire) => Self {
                kind: KindName::Wire,
                drop: wire.drop,
                to_server: direction(wire.to_server),
                to_client: direction(wire.to_client),
                ..table
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(text: &str) -> Result<LinkSpec, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    fn wire(text: &str) -> WireSpec {
        match link(&format!("kind = \"wire\"\n{text}")).unwrap().kind {
            LinkKind::Wire(wire) => wire,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_direction_takes_what_both_have_and_its_own() {
        let wire = wire(
            "delay = \"25ms\"\nloss = \"10%\"\n[to-client]\ndelay = \"5ms\"\nrate = \"10mbit\"",
        );
        assert_eq!(wire.to_server.delay, Span::from_ms(25));
        assert_eq!(wire.to_client.delay, Span::from_ms(5));
        assert_eq!(wire.to_client.loss.millionths(), 100_000);
        assert_eq!(wire.to_server.rate, None);
        assert_eq!(
            wire.to_client.rate.map(|rate| rate.ns_for(1_250)),
            Some(1_000_000)
        );
        assert_eq!(wire.to_client.queue, DEFAULT_QUEUE);
    }

    #[test]
    fn what_is_resolved_is_read_back() {
        let text = "family = \"ipv6\"\ndelay = \"25ms\"\nduplicate = \"0.5%\"\nrate = \"1500kbit\"\nqueue = 9\n\
                    drop = [{ to = \"client\", flags = \"SYN+ACK\", nth = 1 }, { to = \"server\", flags = \"ACK\" }]";
        let spec = link(&format!("kind = \"wire\"\n{text}")).unwrap();
        let resolved = toml::to_string(&spec).unwrap();
        assert_eq!(link(&resolved).unwrap(), spec, "{resolved}");
        for kind in ["loopback", "veth", "here"] {
            let spec = link(&format!("kind = \"{kind}\"")).unwrap();
            assert_eq!(link(&toml::to_string(&spec).unwrap()).unwrap(), spec);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_way_out() {
        for (text, part) in [
            (
                "kind = \"veth\"\ndelay = \"25ms\"",
                "delay is for kind = \"wire\"",
            ),
            (
                "kind = \"loopback\"\n[to-server]\nloss = \"1%\"",
                "to-server is for kind = \"wire\"",
            ),
            ("loss = \"1%\"", "loss is for kind = \"wire\""),
            ("kind = \"wire\"\nqueue = 5", "needs a rate"),
            (
                "kind = \"wire\"\nrate = \"1mbit\"\nqueue = 0",
                "at least one",
            ),
            (
                "kind = \"wire\"\nloss = \"101%\"",
                "from \"0%\" to \"100%\"",
            ),
            ("kind = \"wire\"\nloss = \"0.1\"", "from \"0%\" to \"100%\""),
            ("kind = \"wire\"\nrate = \"fast\"", "is not a rate"),
            ("kind = \"wire\"\nrate = \"10bit\"", "from \"1kbit\""),
            ("kind = \"wire\"\ndelay = \"-1ms\"", "negative"),
            (
                "kind = \"wire\"\ndrop = [{ to = \"client\", flags = \"SYNACK\" }]",
                "no TCP flags",
            ),
            (
                "kind = \"wire\"\ndrop = [{ to = \"client\", flags = \"SYN\", nth = 0 }]",
                "counts from 1",
            ),
            (
                "kind = \"wire\"\ndrop = [{ to = \"relay\", flags = \"SYN\" }]",
                "unknown variant",
            ),
            ("kind = \"wire\"\nlatency = \"1ms\"", "unknown field"),
            ("kind = \"netem\"", "unknown variant"),
        ] {
            let error = link(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
