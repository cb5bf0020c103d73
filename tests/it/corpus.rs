//! The corpus of the fuzz targets, replayed: seeds, and every case that once broke something.

use std::fs;
use std::path::Path;

use backlog_lab::observation::Observation;
use serde_json::{Value, json};

#[path = "../../fuzz/bodies.rs"]
mod bodies;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("a corpus").flatten() {
        body(&fs::read(entry.path()).expect("a file"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn counters() {
    replay("counters", bodies::counters);
}

#[test]
fn sock_diag() {
    replay("sock_diag", bodies::sock_diag);
}

#[test]
fn arm() {
    replay("arm", bodies::arm);
}

#[test]
fn observation() {
    replay("observation", bodies::observation);
}

/// Numbers that no kernel gives, one at a time and all at once: no panic, and no total that wrapped.
#[test]
fn extreme_numbers_in_observations() {
    extreme_numbers_in("capacity-0");
}

/// The same where every packet has a record.
#[test]
fn extreme_numbers_in_observations_of_a_wire() {
    extreme_numbers_in("wire");
}

fn extreme_numbers_in(seed: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/observation");
    let seed = folder.join(seed);
    let seed: Value = serde_json::from_slice(&fs::read(seed).expect("a file")).expect("JSON");
    let extremes = [
        json!(0),
        json!(1),
        json!(-1),
        json!(u32::MAX),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!("18446744073709551615"),
        Value::Null,
    ];
    let numbers = leaves(&seed);
    assert!(numbers.len() > 60, "{}", numbers.len());
    for extreme in &extremes {
        let mut every = seed.clone();
        for pointer in &numbers {
            let mut one = seed.clone();
            *one.pointer_mut(pointer).expect("a leaf") = extreme.clone();
            bodies::observation(&serde_json::to_vec(&one).expect("JSON"));
            if serde_json::from_value::<Observation>(one).is_ok() {
                *every.pointer_mut(pointer).expect("a leaf") = extreme.clone();
            }
        }
        bodies::observation(&serde_json::to_vec(&every).expect("JSON"));
    }
}

/// The pointers of every number, also of those written as text, but not of the version.
fn leaves(value: &Value) -> Vec<String> {
    let below = |key: &str, value: &Value| {
        let paths = leaves(value).into_iter();
        let key = key.replace('~', "~0").replace('/', "~1");
        paths
            .map(move |path| format!("/{key}{path}"))
            .collect::<Vec<_>>()
    };
    match value {
        Value::Object(table) => table
            .iter()
            .filter(|(key, _)| *key != "schema_version")
            .flat_map(|(key, value)| below(key, value))
            .collect(),
        Value::Array(list) => (0..)
            .zip(list)
            .flat_map(|(n, value): (usize, _)| below(&n.to_string(), value))
            .collect(),
        Value::Number(_) | Value::Null => vec![String::new()],
        Value::String(text) if text.parse::<u64>().is_ok() => vec![String::new()],
        _ => Vec::new(),
    }
}
