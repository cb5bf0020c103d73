//! An arm: one experiment as a file under `arms/` describes it, read into typed settings.
//!
//! [`Arm`] is both the file's form and the resolved form: every key has its default filled in, so what
//! [`Arm`] serialises to is a complete arm file. Pure: nothing here touches the kernel.

mod bound;
mod descriptors;
mod link;
mod load;
mod matrix;
mod overrides;
mod packets;
mod program;
mod protocol;
mod rate;
mod requests;
mod schema;
mod server;
mod serving;
mod sources;
mod span;
mod step;
mod tool;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use bound::{Bound, KernelRange, KernelVersion};
pub use descriptors::{Descriptors, WhenOut};
pub use link::{Family, Impairments, LinkKind, LinkSpec, WireSpec};
pub use load::{ArmError, Catalog, Source};
pub use overrides::Override;
pub use packets::{DropRule, End, Flags, Rate, Share};
pub use program::{Pause, ProgramServer, ProgramSpec};
pub use protocol::{Http, Protocol, SpeaksFirst};
pub use rate::{Loop, PerSecond};
pub use requests::Requests;
pub use schema::arm_file_schema;
pub use server::{AcceptBatch, AcceptPolicy, Answer, Reply, ServerFamily, ServerSpec};
pub use serving::Server;
pub use sources::{Bind, Engine, Sources, port_range};
pub use span::Span;
pub use step::LoadKind;
pub use tool::{Claims, claimed};

use crate::figure::Figure;

/// One experiment with every setting resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Arm {
    /// The path below `arms/` without `.toml`, with the matrix levels appended.
    #[serde(skip)]
    pub name: String,
    /// One line for tables and charts.
    pub title: String,
    /// What the arm teaches, in two or three sentences.
    pub why: String,
    /// The arm of the same run that this one is a change of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Who serves.
    pub server: Server,
    /// The flood.
    #[serde(default)]
    pub client: ClientSpec,
    /// What client and server say.
    #[serde(default)]
    pub protocol: Protocol,
    /// What lies between client and server.
    #[serde(default)]
    pub link: LinkSpec,
    /// Sysctls written inside the experiment's namespaces, by their dotted names.
    #[serde(default)]
    pub sysctl: BTreeMap<String, SysctlValue>,
    /// What every valid trial must meet.
    #[serde(default)]
    pub expect: Expectations,
    /// Figures that somebody published for this experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// The flood client's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ClientSpec {
    /// How many connections are attempted. `rate` and `duration`, or `concurrency`, say it themselves.
    pub connections: u32,
    /// An open loop: so many connections start per second, whatever has become of the earlier ones. With
    /// `concurrency`, what all of a closed loop's connections together start at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<PerSecond>,
    /// For how long connections are started by a rate or a concurrency.
    #[serde(skip_serializing_if = "is_default")]
    pub duration: Span,
    /// A closed loop: so many connections at a time, each followed by the next when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many attempt them, each a thread, or with an event-driven engine a task; `None` in a file means one per
    /// connection, and with a rate as many as may be under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// How the attempts begin.
    pub start: Start,
    /// Start times are spread evenly over this.
    pub spread: Span,
    /// Each start is later by a random time of up to this, decided by the seed.
    #[serde(skip_serializing_if = "is_default")]
    pub jitter: Span,
    /// The limit for connect and, separately, for the answer.
    pub timeout: Span,
    /// What drives the attempts.
    #[serde(skip_serializing_if = "is_default")]
    pub engine: Engine,
    /// The addresses that they are bound to, in turn; absent means that the kernel chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Sources>,
    /// How a bound attempt comes by its port.
    #[serde(skip_serializing_if = "is_default")]
    pub bind: Bind,
    /// How long an answered connection is kept open.
    #[serde(skip_serializing_if = "is_default")]
    pub hold: Span,
    /// A load tool that takes the place of the lab's own clients, and its arguments; `{url}`, `{address}`, `{host}`
    /// and `{port}` in it stand for the server's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The Debian package to install where the tool is missing, or the command that installs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Files in the folder in which the tool is started: name and text, with the same words for the server.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// How long the tool may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Span>,
    /// What the tool's output says of its connections.
    #[serde(skip_serializing_if = "Claims::is_empty")]
    pub claims: Claims,
}

impl Default for ClientSpec {
    fn default() -> Self {
        Self {
            connections: 1,
            rate: None,
            duration: Span::default(),
            concurrency: None,
            workers: None,
            start: Start::Together,
            spread: Span::default(),
            jitter: Span::default(),
            timeout: Span::from_ms(2_000),
            engine: Engine::default(),
            sources: None,
            bind: Bind::default(),
            hold: Span::default(),
            command: Vec::new(),
            package: None,
            files: BTreeMap::new(),
            limit: None,
            claims: Claims::default(),
        }
    }
}

impl ClientSpec {
    /// The number of threads that attempt connections.
    pub fn threads(&self) -> u32 {
        match (self.engine, self.start) {
            (Engine::Async, _) | (Engine::Threads, Start::OneByOne) => 1,
            (Engine::Threads, Start::Together) => {
                self.workers.unwrap_or_else(|| match self.pacing() {
                    Loop::Open(_) => self.at_once().min(MOST_WORKERS),
                    Loop::Flood | Loop::Closed => self.connections,
                })
            }
        }
    }

    /// How many attempts an event-driven client has under way at most.
    pub fn tasks(&self) -> u32 {
        match self.start {
            Start::OneByOne => self.connections,
            Start::Together => self.workers.unwrap_or_else(|| self.at_once()),
        }
    }
}

/// Whether a key that is off by default is off.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How a flood begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// All workers at once, released by a barrier.
    Together,
    /// A single thread, non-blocking connects, in order.
    OneByOne,
}

/// A sysctl's value as it is written: `4096` or `"32768 60999"` in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysctlValue(String);

impl SysctlValue {
    /// The text that is written to the sysctl's file.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<u32> for SysctlValue {
    fn from(number: u32) -> Self {
        Self(number.to_string())
    }
}

impl Serialize for SysctlValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.parse::<i64>() {
            Ok(number) => serializer.serialize_i64(number),
            Err(_) => serializer.serialize_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for SysctlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = SysctlValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a text such as \"32768 60999\"")
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<SysctlValue, E> {
                Ok(SysctlValue(n.to_string()))
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<SysctlValue, E> {
                Ok(SysctlValue(n.to_string()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SysctlValue, E> {
                let text = text.trim();
                if text.is_empty() || text.contains(['\n', '\0']) {
                    return Err(E::invalid_value(de::Unexpected::Str(text), &self));
                }
                Ok(SysctlValue(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What every valid trial of an arm must meet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expectations {
    /// The kernels for which they are meant; elsewhere they are not judged.
    pub kernel: Option<KernelRange>,
    /// A bound for each figure, in the order of the figures' names.
    pub bounds: BTreeMap<Figure, Bound>,
}

impl Serialize for Expectations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        if let Some(kernel) = &self.kernel {
            map.serialize_entry("kernel", &kernel.to_string())?;
        }
        for (figure, bound) in &self.bounds {
            map.serialize_entry(&figure.to_string(), bound)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Expectations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Expectations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of figures and what they must be")
            }

            fn visit_map<A: de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Expectations, A::Error> {
                let mut expectations = Expectations::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "kernel" {
                        let range: String = map.next_value()?;
                        expectations.kernel = Some(range.parse().map_err(de::Error::custom)?);
                    } else {
                        let figure = key.parse().map_err(de::Error::custom)?;
                        expectations.bounds.insert(figure, map.next_value()?);
                    }
                }
                Ok(expectations)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Figures that somebody published for this experiment, shown beside ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Who published them, and when.
    pub source: String,
    /// The published figures.
    pub figures: BTreeMap<Figure, f64>,
}

impl Serialize for Published {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("source", &self.source)?;
        for (figure, &value) in &self.figures {
            map.serialize_entry(&figure.to_string(), &Bound::Exactly(value))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Published {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Published;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with source = \"..\" and the published figures")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Published, A::Error> {
                let (mut source, mut figures) = (None, BTreeMap::new());
                while let Some(key) = map.next_key::<String>()? {
                    if key == "source" {
                        source = Some(map.next_value()?);
                        continue;
                    }
                    let figure = key.parse().map_err(de::Error::custom)?;
                    let Bound::Exactly(value) = map.next_value()? else {
                        return Err(de::Error::custom(format!(
                            "published {key} must be a number"
                        )));
                    };
                    figures.insert(figure, value);
                }
                let source = source.ok_or_else(|| de::Error::missing_field("source"))?;
                Ok(Published { source, figures })
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl Arm {
    /// Says in the title what was changed. What was published belongs to the arm as it was written.
    fn marked_as_changed(mut self, overrides: &[Override]) -> Self {
        let changes: Vec<String> = overrides
            .iter()
            .filter(|one| one.changes_the_experiment())
            .map(ToString::to_string)
            .collect();
        if !changes.is_empty() {
            self.title = format!("{} (changed: {})", self.title, changes.join(" "));
            self.published = None;
        }
        self
    }

    /// What no single key can say: settings that contradict each other.
    fn check(&self) -> Result<(), String> {
        let client = &self.client;
        if self.title.trim().is_empty() || self.why.trim().is_empty() {
            return Err("title and why must say something".into());
        }
        client.check_load()?;
        if client.connections == 0 {
            return Err("client.connections: at least one connection is needed".into());
        }
        match (client.start, client.workers) {
            (_, Some(0)) => return Err("client.workers: zero workers attempt nothing".into()),
            (Start::OneByOne, Some(n)) if n > 1 => {
                return Err(format!(
                    "client.workers = {n}: start = \"one-by-one\" uses a single thread; remove the key"
                ));
            }
            (_, Some(n)) if n > client.connections => {
                return Err(format!(
                    "client.workers = {n} is more than client.connections = {}",
                    client.connections
                ));
            }
            _ => {}
        }
        if client.timeout == Span::default() {
            return Err("client.timeout must be longer than 0s".into());
        }
        client.check_tool()?;
        self.check_sysctls()?;
        self.check_sources()?;
        self.check_ports()?;
        self.check_requests()?;
        if client.threads() > MOST_WORKERS {
            return Err(format!(
                "client.workers = {}: at most {MOST_WORKERS} threads; engine = \"async\" needs few",
                client.threads()
            ));
        }
        if let Some(own) = self.server.own() {
            own.answer.check(&self.protocol)?;
            self.check_family(own)?;
            if own.acceptors > 1 && self.protocol.speaks_first != SpeaksFirst::Server {
                return Err(
                    "server.acceptors answer as soon as they accept: remove protocol.speaks-first"
                        .into(),
                );
            }
        }
        if self.link.kind == LinkKind::Here && self.server.program().is_some() {
            return Err(
                "server.command: a program runs in a namespace only; remove link.kind = \"here\""
                    .into(),
            );
        }
        if self.link.kind == LinkKind::Here && client.is_tool() {
            return Err(
                "client.command: a program runs in a namespace only; remove link.kind = \"here\""
                    .into(),
            );
        }
        self.server.check()
    }

    /// An `AF_UNIX` socket has no link, no source address and no host.
    fn check_family(&self, own: &ServerSpec) -> Result<(), String> {
        let of_tcp = [
            ("link", self.link != LinkSpec::default()),
            ("client.sources", self.client.sources.is_some()),
            ("client.command", self.client.is_tool()),
            ("protocol.kind = \"http\"", self.protocol.http.is_some()),
        ];
        match of_tcp.into_iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) if own.family == Some(ServerFamily::Unix) => Err(format!(
                "server.family = \"unix\" connects inside one machine, by lines: remove {key}"
            )),
            _ => Ok(()),
        }
    }

    /// Only what belongs to a network namespace may be written: anything else would be the host's.
    fn check_sysctls(&self) -> Result<(), String> {
        let named = |c: char| matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.');
        for name in self.sysctl.keys() {
            let whole = name.split('.').all(|part| !part.is_empty()) && name.chars().all(named);
            if !whole || !name.starts_with("net.") {
                return Err(format!(
                    "sysctl.\"{name}\": only names such as \"net.core.somaxconn\" can be set; everything outside of net. belongs to the host"
                ));
            }
        }
        Ok(())
    }
}

/// More threads than this measure the scheduler, not the listener.
const MOST_WORKERS: u32 = 10_000;
