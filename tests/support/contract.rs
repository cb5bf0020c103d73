//! The fields of a results document that other programs read, by hand: neither the schema nor the types can move them
//! unseen.

use serde_json::Value;

/// What stands at a key. A question mark behind it means that it can be `null`, which is unknown.
const DOCUMENT: &[(&str, &str)] = &[
    ("schema_version", "whole"),
    ("run_id", "text"),
    ("started_at", "text"),
    ("complete", "flag"),
    ("command", "list"),
    ("tool.version", "text"),
    ("tool.git", "text?"),
    ("host.kernel", "text"),
    ("host.cpus", "whole"),
    ("seed", "whole"),
    ("arms", "list"),
];

const ARM: &[(&str, &str)] = &[
    ("name", "text"),
    ("title", "text"),
    ("settings", "table"),
    ("trials", "list"),
    ("summary", "table"),
    ("verdict.met", "flag?"),
    ("verdict.text", "text"),
    ("verdict.expectations", "list"),
];

const EXPECTATION: &[(&str, &str)] = &[
    ("key", "text"),
    ("expected", "any"),
    ("observed", "any?"),
    ("met", "flag?"),
];

const SUMMARY: &[(&str, &str)] = &[
    ("mean", "number"),
    ("median", "number"),
    ("min", "number"),
    ("max", "number"),
    ("ci95_low", "number?"),
    ("ci95_high", "number?"),
    ("n", "whole"),
];

/// Of every trial, whatever became of it.
const TRIAL: &[(&str, &str)] = &[
    ("index", "whole"),
    ("status", "text"),
    ("reason", "text?"),
    ("attempts", "whole?"),
    ("accepted", "whole?"),
    ("wasted_accepts", "whole?"),
    ("ghosts", "table?"),
    ("outcomes", "table?"),
    ("errnos", "table?"),
    ("listeners", "list"),
    ("counters.shared", "flag"),
    ("counters.server", "table"),
    ("counters.client", "table"),
    ("latency_ms.connect", "table?"),
    ("latency_ms.answered", "table?"),
    ("latency_ms.accept_wait", "table?"),
    ("cpu.server_ms", "number?"),
    ("cpu.client_ms", "number?"),
    ("cpu.idle_percent", "number?"),
    ("books", "list"),
    ("causes", "table?"),
];

const GHOSTS: &[(&str, &str)] = &[
    ("waiting", "whole"),
    ("half_open", "whole"),
    ("lost", "whole"),
];

const OUTCOMES: [&str; 9] = [
    "ok",
    "connect_timeout",
    "read_timeout",
    "refused",
    "reset",
    "closed_early",
    "wrong_data",
    "local_limit",
    "other",
];

const LISTENER: &[(&str, &str)] = &[
    ("address", "text"),
    ("port", "whole?"),
    ("backlog_requested", "signed?"),
    ("backlog_effective", "whole"),
    ("accept_queue_capacity", "whole"),
    ("recv_q_max", "whole"),
    ("drops", "whole?"),
    ("samples", "whole"),
    ("sample_period_us", "whole"),
    ("samples_missed", "whole"),
];

const PERCENTILES: &[(&str, &str)] = &[
    ("n", "whole"),
    ("p50", "number?"),
    ("p90", "number?"),
    ("p95", "number?"),
    ("p99", "number?"),
    ("max", "number?"),
];

const BOOK: &[(&str, &str)] = &[
    ("identity", "text"),
    ("left", "number?"),
    ("right", "number?"),
    ("holds", "flag?"),
];

/// Panics at the first field that is not what the contract says, and where two of them do not agree.
pub(crate) fn holds(document: &Value) {
    fields(document, DOCUMENT, "document");
    for arm in list(&document["arms"]) {
        let name = arm["name"].as_str().expect("a name");
        fields(arm, ARM, name);
        for one in list(&arm["verdict"]["expectations"]) {
            fields(one, EXPECTATION, name);
        }
        for (figure, summary) in table(&arm["summary"]) {
            fields(summary, SUMMARY, &format!("{name} {figure}"));
        }
        for (n, trial) in list(&arm["trials"]).iter().enumerate() {
            assert_eq!(trial["index"], n, "{name}: trials stand by index");
            a_trial(trial, &format!("{name}, trial {n}"));
        }
    }
}

fn a_trial(trial: &Value, place: &str) {
    fields(trial, TRIAL, place);
    let status = trial["status"].as_str().expect("a status");
    assert!(
        ["ok", "failed", "invalid", "skipped"].contains(&status),
        "{place}: {status}"
    );
    assert_eq!(
        trial["reason"].is_null(),
        status == "ok",
        "{place}: {status}"
    );
    if let Some(ghosts) = trial.get("ghosts").filter(|ghosts| !ghosts.is_null()) {
        fields(ghosts, GHOSTS, place);
    }
    if let Some(outcomes) = trial["outcomes"].as_object() {
        let mut keys: Vec<&str> = outcomes.keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut known = OUTCOMES;
        known.sort_unstable();
        assert_eq!(keys, known, "{place}");
        let sum: u64 = outcomes.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(sum), trial["attempts"].as_u64(), "{place}");
    }
    for (errno, count) in trial["errnos"].as_object().into_iter().flatten() {
        let (stage, name) = errno.split_once(':').expect("stage:ERRNO");
        assert!(
            ["connect", "read", "write", "answer"].contains(&stage),
            "{place}: {errno}"
        );
        assert!(
            name.starts_with('E') && count.is_u64(),
            "{place}: {errno} {count}"
        );
    }
    for listener in list(&trial["listeners"]) {
        fields(listener, LISTENER, place);
        let effective = listener["backlog_effective"].as_u64();
        let capacity = listener["accept_queue_capacity"].as_u64();
        assert_eq!(capacity, effective.map(|limit| limit + 1), "{place}");
    }
    for side in ["server", "client"] {
        for (name, delta) in table(&trial["counters"][side]) {
            assert!(delta.is_null() || delta.is_i64(), "{place}: {name} {delta}");
            assert!(name.contains('.'), "{place}: {name}");
        }
    }
    if trial["counters"]["shared"] == true {
        assert_eq!(
            trial["counters"]["client"], trial["counters"]["server"],
            "{place}"
        );
    }
    for population in ["connect", "answered", "accept_wait"] {
        let found = &trial["latency_ms"][population];
        if !found.is_null() {
            fields(found, PERCENTILES, &format!("{place}, {population}"));
        }
    }
    for book in list(&trial["books"]) {
        fields(book, BOOK, place);
    }
    for (cause, count) in trial["causes"].as_object().into_iter().flatten() {
        assert!(count.is_u64(), "{place}: {cause} {count}");
    }
}

fn fields(value: &Value, listing: &[(&str, &str)], place: &str) {
    for (path, kind) in listing {
        let found = path.split('.').try_fold(value, |value, key| value.get(key));
        let found = found.unwrap_or_else(|| panic!("{place}: there is no {path}"));
        let fits = match kind.trim_end_matches('?') {
            "any" => !found.is_null(),
            "whole" => found.is_u64(),
            "signed" => found.is_i64(),
            "number" => found.is_number(),
            "text" => found.is_string(),
            "flag" => found.is_boolean(),
            "list" => found.is_array(),
            "table" => found.is_object(),
            other => panic!("no kind {other}"),
        };
        let fits = fits || (kind.ends_with('?') && found.is_null());
        assert!(fits, "{place}: {path} is no {kind}: {found}");
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn table(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
