//! How many requests a connection carries: `protocol.requests`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use toml::{Table, Value};

use super::Arm;

/// How many requests a connection carries, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    /// So many; when the server closes before, another connection carries the rest.
    Count(u32),
    /// As many as the duration of a closed loop allows.
    Unlimited,
}

const UNLIMITED: &str = "unlimited";

impl Default for Requests {
    fn default() -> Self {
        Self::ONE
    }
}

impl Requests {
    /// One for each connection.
    pub const ONE: Self = Self::Count(1);

    /// Whether connections are kept for further requests.
    pub fn are_several(self) -> bool {
        self != Self::ONE
    }

    /// At most so many.
    pub const fn most(self) -> u32 {
        match self {
            Self::Count(n) => n,
            Self::Unlimited => u32::MAX,
        }
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Unlimited => write!(f, "\"{UNLIMITED}\""),
        }
    }
}

impl Serialize for Requests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(n) => serializer.serialize_u32(*n),
            Self::Unlimited => serializer.serialize_str(UNLIMITED),
        }
    }
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Requests;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of requests, at least 1, or \"unlimited\"")
            }

            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Requests, E> {
                match u32::try_from(n) {
                    Ok(n) if n > 0 => Ok(Requests::Count(n)),
                    _ => Err(E::invalid_value(de::Unexpected::Signed(n), &self)),
                }
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Requests, E> {
                self.visit_i64(i64::try_from(n).unwrap_or(i64::MAX))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Requests, E> {
                if text == UNLIMITED {
                    Ok(Requests::Unlimited)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A closed loop with keep-alive asks as often as its time allows, unless the file says otherwise.
pub(super) fn resolve(table: &mut Table) {
    let is_closed = table
        .get("client")
        .is_some_and(|client| client.get("concurrency").is_some());
    if let Some(protocol) = table.get_mut("protocol").and_then(Value::as_table_mut)
        && protocol.get("keep-alive") == Some(&Value::Boolean(true))
        && is_closed
    {
        protocol
            .entry("requests")
            .or_insert_with(|| UNLIMITED.into());
    }
}

impl Arm {
    /// What the number of requests asks of client and server.
    pub(super) fn check_requests(&self) -> Result<(), String> {
        let requests = self.protocol.requests;
        if requests == Requests::Unlimited && self.client.concurrency.is_none() {
            return Err(
                "protocol.requests = \"unlimited\": only the duration of a closed loop (client.concurrency) ends it; name a number"
                    .into(),
            );
        }
        if requests.are_several() && self.client.is_tool() {
            return Err(format!(
                "protocol.requests = {requests}: a load tool decides by itself what a connection carries; remove the key"
            ));
        }
        match self.server.own().and_then(|own| own.requests) {
            Some(0) => {
                Err("server.requests = 0: a connection has at least one answer; remove the key to close none".into())
            }
            Some(n) if !requests.are_several() || self.protocol.http.is_none() => Err(format!(
                "server.requests = {n}: it closes a connection that is kept by HTTP; set protocol.kind = \"http\", keep-alive = true and requests above 1"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::Source;

    fn arm(settings: &str) -> Result<Arm, String> {
        let text = format!("title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\n{settings}");
        let arms = Source::new("a", &text).arms(&[]);
        arms.map(|mut arms| arms.remove(0))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_closed_loop_with_keep_alive_asks_as_often_as_it_can() {
        let http = "protocol.kind = \"http\"\nprotocol.keep-alive = true\n";
        let closed = "client.concurrency = 3\nclient.duration = \"1s\"\n";
        for (settings, requests) in [
            (http.to_owned(), Requests::ONE),
            (closed.to_owned(), Requests::ONE),
            (format!("{http}{closed}"), Requests::Unlimited),
            (
                format!("{http}{closed}protocol.requests = 7"),
                Requests::Count(7),
            ),
        ] {
            let arm = arm(&settings).unwrap();
            assert_eq!(arm.protocol.requests, requests, "{settings}");
            let again: Arm = toml::from_str(&toml::to_string(&arm).unwrap()).unwrap();
            assert_eq!(again.protocol, arm.protocol);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let line = "protocol.speaks-first = \"client\"\nprotocol.requests =";
        let http = "protocol.kind = \"http\"\nprotocol.keep-alive = true\n";
        for (settings, part) in [
            (format!("{line} 0"), "at least 1"),
            (format!("{line} \"many\""), "or \"unlimited\""),
            (format!("{line} \"unlimited\""), "client.concurrency"),
            (
                "protocol.requests = 2".to_owned(),
                "speaks-first = \"client\"",
            ),
            (
                "protocol.kind = \"http\"\nprotocol.requests = 2".to_owned(),
                "keep-alive = true",
            ),
            (format!("{line} 2\nserver.requests = 1"), "kept by HTTP"),
            (format!("{http}server.requests = 1"), "requests above 1"),
            (
                format!("{http}protocol.requests = 2\nserver.requests = 0"),
                "server.requests = 0",
            ),
            (
                format!("{http}protocol.requests = 2\nclient.command = [\"wrk\", \"{{url}}\"]"),
                "a load tool",
            ),
        ] {
            let error = arm(&settings).unwrap_err();
            assert!(error.contains(part), "{settings}: {error}");
        }
    }
}
