//! Load over time: `rate`, `duration` and `concurrency` of the `[client]` table, and their lists of steps.

use std::fmt;
use std::str::FromStr;

use toml::{Table, Value};

use super::{ClientSpec, Span, Start};

/// Connections per second, `"150/s"`, kept in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerSecond {
    thousandths: u64,
}

/// More than this no client of this lab raises.
const MOST_PER_SECOND: u64 = 1_000_000;

impl PerSecond {
    /// So many whole connections per second.
    pub const fn whole(n: u32) -> Self {
        Self {
            thousandths: n as u64 * 1_000,
        }
    }

    /// Connections per second, with their fraction.
    #[expect(
        clippy::cast_precision_loss,
        reason = "at most a million per second, in thousandths"
    )]
    pub fn as_f64(self) -> f64 {
        self.thousandths as f64 / 1_000.0
    }

    /// When the `n`-th connection is due, counted from 0.
    pub const fn due_us(self, n: u64) -> u64 {
        n.saturating_mul(1_000_000_000) / self.thousandths
    }

    /// How many connections are due before `span` has passed; the first is due at 0.
    pub const fn within(self, span: Span) -> u64 {
        span.as_us()
            .saturating_mul(self.thousandths)
            .div_ceil(1_000_000_000)
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.as_f64())
    }
}

impl FromStr for PerSecond {
    type Err = String;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "at most a million per second, in thousandths"
    )]
    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix("/s");
        let number = number.and_then(|n| n.trim().parse::<f64>().ok());
        match number.map(|n| (n * 1_000.0).round()) {
            Some(n) if (1.0..=(MOST_PER_SECOND * 1_000) as f64).contains(&n) => Ok(Self {
                thousandths: n as u64,
            }),
            _ => Err(format!(
                "\"{text}\" is no number of connections per second, such as \"150/s\", from \"0.001/s\" to \"{MOST_PER_SECOND}/s\""
            )),
        }
    }
}

super::packets::as_text!(PerSecond, "connections per second such as \"150/s\"");

/// How a client decides when to start its next connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// All are told in advance, and some may have to wait for a free worker.
    Flood,
    /// At its time, whatever has become of the earlier ones.
    Open(PerSecond),
    /// When an earlier one has ended, for so long: not more than so many at a time.
    Closed,
}

impl ClientSpec {
    /// How it decides when to start the next connection.
    pub const fn pacing(&self) -> Loop {
        match (self.rate, self.concurrency) {
            (_, Some(_)) => Loop::Closed,
            (Some(rate), None) => Loop::Open(rate),
            (None, None) => Loop::Flood,
        }
    }

    /// How many connections are attempted; `None` where that is decided by how long each takes.
    pub const fn attempts(&self) -> Option<u32> {
        match self.pacing() {
            Loop::Closed => None,
            Loop::Flood | Loop::Open(_) => Some(self.connections),
        }
    }

    /// How many connections may be under way at once. Each may take the timeout to connect and the timeout for
    /// the answer.
    pub fn at_once(&self) -> u32 {
        const SPARE: u64 = 16;
        let rate = match (self.pacing(), self.start, self.workers) {
            (Loop::Open(rate), ..) => rate,
            (Loop::Flood, Start::Together, Some(workers)) => return workers,
            (Loop::Flood | Loop::Closed, ..) => return self.connections,
        };
        let longest_us = self.timeout.as_us().saturating_mul(2) + self.jitter.as_us();
        let due = rate.within(Span::from_us(longest_us));
        let at_once = u32::try_from(due.saturating_add(SPARE)).unwrap_or(u32::MAX);
        at_once.min(self.connections)
    }

    /// Keys of load over time that contradict each other.
    pub(super) fn check_load(&self) -> Result<(), String> {
        let paced = self.rate.is_some() || self.concurrency.is_some();
        if paced && self.duration == Span::default() {
            return Err(
                "client.duration: a rate or a concurrency needs a duration, such as \"4s\"".into(),
            );
        }
        if !paced && self.duration != Span::default() {
            return Err("client.duration: it belongs to client.rate or client.concurrency".into());
        }
        if paced && self.spread != Span::default() {
            return Err("client.spread: with a rate or a concurrency, that decides when connections start; remove one of them".into());
        }
        if let Some(concurrency) = self.concurrency {
            if concurrency == 0 {
                return Err("client.concurrency: at least one connection is needed".into());
            }
            if self.start == Start::OneByOne {
                return Err("client.concurrency: each of its connections has a thread, which start = \"one-by-one\" has not".into());
            }
            if self.workers.is_some() || self.jitter != Span::default() {
                return Err(
                    "client.concurrency: it goes neither with workers nor with jitter".into(),
                );
            }
        }
        let decided = match self.pacing() {
            Loop::Flood => return Ok(()),
            Loop::Open(rate) => rate.within(self.duration),
            Loop::Closed => self.concurrency.unwrap_or_default().into(),
        };
        if decided != u64::from(self.connections) {
            return Err(format!(
                "client.connections = {}: the rate, the duration and the concurrency give {decided}; remove the key",
                self.connections
            ));
        }
        Ok(())
    }
}

/// Keys whose list of values is a list of steps: each is an arm of its own, and so has a fresh namespace.
const STEPS: [&str; 2] = ["rate", "concurrency"];

/// Makes factors of the matrix of lists of steps.
pub(super) fn steps(table: &mut Table) -> Result<(), String> {
    let Some(client) = table.get_mut("client").and_then(Value::as_table_mut) else {
        return Ok(());
    };
    let mut factors = Vec::new();
    for key in STEPS {
        if client.get(key).is_some_and(Value::is_array) {
            factors.extend(client.remove(key).map(|levels| (key, levels)));
        }
    }
    let matrix = table
        .entry("matrix")
        .or_insert_with(|| Value::Table(Table::new()));
    let matrix = matrix.as_table_mut().ok_or("matrix: not a table")?;
    for (key, levels) in factors {
        if matrix.insert(format!("client.{key}"), levels).is_some() {
            return Err(format!(
                "client.{key} is a list and stands in [matrix] too: name its levels in one place"
            ));
        }
    }
    Ok(())
}

/// Fills in what follows from the keys of a single step: `step` is its duration, and rate and duration, or the
/// concurrency, say how many connections there are.
pub(super) fn resolve(table: &mut Table) -> Result<(), String> {
    let Some(client) = table.get_mut("client").and_then(Value::as_table_mut) else {
        return Ok(());
    };
    if let Some(step) = client.remove("step")
        && client.insert("duration".into(), step).is_some()
    {
        return Err("client.step is another word for client.duration; remove one of them".into());
    }
    let text = |key: &str| client.get(key).and_then(Value::as_str);
    let rate: Option<PerSecond> = text("rate").and_then(|text| text.parse().ok());
    let duration: Option<Span> = text("duration").and_then(|text| text.parse().ok());
    let due = rate.zip(duration).and_then(|(rate, duration)| {
        let due = i64::try_from(rate.within(duration)).ok()?;
        Some(Value::Integer(due))
    });
    let connections = client.get("concurrency").cloned().or(due);
    if let Some(connections) = connections {
        client.entry("connections").or_insert(connections);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Source;

    fn arms(client: &str) -> Vec<crate::arm::Arm> {
        let text = format!("title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\n[client]\n{client}\n");
        Source::new("a", &text)
            .arms(&[])
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn rates_are_printed_as_they_are_read() {
        for text in ["150/s", "0.5/s", "12.25/s", "1000000/s"] {
            assert_eq!(text.parse::<PerSecond>().unwrap().to_string(), text);
        }
        for text in ["150", "0/s", "-1/s", "nan/s", "1000001/s", "150/m", "/s"] {
            assert!(text.parse::<PerSecond>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_says_when_each_is_due_and_how_many_there_are() {
        let rate = PerSecond::whole(150);
        assert_eq!([0, 1, 150].map(|n| rate.due_us(n)), [0, 6_666, 1_000_000]);
        for (text, ms, n) in [
            ("150/s", 4_000, 600),
            ("0.5/s", 1_000, 1),
            ("0.5/s", 2_001, 2),
        ] {
            let rate: PerSecond = text.parse().unwrap();
            assert_eq!(rate.within(Span::from_ms(ms)), n, "{text} for {ms} ms");
        }
    }

    #[test]
    fn steps_are_arms_of_their_own_and_know_their_connections() {
        let steps = arms("rate = [\"50/s\", \"80/s\"]\nstep = \"4s\"");
        let told: Vec<_> = steps
            .iter()
            .map(|arm| (arm.name.as_str(), arm.client.connections))
            .collect();
        assert_eq!(told, [("a/rate=50", 200), ("a/rate=80", 320)]);
        assert_eq!(steps[0].client.duration, Span::from_ms(4_000));
        let steps = arms("concurrency = [10, 25]\nduration = \"1s\"");
        let told: Vec<_> = steps
            .iter()
            .map(|arm| {
                (
                    arm.name.as_str(),
                    arm.client.threads(),
                    arm.client.attempts(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("a/concurrency=10", 10, None),
                ("a/concurrency=25", 25, None)
            ]
        );
    }

    #[test]
    fn an_open_loop_has_a_thread_for_each_that_may_be_under_way() {
        let threads = |client: &str| arms(client)[0].client.threads();
        assert_eq!(threads("rate = \"100/s\"\nduration = \"10s\""), 416);
        assert_eq!(threads("rate = \"100/s\"\nduration = \"1s\""), 100);
        assert_eq!(
            threads("rate = \"100/s\"\nduration = \"1s\"\nworkers = 3"),
            3
        );
        assert_eq!(
            threads("rate = \"100/s\"\nduration = \"1s\"\nstart = \"one-by-one\""),
            1
        );
    }

    #[test]
    fn keys_that_contradict_each_other_are_refused() {
        for (client, word) in [
            ("rate = \"50/s\"", "client.duration"),
            ("duration = \"1s\"", "client.duration"),
            ("concurrency = 3", "client.duration"),
            ("concurrency = 0\nduration = \"1s\"", "client.concurrency"),
            (
                "concurrency = 3\nduration = \"1s\"\nstart = \"one-by-one\"",
                "client.concurrency",
            ),
            (
                "concurrency = 3\nduration = \"1s\"\nworkers = 2",
                "client.concurrency",
            ),
            (
                "rate = \"50/s\"\nduration = \"1s\"\nconnections = 7",
                "client.connections",
            ),
            (
                "rate = \"50/s\"\nduration = \"1s\"\nspread = \"1s\"",
                "client.spread",
            ),
            (
                "rate = \"50/s\"\nduration = \"1s\"\nstep = \"1s\"",
                "client.step",
            ),
            ("rate = \"50\"\nduration = \"1s\"", "client.rate"),
        ] {
            let text =
                format!("title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\n[client]\n{client}\n");
            let error = Source::new("a", &text).arms(&[]).unwrap_err().to_string();
            assert!(error.contains(word), "{client}: {error}");
        }
    }
}
