//! The command line: bad input is told in words, with its exit code, and touches nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_backlog-lab"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const HEAD: &str = "title = \"t\"\nwhy = \"w\"\n";

/// Each file below is wrong in one way; the message has the file, the key and the words.
#[test]
fn a_bad_arm_file_is_told_in_words() {
    let cases: &[(&str, &[&str])] = &[
        (
            "[server]\nbacklog = 1\nacept-delay = \"1s\"",
            &["acept-delay", "accept-delay"],
        ),
        (
            "[server]\nbacklog = \"many\"",
            &["server.backlog", "many", "whole number"],
        ),
        (
            "[server]\nbacklog = 99999999999",
            &["server.backlog", "from -2147483648 to 2147483647"],
        ),
        ("server = 3", &["server", "expected a table"]),
        ("[server]\naccept-delay = \"1s\"", &["backlog"]),
        (
            "[server]\nbacklog = 1\naccept-delay = 80",
            &["server.accept-delay", "duration", "80ms"],
        ),
        (
            "[server]\nbacklog = 1\naccept-delay = \"-80ms\"",
            &["server.accept-delay", "negative"],
        ),
        (
            "[server]\nbacklog = 1\naccept-delay = \"99999h\"",
            &["server.accept-delay", "too long"],
        ),
        (
            "[server]\nbacklog = 1\naccept-delay = \"99999999999999999999999s\"",
            &["server.accept-delay", "too long", "one day"],
        ),
        (
            "[server]\nbacklog = 1\naccept = \"sometimes\"",
            &["server.accept", "never"],
        ),
        (
            "[server]\nbacklog = 1\naccept = []",
            &["server.accept", "never"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nstart = 3",
            &["client.start", "a word is expected"],
        ),
        (
            "[server]\nbacklog = 1\nreuseport = 0",
            &["server.reuseport"],
        ),
        (
            "[server]\nbacklog = 1\nacceptors = 0",
            &["server.acceptors"],
        ),
        (
            "[server]\nbacklog = 1\nacceptors = 2\nreuseport = 2",
            &["server.acceptors", "server.reuseport"],
        ),
        (
            "[server]\nbacklog = 1\nfamily = \"unix\"\nanswer = \"reset\"",
            &["server.family", "answer = \"reset\""],
        ),
        (
            "[server]\nbacklog = 1\nfamily = \"unix\"\n[link]\nkind = \"veth\"",
            &["server.family", "remove link"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nrate = [\"1/s\", \"2/s\"]\nduration = \"1s\"\n[matrix]\n\"client.rate\" = [\"3/s\"]",
            &["client.rate", "in one place"],
        ),
        (
            "[server]\nbacklog = 1\ndefer-accept = \"100ms\"",
            &["server.defer-accept", "whole seconds"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nconnections = 0",
            &["client.connections"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nconnections = 9\nworkers = 0",
            &["client.workers", "zero workers"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nconnections = 9\nworkers = 10",
            &["client.workers", "more than"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nconnections = -5",
            &["client.connections"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nconnections = 30000\nstart = \"one-by-one\"",
            &["30000", "28232", "ip_local_port_range"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nconnections = 100000",
            &["client.connections", "100000", "28232 ports"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nconnections = 99999999999",
            &["client.connections", "from 0 to 4294967295"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nconnections = 11\n[sysctl]\n\"net.ipv4.ip_local_port_range\" = \"5000 5009\"",
            &["11", "10 ports"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\ntimeout = \"0s\"",
            &["client.timeout"],
        ),
        (
            "[server]\nbacklog = 1\n[client]\nstart = \"one-by-one\"\nconnections = 3\nworkers = 2",
            &["client.workers", "single thread"],
        ),
        (
            "[server]\nbacklog = 1\n[protocol]\nspeaks-first = \"both\"",
            &["speaks-first", "nobody"],
        ),
        (
            "[server]\nbacklog = 1\n[link]\nkind = \"carrier-pigeon\"",
            &["link.kind", "loopback"],
        ),
        (
            "[server]\nbacklog = 1\n[sysctl]\n\"kernel.hostname\" = \"x\"",
            &["kernel.hostname", "net."],
        ),
        (
            "[server]\nbacklog = 1\n[sysctl]\n\"net/../../x\" = 1",
            &["net/../../x"],
        ),
        (
            "[server]\nbacklog = 1\n[expect]\nrecv_q_max = 2",
            &["recv_q_max", "recv-q-max"],
        ),
        (
            "[server]\nbacklog = 1\n[expect]\nok = \"some\"",
            &["ok", "a..=b"],
        ),
        (
            "[server]\nbacklog = 1\n[expect]\nkernel = \"new\"",
            &["kernel", ">=6.5"],
        ),
        ("[server]\nbacklog = 1\n[published]\nok = 3", &["source"]),
        (
            "[server]\nbacklog = 1\n[matrix]\n\"server.backlog\" = 3",
            &["matrix", "server.backlog"],
        ),
        (
            "[server]\nbacklog = 1\n[matrix]\n\"server.backlog\" = [1, \"x\"]",
            &["server.backlog"],
        ),
        ("[server\nbacklog = 1", &["line 3", "unclosed table"]),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (text, words) in cases {
        fs::write(folder.path().join("bad.toml"), format!("{HEAD}{text}\n")).expect("a file");
        for command in ["run", "show"] {
            let output = lab(folder.path(), &[command, "bad.toml"]);
            let error = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{text}: {error}");
            for word in ["bad.toml"].iter().chain(*words) {
                assert!(
                    error.contains(word),
                    "\"{word}\" is not in: {error}\nfor:\n{text}"
                );
            }
            assert!(!error.contains("panicked"), "{error}");
        }
    }
    assert!(
        !folder.path().join("reports").exists(),
        "nothing was touched"
    );
}

#[test]
fn all_bad_files_are_listed_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let arms = folder.path().join("mine");
    fs::create_dir(&arms).expect("a folder");
    for name in ["one", "two"] {
        fs::write(arms.join(format!("{name}.toml")), "title = 3").expect("a file");
    }
    fs::write(arms.join("no-text.toml"), [0xff, 0xfe]).expect("a file");
    fs::write(folder.path().join("four"), "no arm").expect("a file");
    let output = lab(folder.path(), &["run", "mine", "three.toml", "four"]);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    for words in [
        "mine/one.toml: title: invalid type",
        "mine/two.toml: title: invalid type",
        "cannot read arm file mine/no-text.toml",
        "cannot read arm file three.toml",
        "four: TOML parse error",
    ] {
        assert!(error.contains(words), "{words} is not in: {error}");
    }
}

#[test]
fn a_name_that_does_not_exist_gets_the_nearest() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = lab(folder.path(), &["run", "arm_a"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("did you mean \"arm-a\"?"),
        "{}",
        stderr(&output)
    );
}

/// A key without its section gets the whole key, and `--set` is blamed for what it did.
#[test]
fn a_wrong_override_is_told_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    for (change, words) in [
        (
            "backlog=64",
            &["--set backlog=64", "did you mean \"server.backlog\"?"][..],
        ),
        (
            "server.backlg=64",
            &["--set server.backlg=64", "did you mean \"backlog\"?"],
        ),
        ("server.backlog=many", &["server.backlog", "a whole number"]),
        ("server.backlog=1,1", &["two levels give the same arm"]),
        (
            "sysctl.net.ipv4.ip_local_port_range=1 4294967295",
            &["ip_local_port_range", "two port numbers"],
        ),
    ] {
        let output = lab(folder.path(), &["run", "arm-a", "--set", change]);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        for word in words {
            assert!(error.contains(word), "\"{word}\" is not in: {error}");
        }
    }
}

/// A folder of the name of an arm does not hide the arm; a file in the way of a run is a usage error.
#[test]
fn what_lies_in_the_current_folder_is_in_nobodys_way() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("arm-a")).expect("a folder");
    assert_eq!(
        lab(folder.path(), &["show", "arm-a"]).status.code(),
        Some(0)
    );
}

#[test]
fn usage_errors_are_2() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [
        &["run", "--no-such-flag"][..],
        &["run", "--set", "server.backlog"],
        &["run", "-n", "0"],
        &["run", "arm-a", "--set", "server.no-such-key=1"],
        &["report", "nonesuch"],
        &["frobnicate"],
    ] {
        let output = lab(folder.path(), arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// An installed binary needs no checkout; a file in `./arms` comes before the shipped one.
#[test]
fn arms_are_found_anywhere_and_the_nearest_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = lab(folder.path(), &["list"]);
    assert_eq!(output.status.code(), Some(0));
    for name in [
        "arm-a",
        "arm-b",
        "arm-c",
        "arm-b-control",
        "shock-absorber",
        "facts/capacity-0",
    ] {
        let found = stdout(&output)
            .lines()
            .any(|line| line.split_whitespace().next() == Some(name));
        assert!(found, "{name}");
    }
    fs::create_dir(folder.path().join("arms")).expect("a folder");
    let mine = format!("{HEAD}[server]\nbacklog = 77\n");
    fs::write(folder.path().join("arms/arm-a.toml"), mine).expect("a file");
    let shown = lab(folder.path(), &["show", "arm-a", "--json"]);
    let arms: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("a document");
    assert_eq!(arms[0]["settings"]["server"]["backlog"], 77);
    let shown = lab(folder.path(), &["show", "arm-c"]);
    assert!(
        stdout(&shown).contains("accept-delay = \"40ms\""),
        "{}",
        stdout(&shown)
    );
}

/// What `show` prints is an arm file with every setting resolved.
#[test]
fn show_prints_an_arm_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = lab(
        folder.path(),
        &["show", "arm-a", "--set", "server.backlog=3"],
    );
    assert_eq!(shown.status.code(), Some(0));
    fs::write(folder.path().join("again.toml"), stdout(&shown)).expect("a file");
    let again = lab(folder.path(), &["show", "again.toml"]);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert!(stdout(&again).contains("backlog = 3"));
}

#[test]
fn completions_for_the_usual_shells() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let output = lab(folder.path(), &["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("backlog-lab"), "{shell}");
    }
}

#[test]
fn an_unknown_schema_is_refused_by_its_version() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("old")).expect("a folder");
    fs::write(
        folder.path().join("old/manifest.json"),
        "{\"schema_version\": 99}",
    )
    .expect("a file");
    let output = lab(folder.path(), &["report", "old"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output).contains("version 99"),
        "{}",
        stderr(&output)
    );
}

/// `list` takes names as `run` and `show` do, keeps to 80 columns, and marks what `run` runs by itself.
#[test]
fn list_shows_what_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = |arguments: &[&str]| -> Vec<String> {
        let output = lab(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        let starts = text.lines().filter(|line| !line.starts_with(' '));
        starts
            .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
            .collect()
    };
    let storm = names(&["list", "storm"]);
    assert!(storm.len() > 1, "{storm:?}");
    assert!(
        storm.iter().all(|name| name.starts_with("storm/")),
        "{storm:?}"
    );
    assert_eq!(names(&["list", "storm/"]), storm);
    assert_eq!(names(&["list", "arm-b", "arm-a"]), ["arm-b", "arm-a"]);
    let all = stdout(&lab(folder.path(), &["list"]));
    let marked = all.lines().filter(|line| line.contains("[default of"));
    let marked: Vec<&str> = marked
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(marked, ["arm-a", "arm-b", "arm-c"]);
    for line in all.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert_eq!(
        lab(folder.path(), &["list", "strom"]).status.code(),
        Some(2)
    );
}

/// Without a terminal, and on one of 80 columns, no line of any help is longer.
#[test]
fn help_fits_80_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let help = stdout(&lab(folder.path(), &["--help"]));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.contains(&"run") && commands.contains(&"completions"));
    for command in std::iter::once("").chain(commands) {
        for flag in ["-h", "--help"] {
            let arguments: Vec<&str> = [command, flag]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            let output = lab(folder.path(), &arguments);
            assert_eq!(output.status.code(), Some(0), "{arguments:?}");
            for line in stdout(&output).lines() {
                assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
            }
        }
    }
}
