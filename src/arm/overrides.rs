//! `--set KEY=VALUE[,VALUE..]`: a key of the arm file overridden for one run.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::matrix;

/// One overridden key. Several values make the key a factor of the matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Override {
    key: String,
    values: Vec<String>,
}

impl Override {
    /// The dotted key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it changes the experiment, and not only what is expected of it or said about it.
    pub fn changes_the_experiment(&self) -> bool {
        let section = self.key.split('.').next().unwrap_or_default();
        !matches!(section, "expect" | "published" | "title" | "why")
    }

    /// Whether it says what this very run is expected to give.
    pub fn expects(&self, figure: &str) -> bool {
        self.key.strip_prefix("expect.") == Some(figure)
    }

    /// Writes the override into an arm file's table.
    pub(super) fn apply(&self, table: &mut Table) -> Result<(), String> {
        let levels: Vec<Value> = self.values.iter().map(|text| value(text)).collect();
        let factors = table
            .entry("matrix")
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or("matrix: not a table")?;
        if levels.len() > 1 {
            factors.insert(self.key.clone(), Value::Array(levels));
            return Ok(());
        }
        factors.remove(&self.key);
        for level in levels {
            matrix::set(table, &self.key, level)?;
        }
        Ok(())
    }
}

/// TOML where the text is TOML; else the text itself, so that `80ms` needs no quotes.
fn value(text: &str) -> Value {
    let parsed: Option<Table> = toml::from_str(&format!("value = {text}\n")).ok();
    parsed
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Splits at the commas that stand outside of quotes and brackets.
fn split_values(text: &str) -> Vec<String> {
    let (mut depth, mut quoted) = (0_i32, false);
    let mut values = vec![String::new()];
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 && !quoted {
            values.push(String::new());
        } else if let Some(last) = values.last_mut() {
            last.push(c);
        }
    }
    values
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or_else(|| format!("\"{text}\" is not KEY=VALUE, for example server.backlog=3"))?;
        let values = split_values(values);
        if values.iter().any(|value| value.trim().is_empty()) {
            return Err(format!("\"{text}\" has an empty value"));
        }
        Ok(Self {
            key: key.trim().to_owned(),
            values: values.iter().map(|value| value.trim().to_owned()).collect(),
        })
    }
}

impl TryFrom<String> for Override {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Override> for String {
    fn from(value: Override) -> Self {
        value.to_string()
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.values.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_a_value_do_not_split_it() {
        let plan = r#"server.accept=[{ at = "0s", count = 1 }, { at = "1s", count = 2 }]"#;
        assert_eq!(plan.parse::<Override>().unwrap().values.len(), 1);
        let links = r#"link={ kind = "veth", family = "ipv6" },{ kind = "loopback" }"#;
        assert_eq!(links.parse::<Override>().unwrap().values.len(), 2);
        assert_eq!(
            "server.backlog=1,2,3".parse::<Override>().unwrap().values,
            ["1", "2", "3"]
        );
    }

    #[test]
    fn what_is_no_override_is_refused() {
        for text in [
            "server.backlog",
            "=3",
            "server.backlog=",
            "server.backlog=1,,2",
        ] {
            assert!(text.parse::<Override>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_changes_of_the_experiment_count_as_such() {
        let changes = |text: &str| text.parse::<Override>().unwrap().changes_the_experiment();
        assert!(changes("server.backlog=3"));
        assert!(changes("sysctl.net.core.somaxconn=1"));
        assert!(!changes("expect.ok=3"));
    }
}
