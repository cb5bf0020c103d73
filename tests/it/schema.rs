//! The committed JSON Schemas: they are the ones that the types give, and what the lab reads and writes fits them.

use std::fs;
use std::path::{Path, PathBuf};

use backlog_lab::arm::arm_file_schema;
use backlog_lab::observation::Ended;
use backlog_lab::report;
use backlog_lab::result::results_schema;
use serde_json::Value;

use crate::contract;
use crate::pipeline::{Scripted, accept, arm, attempt, measured, run};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn committed(name: &str) -> Value {
    let path = root().join("schema").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).expect("JSON")
}

fn arm_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(arm_files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_committed_schemas_are_current() {
    for (name, current) in [
        ("arm.json", arm_file_schema()),
        ("results.json", results_schema()),
    ] {
        let word = name.trim_end_matches(".json");
        assert!(
            committed(name) == current.to_value(),
            "schema/{name} is not current: cargo run -- schema {word} > schema/{name}"
        );
    }
}

/// Every shipped arm fits, and names the schema for editors.
#[test]
fn shipped_arms_fit_the_schema() {
    let validator = jsonschema::validator_for(&committed("arm.json")).expect("a schema");
    let arms = root().join("arms");
    for path in arm_files(&arms) {
        let text = fs::read_to_string(&path).expect("a file");
        let table: toml::Table = toml::from_str(&text).expect("TOML");
        let value = serde_json::to_value(table).expect("JSON");
        let problems: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(problems.is_empty(), "{}: {problems:?}", path.display());
        let below = path
            .strip_prefix(&arms)
            .expect("below arms")
            .components()
            .count();
        let line = format!("#:schema {}schema/arm.json", "../".repeat(below));
        assert_eq!(
            text.lines().next(),
            Some(line.as_str()),
            "{}",
            path.display()
        );
    }
}

#[test]
fn the_schema_refuses_what_the_lab_refuses() {
    let validator = jsonschema::validator_for(&committed("arm.json")).expect("a schema");
    let fits = |text: &str| {
        let head = "title = \"t\"\nwhy = \"w\"\n";
        let table: toml::Table = toml::from_str(&format!("{head}{text}")).expect("TOML");
        validator.is_valid(&serde_json::to_value(table).expect("JSON"))
    };
    assert!(fits("server.backlog = 1"));
    for wrong in [
        "server.accept-delay = \"1s\"",
        "server.backlog = \"many\"",
        "server.backlog = 1\nserver.acept = \"loop\"",
        "server.backlog = 1\nserver.accept = \"sometimes\"",
        "server.backlog = 1\nlink.kind = \"carrier-pigeon\"",
        "server.backlog = 1\nexpect.recv_q_max = 1",
        "server.backlog = 1\npublished.ok = 1",
        "server.backlog = 1\nmatrix.link = 3",
        "server.backlog = 1\nsever = 1",
    ] {
        assert!(!fits(wrong), "{wrong}");
    }
}

/// A real run's document, read by the listing that other programs go by.
#[test]
fn the_example_keeps_the_contract() {
    let text = fs::read_to_string(root().join("reports/example/results.json")).expect("a file");
    contract::holds(&serde_json::from_str(&text).expect("JSON"));
}

#[test]
fn a_results_document_fits_the_schema() {
    let validator = jsonschema::validator_for(&committed("results.json")).expect("a schema");
    let lab = Scripted(|_: &str| {
        let attempts = vec![attempt(0, 1, Ended::Answered), attempt(1, 2, Ended::TimeUp)];
        Ok(measured(attempts, vec![accept(100, 1)]))
    });
    let arms = vec![arm("one", 2, "[expect]\nok = 1\nrecv-q-max = \"<9\"")];
    let document = report::json(&run(arms, &lab));
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let problems: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
}
