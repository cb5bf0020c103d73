//! The `[protocol]` table: what a connection is for, and who speaks first on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Requests;

/// What client and server say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "ProtocolTable", into = "ProtocolTable")]
pub struct Protocol {
    /// Who speaks first.
    pub speaks_first: SpeaksFirst,
    /// What is asked where the conversation is HTTP; `None` is the lab's own line of a few bytes.
    pub http: Option<Http>,
    /// How many requests a connection carries.
    pub requests: Requests,
}

/// Who sends the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpeaksFirst {
    /// The server sends its answer on accept.
    #[default]
    Server,
    /// The client sends a line, the server answers it.
    Client,
    /// Neither: a client is well when it is connected. It looks at the server's side when its timeout has passed,
    /// and holds the connection until the trial has been read.
    Nobody,
}

/// GET requests by HTTP/1.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// What is asked for.
    pub path: String,
    /// The status of a right answer.
    pub status: u16,
    /// Whether the client asks for no close, and closes the connection itself when the last answer is whole; else it
    /// asks for a close, and reads to the end.
    pub keep_alive: bool,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            status: 200,
            keep_alive: false,
        }
    }
}

/// The table as a file writes it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct ProtocolTable {
    /// What is spoken.
    #[serde(skip_serializing_if = "ProtocolKind::is_line")]
    kind: ProtocolKind,
    /// Who speaks first; with http it is the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    speaks_first: Option<SpeaksFirst>,
    /// What is asked for; http only.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The status of a right answer; http only.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// Whether the client asks for no close, and closes the connection itself; http only.
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_alive: Option<bool>,
    /// How many requests a connection carries, one after the other; 1, or with keep-alive in a closed loop unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Requests>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ProtocolKind {
    /// A line of a few bytes.
    #[default]
    Line,
    /// A GET request.
    Http,
}

impl ProtocolKind {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands out a reference"
    )]
    fn is_line(&self) -> bool {
        *self == Self::Line
    }
}

/// What a path may hold, beside letters and digits (RFC 3986).
const IN_A_PATH: &str = "-._~!$&'()*+,;=:@%/?";
/// A request fits the empty send buffer of a fresh connection whole.
const LONGEST_PATH: usize = 1_000;

impl TryFrom<ProtocolTable> for Protocol {
    type Error = String;

    fn try_from(table: ProtocolTable) -> Result<Self, String> {
        let of_http = [
            ("path", table.path.is_some()),
            ("status", table.status.is_some()),
            ("keep-alive", table.keep_alive.is_some()),
        ];
        let requests = table.requests.unwrap_or_default();
        if table.kind == ProtocolKind::Line {
            if let Some((key, _)) = of_http.into_iter().find(|(_, is_there)| *is_there) {
                return Err(format!("{key} needs kind = \"http\""));
            }
            let speaks_first = table.speaks_first.unwrap_or_default();
            if requests.are_several() && speaks_first != SpeaksFirst::Client {
                return Err(format!(
                    "requests = {requests}: who asks more than once speaks first; set speaks-first = \"client\", or kind = \"http\" and keep-alive = true"
                ));
            }
            return Ok(Self {
                speaks_first,
                http: None,
                requests,
            });
        }
        if let Some(SpeaksFirst::Server | SpeaksFirst::Nobody) = table.speaks_first {
            return Err("with kind = \"http\" the client speaks first; remove speaks-first".into());
        }
        let usual = Http::default();
        let http = Http {
            path: table.path.unwrap_or(usual.path),
            status: table.status.unwrap_or(usual.status),
            keep_alive: table.keep_alive.unwrap_or(usual.keep_alive),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || IN_A_PATH.contains(c);
        if !http.path.starts_with('/') || !http.path.chars().all(fits) {
            return Err(format!(
                "path = \"{}\": a path such as \"/health?full=1\", with anything unusual written as %XX",
                http.path
            ));
        }
        if http.path.len() > LONGEST_PATH {
            return Err(format!("path: at most {LONGEST_PATH} bytes"));
        }
        if requests.are_several() && !http.keep_alive {
            return Err(format!(
                "requests = {requests}: the connection must be kept for them; set keep-alive = true"
            ));
        }
        if !(200..=599).contains(&http.status) {
            return Err(format!("status = {}: from 200 to 599", http.status));
        }
        Ok(Self {
            speaks_first: SpeaksFirst::Client,
            http: Some(http),
            requests,
        })
    }
}

impl From<Protocol> for ProtocolTable {
    fn from(protocol: Protocol) -> Self {
        let several = protocol.requests.are_several();
        let requests = several.then_some(protocol.requests);
        match protocol.http {
            None => Self {
                speaks_first: Some(protocol.speaks_first),
                requests,
                ..Self::default()
            },
            Some(http) => Self {
                kind: ProtocolKind::Http,
                speaks_first: None,
                path: Some(http.path),
                status: Some(http.status),
                keep_alive: Some(http.keep_alive),
                requests,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Protocol, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn http_has_usual_settings_and_the_client_speaks_first() {
        let protocol = read("kind = \"http\"").unwrap();
        assert_eq!(protocol.speaks_first, SpeaksFirst::Client);
        assert_eq!(protocol.http, Some(Http::default()));
        let again = toml::to_string(&protocol).unwrap();
        assert_eq!(read(&again).unwrap(), protocol);
    }

    #[test]
    fn what_contradicts_is_refused() {
        for (text, part) in [
            ("path = \"/\"", "path needs kind"),
            (
                "kind = \"http\"\nspeaks-first = \"server\"",
                "the client speaks first",
            ),
            ("kind = \"http\"\npath = \"health\"", "a path such as"),
            ("kind = \"http\"\npath = \"/a b\"", "a path such as"),
            ("kind = \"http\"\nstatus = 99", "from 200 to 599"),
            ("kind = \"https\"", "unknown variant"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
