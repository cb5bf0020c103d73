//! A length of time as an arm file writes it: `"80ms"`, `"1.4s"`, `"2s"`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A non-negative duration of at most one day, kept in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span {
    us: u64,
}

/// The longest span an arm may ask for. An experiment that needs more is not a laboratory trial.
const LONGEST_US: u64 = 24 * 60 * 60 * 1_000_000;

impl Span {
    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self { us }
    }

    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self { us: ms * 1_000 }
    }

    /// The span in microseconds.
    pub const fn as_us(self) -> u64 {
        self.us
    }

    /// The span in milliseconds, with its fraction.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a day in microseconds fits a double exactly"
    )]
    pub fn as_ms(self) -> f64 {
        self.us as f64 / 1_000.0
    }

    /// The span as the standard library's type.
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.us)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "a duration such as \"80ms\", \"1.4s\" or \"2m\", at most one day";
        let negative = || format!("\"{text}\" is negative; allowed: {allowed}");
        let too_long = || format!("\"{text}\" is too long; allowed: {allowed}");
        let Ok(parsed) = text.parse::<SignedDuration>() else {
            return Err(match sign_of_an_overflow(text) {
                Some(true) => negative(),
                Some(false) => too_long(),
                None => format!("\"{text}\" is not {allowed}"),
            });
        };
        if parsed.is_negative() {
            return Err(negative());
        }
        match u64::try_from(parsed.as_micros()) {
            Ok(us) if us <= LONGEST_US => Ok(Self { us }),
            _ => Err(too_long()),
        }
    }
}

/// Whether a text that could not be read is a duration all the same, of a number that is too large for any unit: then
/// whether it is negative.
fn sign_of_an_overflow(text: &str) -> Option<bool> {
    let (is_negative, size) = match text.strip_prefix('-') {
        Some(size) => (true, size),
        None => (false, text),
    };
    let is_digit = |c: char| c.is_ascii_digit();
    let unit = size.trim_start_matches(is_digit);
    let one: Result<SignedDuration, _> = format!("1{unit}").parse();
    (size.starts_with(is_digit) && one.is_ok()).then_some(is_negative)
}

impl fmt::Display for Span {
    /// The largest unit that needs at most three decimals; what this prints, `from_str` reads back. `{:#}` is for
    /// sentences: `1.4 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit_us, unit) = match self.us {
            us if us % 1_000 != 0 => (1, "us"),
            us if us > 0 && us < 1_000_000 => (1_000, "ms"),
            _ => (1_000_000, "s"),
        };
        let (whole, rest) = (self.us / unit_us, self.us % unit_us);
        let blank = if f.alternate() { " " } else { "" };
        if rest == 0 {
            write!(f, "{whole}{blank}{unit}")
        } else {
            let decimals = format!("{:03}", rest * 1_000 / unit_us);
            write!(f, "{whole}.{}{blank}{unit}", decimals.trim_end_matches('0'))
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, such as \"80ms\" or \"1.4s\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (text, us) in [
            ("0s", 0),
            ("80ms", 80_000),
            ("1.4s", 1_400_000),
            ("12.5s", 12_500_000),
            ("250us", 250),
            ("2m", 120_000_000),
        ] {
            assert_eq!(text.parse::<Span>(), Ok(Span::from_us(us)), "{text}");
        }
    }

    #[test]
    fn a_sentence_has_a_blank_before_the_unit() {
        for (us, told) in [
            (0, "0 s"),
            (80_000, "80 ms"),
            (1_400_000, "1.4 s"),
            (250, "250 us"),
        ] {
            assert_eq!(format!("{:#}", Span::from_us(us)), told);
        }
    }

    #[test]
    fn refuses_what_is_no_length_of_time() {
        for (text, word) in [
            ("-80ms", "negative"),
            ("80", "not a duration"),
            ("", "not a duration"),
            ("2 fortnights", "not a duration"),
            ("25h", "too long"),
            ("99999999999999999h", "too long"),
            ("99999999999999999999999s", "too long"),
            ("18446744073709551615us", "too long"),
            ("-99999999999999999999999s", "negative"),
            ("1e400s", "not a duration"),
        ] {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(us in 0..=LONGEST_US) {
            let span = Span::from_us(us);
            prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        }
    }
}
