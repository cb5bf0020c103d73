//! What this machine allows: each thing that arms need is really tried, in namespaces of its own.
//!
//! The policy is here, the attempts behind [`Surface`]; `run` asks for what its arms need and for nothing else.

mod kernel;
mod trouble;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

pub use kernel::KernelSurface;
pub use trouble::Trouble;

use crate::arm::{Arm, Family, LinkKind, SysctlValue};

/// Something that a run can need of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// A user namespace, for whoever is not root.
    UserNamespace,
    /// A network namespace with its loopback interface.
    NetworkNamespace,
    /// IPv6 inside of it.
    Ipv6,
    /// Two namespaces joined by a veth pair, with a packet sent through it.
    Veth,
    /// The kernel's counters, and that they move.
    Counters,
    /// `sock_diag` with a listener's drop counter.
    SockDiag,
    /// A sysctl and the values that arms give it.
    Sysctl(String, Vec<SysctlValue>),
    /// So many threads at once.
    Threads(u32),
    /// So many open files at once.
    OpenFiles(u64),
    /// A packet socket that sees a packet.
    PacketCapture,
    /// The limit of connection tracking, which is the whole machine's.
    Conntrack,
    /// Named namespaces, of which the lab makes none.
    NamedNamespaces,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserNamespace => f.write_str("user namespace"),
            Self::NetworkNamespace => f.write_str("network namespace"),
            Self::Ipv6 => f.write_str("ipv6"),
            Self::Veth => f.write_str("veth"),
            Self::Counters => f.write_str("counters"),
            Self::SockDiag => f.write_str("sock_diag"),
            Self::Sysctl(name, _) => f.write_str(name),
            Self::Threads(n) => write!(f, "{n} threads"),
            Self::OpenFiles(n) => write!(f, "{n} open files"),
            Self::PacketCapture => f.write_str("packet capture"),
            Self::Conntrack => f.write_str("conntrack limit"),
            Self::NamedNamespaces => f.write_str("/run/netns"),
        }
    }
}

/// Tries things; a seam, so that every trouble can be staged.
pub trait Surface {
    /// Really tries one thing, and changes nothing that outlives the attempt.
    ///
    /// # Errors
    /// What stands in the way.
    fn attempt(&self, need: &Need) -> Result<String, Trouble>;
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It works.
    Works,
    /// It does not, and is needed.
    Fails,
    /// Something else failed first.
    NotTried,
    /// It does not work, and nothing that was asked for needs it.
    NotNeeded,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Works => "works",
            Self::Fails => "does NOT",
            Self::NotTried => "not tried",
            Self::NotNeeded => "not needed",
        })
    }
}

/// One thing and how its attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What was tried.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was seen, or what stands in the way.
    pub detail: String,
    /// The kernel's error, by name.
    pub errno: Option<String>,
    /// The ways out.
    pub ways_out: Vec<String>,
}

impl Row {
    /// Whether nothing that is needed fails here.
    pub fn is_well(&self) -> bool {
        matches!(self.verdict, Verdict::Works | Verdict::NotNeeded)
    }
}

/// What these arms need. Those that run in no namespace of their own meet the machine as it is.
pub fn needs(arms: &[Arm]) -> Vec<Need> {
    let arms: Vec<&Arm> = arms
        .iter()
        .filter(|arm| arm.link.kind != LinkKind::Here)
        .collect();
    if arms.is_empty() {
        return Vec::new();
    }
    let mut needs = vec![
        Need::UserNamespace,
        Need::NetworkNamespace,
        Need::Counters,
        Need::SockDiag,
    ];
    if arms.iter().any(|arm| arm.link.family == Family::Ipv6) {
        needs.push(Need::Ipv6);
    }
    let wire = |arm: &&Arm| matches!(arm.link.kind, LinkKind::Wire(_));
    if arms
        .iter()
        .any(|arm| arm.link.kind == LinkKind::Veth || wire(arm))
    {
        needs.push(Need::Veth);
    }
    if arms.iter().any(wire) {
        needs.push(Need::PacketCapture);
    }
    let mut sysctls: BTreeMap<&str, Vec<SysctlValue>> = BTreeMap::new();
    for (name, value) in arms.iter().flat_map(|arm| &arm.sysctl) {
        let values = sysctls.entry(name).or_default();
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    needs.extend(
        sysctls
            .into_iter()
            .map(|(name, values)| Need::Sysctl(name.to_owned(), values)),
    );
    needs.extend(
        arms.iter()
            .map(|arm| arm.client.threads())
            .max()
            .map(Need::Threads),
    );
    let connections = arms.iter().map(|arm| u64::from(arm.client.at_once())).max();
    needs.extend(connections.map(|n| Need::OpenFiles(n * FILES_PER_CONNECTION + OWN_FILES)));
    needs
}

/// Both ends of a connection are this process's.
const FILES_PER_CONNECTION: u64 = 2;
/// Namespaces, netlink sockets and files of the lab itself.
const OWN_FILES: u64 = 64;

/// What few arms need or none, and is good to know.
pub const OTHERS: &[Need] = &[Need::PacketCapture, Need::Conntrack, Need::NamedNamespaces];

/// Tries what is needed, and `others` beside it.
pub fn examine(surface: &impl Surface, needs: &[Need], others: &[Need]) -> Vec<Row> {
    let needed = needs.iter().map(|need| (need, true));
    let mut no_namespace = false;
    needed
        .chain(
            others
                .iter()
                .filter(|other| !needs.contains(other))
                .map(|need| (need, false)),
        )
        .map(|(need, is_needed)| {
            if no_namespace && need.is_inside() {
                return Row {
                    name: need.to_string(),
                    verdict: Verdict::NotTried,
                    detail: "there is no network namespace to try it in".into(),
                    errno: None,
                    ways_out: Vec::new(),
                };
            }
            match surface.attempt(need) {
                Ok(detail) => Row {
                    name: need.to_string(),
                    verdict: Verdict::Works,
                    detail,
                    errno: None,
                    ways_out: Vec::new(),
                },
                Err(trouble) => {
                    no_namespace |= matches!(need, Need::UserNamespace | Need::NetworkNamespace);
                    Row {
                        name: need.to_string(),
                        verdict: if is_needed {
                            Verdict::Fails
                        } else {
                            Verdict::NotNeeded
                        },
                        detail: trouble.what,
                        errno: trouble.errno.map(|errno| format!("{errno:?}")),
                        ways_out: trouble.ways_out,
                    }
                }
            }
        })
        .collect()
}

impl Need {
    /// Whether it is tried inside a network namespace.
    fn is_inside(&self) -> bool {
        !matches!(
            self,
            Self::UserNamespace | Self::Threads(_) | Self::OpenFiles(_) | Self::NamedNamespaces
        )
    }
}
