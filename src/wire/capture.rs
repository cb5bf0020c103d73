//! The packets of a trial as a pcapng file: each where it entered the wire, with the relay's verdict as its
//! comment, and where it left it. Time 0 is the release of the clients.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

use crate::arm::End;
use crate::observation::{Packet, Verdict};

/// Frames in the order of their arrival, up to so many bytes.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    limit: usize,
    is_full: bool,
}

impl Frames {
    /// None yet, and at most `limit` bytes of them.
    pub(super) fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Keeps a frame, if it and all before it fit.
    pub(super) fn keep(&mut self, frame: &[u8]) {
        self.is_full |= self.bytes.len() + frame.len() > self.limit;
        if !self.is_full {
            self.bytes.extend_from_slice(frame);
            self.ends.push(self.bytes.len());
        }
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether none is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn get(&self, n: usize) -> &[u8] {
        let from = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from..self.ends[n]]
    }
}

/// The file of these packets; `frames` holds the first of them.
///
/// # Errors
/// A packet that the format cannot hold.
pub(super) fn pcapng(packets: &[Packet], frames: &Frames) -> io::Result<Vec<u8>> {
    // What happened, in the order of time: (when, at which end, which packet, whether it entered there).
    let mut events: Vec<(u64, End, usize, bool)> = Vec::new();
    for (n, packet) in packets.iter().enumerate().take(frames.len()) {
        events.push((packet.at_us, packet.to.other(), n, true));
        if let Some(sent_us) = packet.sent_us {
            let left = (sent_us, packet.to, n, false);
            events.extend(std::iter::repeat_n(left, packet.verdict.copies()));
        }
    }
    events.sort_by_key(|(at_us, ..)| *at_us);

    let mut file = PcapNgWriter::new(Vec::new()).map_err(io::Error::other)?;
    for end in [End::Client, End::Server] {
        let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0);
        interface.options = vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(format!("{end} side"))),
            // Nanoseconds, whatever the clock's resolution: so the crate writes them.
            InterfaceDescriptionOption::IfTsResol(9),
        ];
        file.write_pcapng_block(interface)
            .map_err(io::Error::other)?;
    }
    for (at_us, end, n, entered) in events {
        let data = frames.get(n);
        let comment = if entered {
            words(packets[n].verdict)
        } else {
            "delivered"
        };
        let block = EnhancedPacketBlock {
            interface_id: u32::from(end == End::Server),
            timestamp: Duration::from_micros(at_us),
            original_len: u32::try_from(data.len()).map_err(io::Error::other)?,
            data: Cow::Borrowed(data),
            options: vec![EnhancedPacketOption::Comment(Cow::Borrowed(comment))],
        };
        file.write_pcapng_block(block).map_err(io::Error::other)?;
    }
    Ok(file.into_inner())
}

const fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Duplicated => "passed, duplicated",
        Verdict::Lost => "lost",
        Verdict::DroppedByRule => "dropped by rule",
        Verdict::QueueFull => "queue full",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    fn packet(at_us: u64, to: End, verdict: Verdict, sent_us: Option<u64>) -> Packet {
        Packet {
            at_us,
            to,
            client_port: 1,
            flags: "SYN".parse().unwrap(),
            seq: 0,
            ack: 0,
            length: 0,
            verdict,
            due_us: sent_us,
            sent_us,
        }
    }

    #[test]
    fn both_sides_stand_in_order_of_time_with_the_verdict() {
        let packets = [
            packet(10, End::Server, Verdict::Passed, Some(35)),
            packet(20, End::Client, Verdict::Lost, None),
            packet(30, End::Server, Verdict::Duplicated, Some(55)),
            packet(40, End::Server, Verdict::Passed, Some(60)),
        ];
        let mut frames = Frames::with_limit(200);
        for (n, _) in packets.iter().enumerate() {
            frames.keep(&[u8::try_from(n).unwrap(); 60]);
        }
        assert_eq!(frames.len(), 3, "the fourth does not fit");
        let bytes = pcapng(&packets, &frames).unwrap();
        let mut reader = PcapNgReader::new(bytes.as_slice()).unwrap();
        let mut seen = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(one) = block.unwrap() {
                let [EnhancedPacketOption::Comment(comment)] = one.options.as_slice() else {
                    panic!("{:?}", one.options);
                };
                let at_us = one.timestamp.as_micros();
                seen.push((at_us, one.interface_id, one.data[0], comment.to_string()));
            }
        }
        let expected = [
            (10, 0, 0, "passed"),
            (20, 1, 1, "lost"),
            (30, 0, 2, "passed, duplicated"),
            (35, 1, 0, "delivered"),
            (55, 1, 2, "delivered"),
            (55, 1, 2, "delivered"),
        ];
        assert_eq!(
            seen,
            expected.map(|(at, side, n, words)| (at, side, n, words.to_owned()))
        );
    }
}
