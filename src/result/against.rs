//! Before and after: what a changed setting has moved, said in the verdict of the arm that changed it.

use std::collections::BTreeMap;

use super::ArmResult;
use crate::arm::Arm;

/// Ends the verdict of every arm that is a change of another one of the run with what the change has moved.
pub(super) fn say_what_moved(arms: &mut [ArmResult]) {
    let told: Vec<Option<String>> = arms
        .iter()
        .map(|after| {
            let name = after.settings.against.as_ref()?;
            let before = arms.iter().find(|one| one.name == *name)?;
            what_moved(before, after)
        })
        .collect();
    for (arm, text) in arms.iter_mut().zip(told) {
        if let Some(text) = text {
            arm.verdict.text += &format!(" {text}");
        }
    }
}

/// `Against tuning/1-defaults, net.core.somaxconn 128 -> 4096 moved the limit in force from 128 to 511.` `None` where
/// one of the two has no valid trial.
fn what_moved(before: &ArmResult, after: &ArmResult) -> Option<String> {
    let figure = |arm: &ArmResult, name: &str| arm.summary.get(name).map(|one| one.median);
    let both = |name| figure(before, name).zip(figure(after, name));
    let (old_limit, limit) = both("backlog-effective")?;
    let (old_ok, ok) = both("ok")?;
    let attempts = figure(after, "attempts")?;
    let changes = changes(&before.settings, &after.settings);
    let moved = if limit.total_cmp(&old_limit).is_eq() {
        format!("did not move the limit in force, {limit}")
    } else {
        format!("moved the limit in force from {old_limit} to {limit}")
    };
    Some(format!(
        "Against {}, {changes} {moved}: {old_ok} of {attempts} were answered before, {ok} after.",
        before.name
    ))
}

/// The settings that differ, with both values; a program's own files and arguments are not shown.
fn changes(before: &Arm, after: &Arm) -> String {
    let (before, after) = (settings(before), settings(after));
    let changed: Vec<String> = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(value))
        .map(|(key, value)| {
            let old = before.get(key).map_or("unset", String::as_str);
            format!("{key} {old} -> {value}")
        })
        .collect();
    if changed.is_empty() {
        "another configuration".into()
    } else {
        changed.join(" with ")
    }
}

/// Keys that are no settings of the experiment, or too long to show.
const NOT_SHOWN: &[&str] = &[
    "title",
    "why",
    "against",
    "expect",
    "published",
    "files",
    "command",
];

/// Every setting by its key, without the name of its table where that is `sysctl`.
fn settings(arm: &Arm) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if let Ok(table) = toml::Table::try_from(arm) {
        collect("", &table, &mut found);
    }
    found
}

fn collect(prefix: &str, table: &toml::Table, found: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        if NOT_SHOWN.contains(&key.as_str()) {
            continue;
        }
        let path = match prefix {
            "" | "sysctl" => key.clone(),
            _ => format!("{prefix}.{key}"),
        };
        match value {
            toml::Value::Table(table) => collect(&path, table, found),
            toml::Value::String(text) => {
                found.insert(path, text.clone());
            }
            other => {
                found.insert(path, other.to_string());
            }
        }
    }
}
