//! A step: an arm under one load of a kind, comparable with the same arm under another load of that kind.

use std::fmt;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Arm, ClientSpec, Expectations, Loop, PerSecond, Span, Start};

/// What is raised from step to step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoadKind {
    /// Connections per second, in an open loop
    Rate,
    /// Connections at a time, in a closed loop
    Concurrency,
    /// Connections at once
    Burst,
}

impl fmt::Display for LoadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Burst => "burst",
        })
    }
}

impl LoadKind {
    /// The word for it in an expanded name.
    const fn key(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Burst => "connections",
        }
    }

    /// A load of this kind: `150/s`, `25 at a time`, `500 at once`.
    pub fn told(self, load: f64) -> String {
        match self {
            Self::Rate => format!("{load}/s"),
            Self::Concurrency => format!("{load} at a time"),
            Self::Burst => format!("{load} at once"),
        }
    }
}

impl Arm {
    /// Which kind of load it has, and how much of it.
    pub fn load(&self) -> (LoadKind, f64) {
        match self.client.pacing() {
            Loop::Open(rate) => (LoadKind::Rate, rate.as_f64()),
            Loop::Closed => (LoadKind::Concurrency, self.client.connections.into()),
            Loop::Flood => (LoadKind::Burst, self.client.connections.into()),
        }
    }

    /// What it has in common with its other steps: everything but the load and what is said or expected of it.
    #[must_use]
    pub fn without_load(&self) -> Self {
        let key = self.load().0.key();
        let name = match self.name.rsplit_once('/') {
            Some((base, suffix)) if suffix.contains('=') => {
                let is_load = |level: &&str| level.split('=').next() == Some(key);
                let rest: Vec<&str> = suffix.split(',').filter(|one| !is_load(one)).collect();
                if rest.is_empty() {
                    base.to_owned()
                } else {
                    format!("{base}/{}", rest.join(","))
                }
            }
            _ => self.name.clone(),
        };
        let client = ClientSpec {
            connections: 1,
            rate: self
                .client
                .rate
                .filter(|_| self.client.concurrency.is_some()),
            concurrency: None,
            workers: None,
            ..self.client.clone()
        };
        Self {
            name,
            title: String::new(),
            why: String::new(),
            client,
            expect: Expectations::default(),
            published: None,
            ..self.clone()
        }
    }

    /// The same arm under another load. One that lasts does so for `duration`.
    ///
    /// # Errors
    /// A client of this lab cannot raise it.
    pub fn with_load(&self, kind: LoadKind, load: u32, duration: Span) -> Result<Self, String> {
        let common = self.without_load();
        let spec = ClientSpec {
            duration: Span::default(),
            ..common.client
        };
        let rate = PerSecond::whole(load);
        let client = match kind {
            LoadKind::Rate => ClientSpec {
                rate: Some(rate),
                connections: u32::try_from(rate.within(duration)).unwrap_or(u32::MAX),
                duration,
                spread: Span::default(),
                ..spec
            },
            LoadKind::Concurrency => ClientSpec {
                concurrency: Some(load),
                // What all of them together start at most is a setting, not the load.
                rate: self
                    .client
                    .rate
                    .filter(|_| self.client.concurrency.is_some()),
                connections: load,
                duration,
                spread: Span::default(),
                jitter: Span::default(),
                start: Start::Together,
                ..spec
            },
            LoadKind::Burst => ClientSpec {
                rate: None,
                connections: load,
                ..spec
            },
        };
        let (base, levels) = match common.name.rsplit_once('/') {
            Some((base, suffix)) if suffix.contains('=') => (base, format!("{suffix},")),
            _ => (common.name.as_str(), String::new()),
        };
        let arm = Self {
            name: format!("{base}/{levels}{}={load}", kind.key()),
            title: self.title.clone(),
            why: self.why.clone(),
            client,
            ..common
        };
        arm.check()?;
        Ok(arm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(name: &str, client: &str) -> Arm {
        let text = format!(
            "title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\n[client]\n{client}\n[expect]\nok = 3"
        );
        Arm {
            name: name.to_owned(),
            ..toml::from_str(&text).unwrap()
        }
    }

    #[test]
    fn steps_of_an_arm_have_everything_but_the_load_in_common() {
        let rate = |n: u32| {
            arm(
                &format!("a/rate={n}"),
                &format!("rate = \"{n}/s\"\nduration = \"1s\"\nconnections = {n}"),
            )
        };
        assert_eq!(rate(50).without_load(), rate(80).without_load());
        assert_eq!(rate(50).without_load().name, "a");
        let cell = arm("m/backlog=1,connections=7", "connections = 7\nworkers = 3");
        assert_eq!(cell.without_load().name, "m/backlog=1");
        assert_eq!(arm("k01-a", "").without_load().name, "k01-a");
    }

    #[test]
    fn a_closed_loop_keeps_its_pace() {
        let paced = arm("x", "concurrency = 5\nrate = \"100/s\"\nduration = \"2s\"");
        let more = paced.with_load(LoadKind::Concurrency, 8, Span::from_ms(2_000));
        let more = more.unwrap();
        assert_eq!(more.client.rate, paced.client.rate);
        assert_eq!(more.client.concurrency, Some(8));
        assert_eq!(more.without_load(), paced.without_load());
    }

    #[test]
    fn an_arm_takes_a_load_of_every_kind() {
        let flood = arm("a", "connections = 200\nworkers = 150\nspread = \"20ms\"");
        let seconds = Span::from_ms(4_000);
        for (kind, name, connections) in [
            (LoadKind::Rate, "a/rate=30", 120),
            (LoadKind::Concurrency, "a/concurrency=30", 30),
            (LoadKind::Burst, "a/connections=30", 30),
        ] {
            let step = flood.with_load(kind, 30, seconds).unwrap();
            assert_eq!((step.name.as_str(), step.load()), (name, (kind, 30.0)));
            assert_eq!(step.client.connections, connections);
            let again = step.with_load(kind, 7, seconds).unwrap();
            assert_eq!(again.without_load(), step.without_load());
        }
        let error = flood
            .with_load(LoadKind::Burst, 30_000, seconds)
            .unwrap_err();
        assert!(
            error.contains("client.workers") || error.contains("ports"),
            "{error}"
        );
    }
}
