//! A load tool as an arm describes it: what it is asked to do, and how its output is read.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bind, ClientSpec, Engine, ProgramSpec, Span, Start};

/// What a load tool says of its connections, as patterns on its output. Of each pattern the first group must match
/// a number; where it matches several times, the numbers are added up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Claims {
    /// Requests that it takes for completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<String>,
    /// Requests that it takes for failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Claims {
    /// No pattern at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn patterns(&self) -> [(&'static str, Option<&str>); 2] {
        [
            ("completed", self.completed.as_deref()),
            ("failed", self.failed.as_deref()),
        ]
    }
}

/// The number that a pattern finds in an output; `None` where it does not match, or matches no number.
pub fn claimed(pattern: &str, output: &str) -> Option<f64> {
    let pattern = Regex::new(pattern).ok()?;
    let numbers = pattern.captures_iter(output).filter_map(|found| {
        let digits = found.get(1)?.as_str().replace(',', "");
        digits.parse::<f64>().ok()
    });
    numbers.reduce(|sum, number| sum + number)
}

/// How long a tool may run that names no limit.
const LIMIT: Span = Span::from_ms(60_000);

/// The words in a command and in files that stand for the server: address, port and the two joined.
const PLACEHOLDERS: &str = "{url}, {address}, {host} and {port}";

impl ClientSpec {
    /// Whether a program takes the place of the lab's own clients.
    pub fn is_tool(&self) -> bool {
        !self.command.is_empty()
    }

    /// How long the tool may run.
    pub fn most(&self) -> Span {
        self.limit.unwrap_or(LIMIT)
    }

    /// What contradicts, or cannot be read.
    pub(super) fn check_tool(&self) -> Result<(), String> {
        if !self.is_tool() {
            let of_tools = [
                ("package", self.package.is_some()),
                ("files", !self.files.is_empty()),
                ("limit", self.limit.is_some()),
                ("claims", !self.claims.is_empty()),
            ];
            return match of_tools.into_iter().find(|(_, is_there)| *is_there) {
                Some((key, _)) => Err(format!("client.{key} needs client.command")),
                None => Ok(()),
            };
        }
        let of_clients = [
            ("connections", self.connections != 1),
            ("workers", self.workers.is_some()),
            ("start", self.start != Start::Together),
            ("spread", self.spread != Span::default()),
            ("jitter", self.jitter != Span::default()),
            ("rate", self.rate.is_some()),
            ("concurrency", self.concurrency.is_some()),
            ("duration", self.duration != Span::default()),
            ("engine", self.engine != Engine::default()),
            ("sources", self.sources.is_some()),
            ("bind", self.bind != Bind::default()),
            ("hold", self.hold != Span::default()),
        ];
        if let Some((key, _)) = of_clients.into_iter().find(|(_, is_there)| *is_there) {
            return Err(format!(
                "client.{key}: a load tool opens its own connections; remove the key, and say it in client.command"
            ));
        }
        if self.most() == Span::default() {
            return Err("client.limit must be longer than 0s".into());
        }
        for (claim, pattern) in self.claims.patterns() {
            let Some(pattern) = pattern else { continue };
            let regex = Regex::new(pattern).map_err(|error| {
                let error = error.to_string();
                let last = error.lines().last().unwrap_or_default().to_owned();
                format!("client.claims.{claim}: {last}")
            })?;
            if regex.captures_len() < 2 {
                return Err(format!(
                    "client.claims.{claim} = \"{pattern}\": a group must match the number, such as (\\d+)"
                ));
            }
        }
        let reaches = |text: &String| {
            ["{url}", "{address}", "{port}"]
                .iter()
                .any(|word| text.contains(word))
        };
        if !self.command.iter().chain(self.files.values()).any(reaches) {
            return Err(format!(
                "client.command: where is the server? {PLACEHOLDERS} stand for it"
            ));
        }
        self.aimed_at(SocketAddr::from(([127, 0, 0, 1], 1)))
            .check("client")
    }

    /// The tool, with the server's place filled in.
    pub fn aimed_at(&self, server: SocketAddr) -> ProgramSpec {
        let host = match server {
            SocketAddr::V4(v4) => v4.ip().to_string(),
            SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        };
        let fill = |text: &String| {
            text.replace("{url}", &format!("http://{server}/"))
                .replace("{address}", &server.to_string())
                .replace("{host}", &host)
                .replace("{port}", &server.port().to_string())
        };
        let files = self.files.iter();
        ProgramSpec {
            command: self.command.iter().map(fill).collect(),
            package: self.package.clone(),
            directory: None,
            files: files
                .map(|(name, text)| (name.clone(), fill(text)))
                .collect(),
            environment: BTreeMap::new(),
            nofile: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_the_sum_of_what_its_pattern_matches() {
        let wrk = "  Socket errors: connect 0, read 12, write 0, timeout 1,034\n";
        for (pattern, output, number) in [
            (
                r"(?:connect|read|write|timeout) ([\d,]+)",
                wrk,
                Some(1046.0),
            ),
            (r"timeout ([\d,]+)", wrk, Some(1034.0)),
            (
                r"Complete requests: +(\d+)",
                "Complete requests:      200\n",
                Some(200.0),
            ),
            (r"Complete requests: +(\d+)", "nothing of it", None),
            (r"rate (\S+)", "rate unknown", None),
        ] {
            assert_eq!(claimed(pattern, output), number, "{pattern}");
        }
    }

    #[test]
    fn the_server_is_filled_in() {
        let spec = ClientSpec {
            command: vec!["ab".into(), "{url}".into(), "{host}:{port}".into()],
            files: [("proxy.conf".into(), "server {address};".into())].into(),
            ..ClientSpec::default()
        };
        let tool = spec.aimed_at("[::1]:80".parse().unwrap());
        assert_eq!(tool.command, ["ab", "http://[::1]:80/", "[::1]:80"]);
        assert_eq!(tool.files["proxy.conf"], "server [::1]:80;");
    }

    #[test]
    fn what_contradicts_is_refused() {
        let arm = |client: &str| {
            let text =
                format!("title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\n[client]\n{client}");
            super::super::Source::new("t", &text)
                .arms(&[])
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        assert_eq!(arm("command = [\"ab\", \"{url}\"]"), Ok(()));
        for (client, part) in [
            ("limit = \"3s\"", "client.limit needs client.command"),
            ("command = [\"ab\"]", "where is the server?"),
            (
                "command = [\"ab\", \"{url}\"]\nconnections = 9",
                "opens its own connections",
            ),
            (
                "command = [\"ab\", \"{url}\"]\nclaims.failed = \"x(\"",
                "unclosed group",
            ),
            (
                "command = [\"ab\", \"{url}\"]\nclaims.failed = \"x\"",
                "a group must match",
            ),
            (
                "command = [\"ab\", \"{url}\"]\nclaims.lost = \"(x)\"",
                "lost",
            ),
        ] {
            let error = arm(client).unwrap_err();
            assert!(error.contains(part), "{client}: {error}");
        }
    }
}
