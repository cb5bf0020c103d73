//! The words with which `[link]` speaks of packets: ends, flags, shares, rates, targeted drops.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Where the listener is.
    Server,
    /// Where the flood comes from.
    Client,
}

impl End {
    /// The one across.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Server => Self::Client,
            Self::Client => Self::Server,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Server => "server",
            Self::Client => "client",
        })
    }
}

/// A targeted drop, counted for each connection by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DropRule {
    /// Where the packet is bound for.
    pub to: End,
    /// The packet's flags, all of them and no other.
    pub flags: Flags,
    /// Which of a connection's packets with these flags, from 1; absent means every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u32>,
}

/// TCP flags as `SYN+ACK` names them: the lower five bits of the header's flag byte (RFC 9293).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flags(u8);

impl Flags {
    /// The sender has no more to say.
    pub const FIN: u8 = 1;
    /// The sender opens.
    pub const SYN: u8 = 2;
    /// There is no such connection.
    pub const RST: u8 = 4;
    /// Data that a reader should have at once.
    pub const PSH: u8 = 8;
    /// The acknowledgement number means something.
    pub const ACK: u8 = 16;

    const NAMES: [(u8, &str); 5] = [
        (Self::SYN, "SYN"),
        (Self::FIN, "FIN"),
        (Self::RST, "RST"),
        (Self::PSH, "PSH"),
        (Self::ACK, "ACK"),
    ];

    /// The flags of a header's flag byte; those beyond the five are left out.
    pub const fn of_byte(byte: u8) -> Self {
        Self(byte & 0x1f)
    }

    /// The flag byte.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// Whether all of these are set.
    pub const fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }

    /// Whether exactly these are set.
    pub const fn is(self, flags: u8) -> bool {
        self.0 == flags
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Self::NAMES
            .iter()
            .filter(|(flag, _)| self.has(*flag))
            .map(|(_, name)| *name)
            .collect();
        f.pad(&if names.is_empty() {
            "none".to_owned()
        } else {
            names.join("+")
        })
    }
}

impl FromStr for Flags {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut flags = 0;
        for part in text.split('+') {
            let named = Self::NAMES
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(part.trim()));
            let (flag, _) = named.ok_or_else(|| {
                format!("\"{text}\" are no TCP flags such as \"SYN+ACK\" (SYN, FIN, RST, PSH, ACK)")
            })?;
            flags |= flag;
        }
        Ok(Self(flags))
    }
}

/// A share of all packets, `"10%"`, kept in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Share {
    millionths: u32,
}

impl Share {
    /// The share in millionths.
    pub const fn millionths(self) -> u32 {
        self.millionths
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millionths / 10_000, self.millionths % 10_000);
        if rest == 0 {
            write!(f, "{whole}%")
        } else {
            write!(f, "{whole}.{}%", format!("{rest:04}").trim_end_matches('0'))
        }
    }
}

impl FromStr for Share {
    type Err = String;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most a million"
    )]
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text
            .trim()
            .strip_suffix('%')
            .and_then(|n| n.trim().parse::<f64>().ok());
        match number {
            Some(percent) if (0.0..=100.0).contains(&percent) => Ok(Self {
                millionths: (percent * 10_000.0).round() as u32,
            }),
            _ => Err(format!(
                "\"{text}\" is not a share of the packets, from \"0%\" to \"100%\""
            )),
        }
    }
}

/// A rate, `"10mbit"` per second, kept in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    bits_per_s: u64,
}

impl Rate {
    const UNITS: [(&str, u64); 4] = [
        ("gbit", 1_000_000_000),
        ("mbit", 1_000_000),
        ("kbit", 1_000),
        ("bit", 1),
    ];

    /// How long sending so many bytes takes, in nanoseconds.
    pub const fn ns_for(self, bytes: usize) -> u64 {
        bytes as u64 * 8 * 1_000_000_000 / self.bits_per_s
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, unit): &&(&str, u64)| self.bits_per_s.is_multiple_of(*unit);
        let (name, unit) = Self::UNITS.iter().find(fits).unwrap_or(&("bit", 1));
        write!(f, "{}{name}", self.bits_per_s / unit)
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = Self::UNITS.iter().find_map(|(name, unit)| {
            let number: u64 = text.trim().strip_suffix(name)?.trim().parse().ok()?;
            number.checked_mul(*unit)
        });
        match parsed {
            Some(bits_per_s @ 1_000..=100_000_000_000) => Ok(Self { bits_per_s }),
            _ => Err(format!(
                "\"{text}\" is not a rate such as \"10mbit\" per second, from \"1kbit\" to \"100gbit\""
            )),
        }
    }
}

/// Serialises a type as its text, and reads it back from there.
macro_rules! as_text {
    ($type:ty, $expecting:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }
    };
}

pub(super) use as_text;

as_text!(Flags, "TCP flags such as \"SYN+ACK\"");
as_text!(Share, "a share of the packets such as \"10%\"");
as_text!(Rate, "a rate such as \"10mbit\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_shares_and_rates_are_printed_as_they_are_read() {
        for text in ["SYN", "SYN+ACK", "FIN+ACK", "RST", "FIN+PSH+ACK"] {
            assert_eq!(text.parse::<Flags>().unwrap().to_string(), text);
        }
        for text in ["0%", "10%", "0.5%", "12.25%", "100%", "0.0001%"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        for text in ["1kbit", "1500kbit", "10mbit", "100gbit"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
    }
}
