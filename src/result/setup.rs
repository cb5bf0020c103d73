//! In what the setups of two runs differ: kernel, settings, and the sysctls that were in force.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ArmResult, Results};
use crate::arm::Arm;

/// In what the setups of two runs differ: whatever a figure depends on beside chance.
pub(super) fn different_setup(before: &Results, after: &Results) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, one: Value, other: Value| {
        if one != other {
            found.push(format!("{what}: {one} and {other}"));
        }
    };
    differ(
        "schema",
        before.schema_version.into(),
        after.schema_version.into(),
    );
    differ(
        "kernel",
        before.host.kernel.clone().into(),
        after.host.kernel.clone().into(),
    );
    differ(
        "architecture",
        before.host.architecture.clone().into(),
        after.host.architecture.clone().into(),
    );
    differ(
        "processors",
        before.host.cpus.into(),
        after.host.cpus.into(),
    );
    differ(
        "trials at once",
        before.schedule.jobs.into(),
        after.schedule.jobs.into(),
    );
    for arm in &after.arms {
        match before.arms.iter().find(|other| other.name == arm.name) {
            None => found.push(format!("arm {} is only in {}", arm.name, after.run_id)),
            Some(other) => {
                let settings = [&other.settings, &arm.settings].map(settings);
                for key in settings.iter().flat_map(BTreeMap::keys) {
                    let [one, other] = [0, 1].map(|n: usize| settings[n].get(key));
                    let line = format!("{}: {key}: {} and {}", arm.name, shown(one), shown(other));
                    if one != other && !found.contains(&line) {
                        found.push(line);
                    }
                }
                let in_force = [other, arm].map(in_force);
                found.extend(different_sysctls(&arm.name, &settings, &in_force));
            }
        }
    }
    for arm in &before.arms {
        if !after.arms.iter().any(|other| other.name == arm.name) {
            found.push(format!("arm {} is only in {}", arm.name, before.run_id));
        }
    }
    found
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "not set".into(), Value::to_string)
}

/// An arm's settings by dotted key; words and expectations are none.
fn settings(arm: &Arm) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    // Plain structs and maps with string keys always serialise.
    let mut table = serde_json::to_value(arm).unwrap_or_default();
    if let Some(table) = table.as_object_mut() {
        for words in ["title", "why", "expect", "published"] {
            table.remove(words);
        }
    }
    flatten("", &table, &mut flat);
    flat
}

fn flatten(prefix: &str, value: &Value, flat: &mut BTreeMap<String, Value>) {
    match value.as_object() {
        Some(table) => {
            for (key, value) in table {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(&format!("{prefix}{dot}{key}"), value, flat);
            }
        }
        None => drop(flat.insert(prefix.to_owned(), value.clone())),
    }
}

/// What each sysctl was in the trials of an arm; `None` where the kernel did not show it.
type InForce<'a> = BTreeMap<&'a str, BTreeSet<Option<&'a str>>>;

fn in_force(arm: &ArmResult) -> InForce<'_> {
    let mut all = InForce::new();
    for (name, value) in arm.trials.iter().flat_map(|trial| &trial.sysctls) {
        all.entry(name).or_default().insert(value.as_deref());
    }
    all
}

/// Sysctls that were not the same, a line each. Those that the arm sets are among its settings. An arm without a
/// reading on either side has nothing to compare.
fn different_sysctls(
    arm: &str,
    settings: &[BTreeMap<String, Value>; 2],
    in_force: &[InForce<'_>; 2],
) -> Vec<String> {
    let names: BTreeSet<&str> = in_force
        .iter()
        .flat_map(|one| one.keys().copied())
        .collect();
    let is_set = |name: &str| {
        let key = format!("sysctl.{}", name.trim_start_matches("client."));
        settings[0].get(&key) != settings[1].get(&key)
    };
    let shown = |values: Option<&BTreeSet<Option<&str>>>| {
        let each = values.into_iter().flatten();
        let words: Vec<String> = each
            .map(|value| value.map_or_else(|| "unknown".into(), |value| format!("{value:?}")))
            .collect();
        if words.is_empty() {
            "unknown".to_owned()
        } else {
            words.join(" or ")
        }
    };
    if in_force.iter().any(BTreeMap::is_empty) {
        return Vec::new();
    }
    let differ = names.into_iter().filter(|name| !is_set(name));
    differ
        .filter_map(|name| {
            let [one, other] = [0, 1].map(|n: usize| shown(in_force[n].get(name)));
            (one != other).then(|| format!("{arm}: {name} in force: {one} and {other}"))
        })
        .collect()
}
