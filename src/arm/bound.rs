//! The small grammar of `[expect]`: a number, `"a..=b"`, `">n"`, `"<n"`, and kernel ranges.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What a figure must satisfy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Exactly this value.
    Exactly(f64),
    /// Between the two, both included.
    Within(f64, f64),
    /// More than this.
    Above(f64),
    /// Less than this.
    Below(f64),
}

impl Bound {
    /// Whether `value` satisfies the bound.
    #[expect(
        clippy::float_cmp,
        reason = "counts are whole numbers and compare exactly"
    )]
    pub fn admits(self, value: f64) -> bool {
        match self {
            Self::Exactly(n) => value == n,
            Self::Within(a, b) => a <= value && value <= b,
            Self::Above(n) => value > n,
            Self::Below(n) => value < n,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(n) => write!(f, "{n}"),
            Self::Within(a, b) => write!(f, "{a}..={b}"),
            Self::Above(n) => write!(f, ">{n}"),
            Self::Below(n) => write!(f, "<{n}"),
        }
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a number, \"a..=b\", \">n\" or \"<n\"");
        let number = |part: &str| {
            part.trim()
                .parse::<f64>()
                .ok()
                .filter(|n| n.is_finite())
                .ok_or_else(wrong)
        };
        if let Some((a, b)) = text.split_once("..=") {
            let (a, b) = (number(a)?, number(b)?);
            if a > b {
                return Err(format!(
                    "\"{text}\" holds for no number: {a} is more than {b}"
                ));
            }
            return Ok(Self::Within(a, b));
        }
        match text.as_bytes().first() {
            Some(b'>') => Ok(Self::Above(number(&text[1..])?)),
            Some(b'<') => Ok(Self::Below(number(&text[1..])?)),
            _ => Ok(Self::Exactly(number(text)?)),
        }
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "checked to be a whole number"
            )]
            Self::Exactly(n) if n.fract() == 0.0 && n.abs() < 1e15 => {
                serializer.serialize_i64(n as i64)
            }
            Self::Exactly(n) => serializer.serialize_f64(n),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        #[expect(
            clippy::cast_precision_loss,
            reason = "expected counts are far below 2^53"
        )]
        impl de::Visitor<'_> for Visitor {
            type Value = Bound;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"a..=b\", \">n\" or \"<n\"")
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Bound, E> {
                Ok(Bound::Exactly(n as f64))
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Bound, E> {
                Ok(Bound::Exactly(n as f64))
            }

            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Bound, E> {
                if n.is_finite() {
                    Ok(Bound::Exactly(n))
                } else {
                    Err(E::invalid_value(de::Unexpected::Float(n), &self))
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bound, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A kernel release as two numbers, `6.18`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    major: u32,
    minor: u32,
}

impl FromStr for KernelVersion {
    type Err = String;

    /// Reads `6.5`, `6.18.44` or `6.1.0-13-amd64`: everything after the second number is left out.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next().and_then(|n| n.parse().ok());
        match (next(), next()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err(format!(
                "\"{text}\" is not a kernel version such as \"6.5\""
            )),
        }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The kernels for which an arm's expectations are meant: `">=6.5"` or `"<6.5"`, or both joined by a comma.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRange {
    from: Option<KernelVersion>,
    below: Option<KernelVersion>,
}

impl KernelRange {
    /// Whether a kernel of this release (as `uname -r` prints it) lies in the range;
    /// a release that cannot be read does not.
    pub fn admits(&self, release: &str) -> bool {
        release.parse::<KernelVersion>().is_ok_and(|version| {
            self.from.is_none_or(|from| version >= from)
                && self.below.is_none_or(|below| version < below)
        })
    }
}

impl fmt::Display for KernelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from, self.below) {
            (Some(from), Some(below)) => write!(f, ">={from},<{below}"),
            (Some(from), None) => write!(f, ">={from}"),
            (None, Some(below)) => write!(f, "<{below}"),
            (None, None) => Ok(()),
        }
    }
}

impl FromStr for KernelRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut from, mut below) = (None, None);
        for part in text.split(',').map(str::trim) {
            if let Some(version) = part.strip_prefix(">=") {
                from = Some(version.trim().parse()?);
            } else if let Some(version) = part.strip_prefix('<') {
                below = Some(version.trim().parse()?);
            } else {
                return Err(format!(
                    "\"{text}\" is not a kernel range such as \">=6.5\" or \"<6.5\""
                ));
            }
        }
        Ok(Self { from, below })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar_of_bounds() {
        for (text, inside, outside) in [
            ("5", 5.0, 6.0),
            ("25..=45", 45.0, 46.0),
            ("25..=45", 25.0, 24.0),
            (">200", 201.0, 200.0),
            ("<3", 2.0, 3.0),
        ] {
            let bound: Bound = text.parse().unwrap();
            assert!(bound.admits(inside), "{text} admits {inside}");
            assert!(!bound.admits(outside), "{text} refuses {outside}");
            assert_eq!(bound.to_string(), text);
        }
        for text in ["", "many", "5..=", "..=5", ">", "nan", "9..=3", "5..7"] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }

    #[test]
    fn kernel_ranges() {
        let range: KernelRange = ">=6.5".parse().unwrap();
        assert!(range.admits("6.18.44-fc"));
        assert!(range.admits("6.5"));
        assert!(range.admits("7.2.13"));
        assert!(!range.admits("6.1.0-13-amd64"));
        assert!(!range.admits("unreadable"));
        let range: KernelRange = ">=4.10, <6.5".parse().unwrap();
        assert!(range.admits("5.15.0"));
        assert!(!range.admits("6.5.1"));
        assert!("6.5".parse::<KernelRange>().is_err());
    }
}
