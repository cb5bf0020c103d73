//! What the relay of a wire saw and did with every packet.

use serde::{Deserialize, Serialize};

use crate::arm::{End, Flags};

/// What the relay of a wire saw and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WireLog {
    /// The processor that was the relay's alone; `None` where there is only one.
    pub cpu: Option<usize>,
    /// Packets that found the relay's ring full: lost without having been asked for.
    pub overruns: u64,
    /// Packets that the relay could not send on, and the first error.
    pub unsent: (u64, Option<String>),
    /// How many of the packets, from the first, are in the capture.
    pub captured: usize,
    /// Every TCP packet that entered the wire, in order of arrival.
    pub packets: Vec<Packet>,
    /// The packets themselves, as a pcapng file; stored beside the observation, not in it.
    #[serde(skip)]
    pub capture: Vec<u8>,
}

/// A TCP packet that entered the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PacketRow", into = "PacketRow")]
pub struct Packet {
    /// When it came to the relay.
    pub at_us: u64,
    /// Where it was bound for.
    pub to: End,
    /// The client's port.
    pub client_port: u16,
    /// Its flags.
    pub flags: Flags,
    /// Its sequence number.
    pub seq: u32,
    /// Its acknowledgement number.
    pub ack: u32,
    /// Bytes of data.
    pub length: u32,
    /// What the relay decided.
    pub verdict: Verdict,
    /// When it was to be sent on.
    pub due_us: Option<u64>,
    /// When it was sent on; `None` also for a packet that was still under way at the end.
    pub sent_us: Option<u64>,
}

/// A packet as it is stored: a row.
type PacketRow = (
    u64,
    End,
    u16,
    Flags,
    u32,
    u32,
    u32,
    Verdict,
    Option<u64>,
    Option<u64>,
);

impl From<Packet> for PacketRow {
    fn from(one: Packet) -> Self {
        let Packet {
            at_us,
            to,
            client_port,
            flags,
            seq,
            ack,
            length,
            verdict,
            due_us,
            sent_us,
        } = one;
        (
            at_us,
            to,
            client_port,
            flags,
            seq,
            ack,
            length,
            verdict,
            due_us,
            sent_us,
        )
    }
}

impl From<PacketRow> for Packet {
    fn from(row: PacketRow) -> Self {
        let (at_us, to, client_port, flags, seq, ack, length, verdict, due_us, sent_us) = row;
        Self {
            at_us,
            to,
            client_port,
            flags,
            seq,
            ack,
            length,
            verdict,
            due_us,
            sent_us,
        }
    }
}

/// What the relay decided about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It arrives.
    Passed,
    /// It arrives twice.
    Duplicated,
    /// It is lost, by chance.
    Lost,
    /// It is dropped, by a rule.
    DroppedByRule,
    /// It is dropped, because the bottleneck's queue is full.
    QueueFull,
}

impl Verdict {
    /// How often the packet is sent on.
    pub const fn copies(self) -> usize {
        match self {
            Self::Passed => 1,
            Self::Duplicated => 2,
            Self::Lost | Self::DroppedByRule | Self::QueueFull => 0,
        }
    }
}
