//! The headers of a frame: what the wire has to know of a packet.

use crate::arm::{End, Flags};

/// A TCP segment's header fields, and how much data it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// The sender's port.
    pub(super) source_port: u16,
    /// The receiver's port.
    pub(super) destination_port: u16,
    /// The sequence number.
    pub(super) seq: u32,
    /// The acknowledgement number.
    pub(super) ack: u32,
    /// The flags.
    pub(super) flags: Flags,
    /// Bytes of data.
    pub(super) length: u32,
}

impl Segment {
    /// The TCP segment in an Ethernet frame; `None` for everything else, and for fragments.
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        const TCP: u8 = 6;
        let packet = frame.get(14..)?;
        let (payload, protocol) = match u16_at(frame, 12)? {
            0x0800 => {
                let total = usize::from(u16_at(packet, 2)?);
                let fragment = u16_at(packet, 6)? & 0x3fff;
                let header = usize::from(packet.first()? & 0x0f) * 4;
                if fragment != 0 {
                    return None;
                }
                (packet.get(header..total)?, *packet.get(9)?)
            }
            0x86dd => {
                let length = usize::from(u16_at(packet, 4)?);
                (packet.get(40..40 + length)?, *packet.get(6)?)
            }
            _ => return None,
        };
        if protocol != TCP {
            return None;
        }
        let header = usize::from(payload.get(12)? >> 4) * 4;
        let data = payload.get(header..)?;
        Some(Self {
            source_port: u16_at(payload, 0)?,
            destination_port: u16_at(payload, 2)?,
            seq: u32_at(payload, 4)?,
            ack: u32_at(payload, 8)?,
            flags: Flags::of_byte(*payload.get(13)?),
            length: u32::try_from(data.len()).ok()?,
        })
    }

    /// The client's port, in a segment on its way to this end.
    pub(super) fn client_port(&self, to: End) -> u16 {
        match to {
            End::Server => self.source_port,
            End::Client => self.destination_port,
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| u16::from_be_bytes(*chunk))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| u32::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN+ACK from port 80 to 40000 with 3 bytes of data, laid out by RFC 791, RFC 8200 and RFC 9293.
    fn frame(version: u8) -> Vec<u8> {
        let mut tcp = vec![
            0, 80, 0x9c, 0x40, 0, 0, 0, 7, 0, 0, 0, 9, 0x60, 0x12, 0, 0, 0, 0, 0, 0,
        ];
        tcp.extend([2, 4, 5, 0xb4]);
        tcp.extend(*b"OK\n");
        let length = u8::try_from(tcp.len()).unwrap();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if version == 4 {
            frame.extend([0x08, 0, 0x45, 0, 0, 20 + length, 0, 0, 0x40, 0, 64, 6, 0, 0]);
            frame.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, length, 6, 64]);
            frame.extend([0; 32]);
        }
        frame.extend(tcp);
        frame
    }

    #[test]
    fn both_families_are_read_and_padding_is_left_out() {
        for version in [4, 6] {
            let mut frame = frame(version);
            frame.extend([0; 6]);
            let segment = Segment::parse(&frame).unwrap();
            let expected = Segment {
                source_port: 80,
                destination_port: 40_000,
                seq: 7,
                ack: 9,
                flags: "SYN+ACK".parse().unwrap(),
                length: 3,
            };
            assert_eq!(segment, expected);
            assert_eq!(segment.client_port(End::Client), 40_000);
        }
    }

    #[test]
    fn a_frame_cut_off_anywhere_is_no_segment() {
        for version in [4, 6] {
            let frame = frame(version);
            for length in 0..frame.len() {
                assert_eq!(
                    Segment::parse(&frame[..length]),
                    None,
                    "{version}: {length} bytes"
                );
            }
        }
    }

    #[test]
    fn fragments_and_other_protocols_are_no_segments() {
        let mut fragment = frame(4);
        fragment[14 + 6] = 0x20;
        assert_eq!(Segment::parse(&fragment), None);
        let mut udp = frame(4);
        udp[14 + 9] = 17;
        assert_eq!(Segment::parse(&udp), None);
        let mut arp = frame(4);
        arp[13] = 6;
        assert_eq!(Segment::parse(&arp), None);
    }
}
