//! `[matrix]`: the product of the factors' levels, each cell an arm of its own.

use toml::{Table, Value};

/// One cell of a matrix: the suffix of its name and the arm file's table without the matrix.
pub(super) struct Cell {
    pub(super) suffix: Option<String>,
    pub(super) table: Table,
}

/// Expands `[matrix]`; a file without one has a single cell.
pub(super) fn expand(mut table: Table) -> Result<Vec<Cell>, String> {
    let factors = match table.remove("matrix") {
        None => Table::new(),
        Some(Value::Table(factors)) => factors,
        Some(_) => return Err("matrix: not a table of lists of levels".into()),
    };
    let mut cells = vec![(Vec::new(), table)];
    for (key, levels) in &factors {
        let levels = levels
            .as_array()
            .filter(|levels| !levels.is_empty())
            .ok_or_else(|| format!("matrix.\"{key}\": not a list of levels, such as [0, 1]"))?;
        let mut next = Vec::with_capacity(cells.len() * levels.len());
        for (labels, table) in cells {
            for level in levels {
                let (mut labels, mut table) = (labels.clone(), table.clone());
                labels.push(format!("{}={}", short_key(key), label(level)));
                let mut level = level.clone();
                if let Value::Table(level) = &mut level {
                    level.remove(LABEL);
                }
                set(&mut table, key, level)?;
                next.push((labels, table));
            }
        }
        cells = next;
        if cells.len() > MOST_CELLS {
            return Err(format!("matrix: more than {MOST_CELLS} cells"));
        }
    }
    Ok(cells
        .into_iter()
        .map(|(labels, table)| Cell {
            suffix: (!labels.is_empty()).then(|| labels.join(",")),
            table,
        })
        .collect())
}

/// A matrix beyond this is a mistake in a list.
const MOST_CELLS: usize = 1_024;

/// Writes `value` at a dotted key; a table is merged into the one that stands there.
pub(super) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let mut path = path(key);
    let last = path.pop().filter(|last| !last.is_empty());
    let last = last.ok_or_else(|| format!("\"{key}\" is not a key"))?;
    let mut here = table;
    for part in path {
        here = here
            .entry(part)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| format!("\"{key}\": {part} is not a table"))?;
    }
    match (here.get_mut(last), value) {
        (Some(Value::Table(there)), Value::Table(level)) => there.extend(level),
        (_, value) => {
            here.insert(last.to_owned(), value);
        }
    }
    Ok(())
}

/// The parts of a dotted key. Names of sysctls and counters have dots of their own.
fn path(key: &str) -> Vec<&str> {
    match key.split_once('.') {
        Some((section @ ("sysctl" | "expect" | "published"), name)) => vec![section, name],
        _ => key.split('.').collect(),
    }
}

/// The word for a factor in an expanded name.
fn short_key(key: &str) -> String {
    let last = path(key).pop().unwrap_or_default();
    let last = last.rsplit('.').next().unwrap_or_default();
    match last {
        "tcp_abort_on_overflow" => "abort".into(),
        "tcp_syncookies" => "cookies".into(),
        "tcp_syn_linear_timeouts" => "linear".into(),
        "speaks-first" => "first".into(),
        other => file_safe(other.trim_start_matches("tcp_")).replace('_', "-"),
    }
}

/// The key of a table level that names it, and is no setting.
const LABEL: &str = "label";

/// The word for a level in an expanded name: a table's label, or its values with its `kind` first.
fn label(level: &Value) -> String {
    match level {
        Value::String(text) => file_safe(text),
        Value::Table(table) if table.contains_key(LABEL) => label(&table[LABEL]),
        Value::Table(table) => {
            let kind = table.get("kind").into_iter();
            let rest = table
                .iter()
                .filter(|(key, _)| *key != "kind")
                .map(|(_, value)| value);
            kind.chain(rest).map(label).collect::<Vec<_>>().join("-")
        }
        Value::Array(list) => list.iter().map(label).collect::<Vec<_>>().join("-"),
        other => file_safe(&other.to_string()),
    }
}

/// Letters, digits and a few marks; `10%` becomes `10pct`.
fn file_safe(text: &str) -> String {
    text.replace('%', "pct")
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => c,
            _ => '-',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let cells = expand(toml::from_str(text).unwrap()).unwrap();
        cells.into_iter().filter_map(|cell| cell.suffix).collect()
    }

    #[test]
    fn names_carry_the_levels_in_the_order_of_the_file() {
        let text = r#"
            [matrix]
            "sysctl.net.ipv4.tcp_abort_on_overflow" = [0, 1]
            "sysctl.net.ipv4.tcp_syncookies" = [0]
            link = [{ kind = "loopback" }, { delay = "25ms", kind = "wire" }]
            "protocol.speaks-first" = ["server"]
        "#;
        assert_eq!(
            names(text),
            [
                "abort=0,cookies=0,link=loopback,first=server",
                "abort=0,cookies=0,link=wire-25ms,first=server",
                "abort=1,cookies=0,link=loopback,first=server",
                "abort=1,cookies=0,link=wire-25ms,first=server",
            ]
        );
    }

    #[test]
    fn a_table_level_is_merged_into_the_table_that_stands_there() {
        let text = "[link]\nfamily = \"ipv6\"\n[matrix]\nlink = [{ kind = \"veth\" }]";
        let cells = expand(toml::from_str(text).unwrap()).unwrap();
        let link = cells[0].table["link"].as_table().unwrap();
        assert_eq!(link["family"].as_str(), Some("ipv6"));
        assert_eq!(link["kind"].as_str(), Some("veth"));
    }

    #[test]
    fn a_label_names_a_table_level_and_is_no_setting() {
        let text = "[matrix]\nserver = [{ label = \"refused\", listen = false }]";
        assert_eq!(names(text), ["server=refused"]);
        let cells = expand(toml::from_str(text).unwrap()).unwrap();
        assert_eq!(cells[0].table["server"].to_string(), "{ listen = false }");
    }

    #[test]
    fn what_is_no_matrix_is_refused() {
        for text in [
            "matrix = 3",
            "[matrix]\n\"server.backlog\" = 3",
            "[matrix]\na = []",
        ] {
            assert!(expand(toml::from_str(text).unwrap()).is_err(), "{text}");
        }
        let list = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let text = format!("[matrix]\na = [{list}]\nb = [{list}]");
        assert!(expand(toml::from_str(&text).unwrap()).is_err());
    }
}
