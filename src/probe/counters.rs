//! `/proc/net/netstat` and `/proc/net/snmp`: pairs of lines, the names and the values of a section.
//!
//! Names are never looked up by position: their number and order differ from kernel to kernel.

use std::collections::BTreeMap;
use std::path::Path;

use super::{ProbeError, read};
use crate::observation::Counters;

/// What a counter file held, and what was wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// Every counter by `Section.Name`; `None` where its value could not be read.
    pub counters: Counters,
    /// What did not fit, a sentence each.
    pub problems: Vec<String>,
}

/// Pairs each section's line of names with its line of values.
pub fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let mut headers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let Some((section, rest)) = line.split_once(':') else {
            if !line.trim().is_empty() {
                parsed
                    .problems
                    .push(format!("a line belongs to no section: \"{}\"", line.trim()));
            }
            continue;
        };
        let section = section.trim();
        let fields = rest.split_whitespace().collect();
        match headers.remove(section) {
            None => {
                headers.insert(section, fields);
            }
            Some(names) => parsed.pair(section, &names, &fields),
        }
    }
    for (section, names) in headers {
        parsed.problems.push(format!(
            "section {section} has {} names and no line of values",
            names.len()
        ));
    }
    parsed
}

impl Parsed {
    fn pair(&mut self, section: &str, names: &[&str], values: &[&str]) {
        if names.len() != values.len() {
            self.problems.push(format!(
                "section {section} has {} names and {} values",
                names.len(),
                values.len()
            ));
        }
        for (n, name) in names.iter().enumerate() {
            let value = values.get(n).and_then(|text| {
                let value = in_range(text);
                if value.is_none() {
                    self.problems
                        .push(format!("{section}.{name}: \"{text}\" is not a number"));
                }
                value
            });
            self.counters.insert(format!("{section}.{name}"), value);
        }
    }

    /// Whether any counter of this section was read.
    pub fn has_section(&self, section: &str) -> bool {
        self.counters.keys().any(|name| {
            name.strip_prefix(section)
                .is_some_and(|rest| rest.starts_with('.'))
        })
    }
}

/// The kernel prints unsigned and signed 64-bit numbers; anything beyond both is none of its values.
fn in_range(text: &str) -> Option<i128> {
    let value: i128 = text.parse().ok()?;
    (i128::from(i64::MIN)..=i128::from(u64::MAX))
        .contains(&value)
        .then_some(value)
}

/// Reads both files below `net`, which is `/proc/thread-self/net` outside of tests.
/// What could not be read stands in the problems; a file that failed leaves its counters out.
pub fn snapshot(net: &Path) -> Parsed {
    let mut all = Parsed::default();
    for (file, section) in [("netstat", "TcpExt"), ("snmp", "Tcp")] {
        match read_file(&net.join(file), section) {
            Ok(parsed) => {
                all.counters.extend(parsed.counters);
                let path = net.join(file);
                all.problems.extend(
                    parsed
                        .problems
                        .iter()
                        .map(|problem| format!("{}: {problem}", path.display())),
                );
            }
            Err(error) => all.problems.push(format!("counters unavailable: {error}")),
        }
    }
    all
}

/// Reads one file and demands the section that it is read for.
pub fn read_file(path: &Path, section: &str) -> Result<Parsed, ProbeError> {
    let parsed = parse(&read(path)?);
    if parsed.has_section(section) {
        return Ok(parsed);
    }
    let problem = match parsed.problems.first() {
        Some(problem) => format!("no {section} section with values ({problem})"),
        None => format!("no {section} section"),
    };
    Err(ProbeError::Malformed {
        path: path.to_owned(),
        problem,
    })
}
