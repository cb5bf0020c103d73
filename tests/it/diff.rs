//! Comparisons of two stored runs, by the command line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

use backlog_lab::arm::Arm;
use backlog_lab::manifest::{Host, Manifest};
use backlog_lab::observation::{Attempt, Ended, Measured, Observation};
use backlog_lab::plan::Plan;
use backlog_lab::run::{Lab, RunFolder, TrialError, execute};

use crate::pipeline::{accept, arm, attempt, measured};

/// A lab whose trials take one number of answers after the other.
struct Answers(Mutex<Vec<u32>>);

impl Lab for Answers {
    fn ready(&self) -> Result<(), TrialError> {
        Ok(())
    }

    fn observe(
        &self,
        _: backlog_lab::plan::Trial<'_>,
        _: &std::sync::Arc<backlog_lab::load::Progress>,
    ) -> Result<Measured, TrialError> {
        match self.0.lock().expect("a lock").remove(0) {
            0 => Err(TrialError::Failed {
                reason: "broke off".into(),
                measured: None,
            }),
            ok => Ok(answered(ok)),
        }
    }
}

/// `ok` of a hundred attempts were answered.
fn answered(ok: u32) -> Measured {
    let port = |n: u32| 40_000 + u16::try_from(n).expect("few attempts");
    let attempts: Vec<Attempt> = (0..100)
        .map(|n| {
            let ended = if n < ok {
                Ended::Answered
            } else {
                Ended::TimeUp
            };
            attempt(n, port(n), ended)
        })
        .collect();
    let accepts = (0..ok).map(|n| accept(100, port(n))).collect();
    measured(attempts, accepts)
}

/// Stores a run of one arm whose trials have these numbers of answers.
fn store(path: &Path, arm: Arm, kernel: &str, ok: &[u32]) {
    let host = Host {
        kernel: Some(kernel.into()),
        architecture: None,
        cpus: Some(2),
    };
    let started_at = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    let trials = u32::try_from(ok.len()).expect("few trials");
    let plan = Plan::new(vec![arm], trials, 7, Vec::new());
    let manifest = Manifest::new(Vec::new(), host, started_at, plan);
    let folder = RunFolder::create(path, &manifest).expect("a folder");
    let lab = Answers(ok.to_vec().into());
    execute(&manifest.plan, &lab, &folder, |_| {}).expect("stored observations");
}

fn diff(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_backlog-lab"))
        .arg("diff")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_difference_is_told_from_chance() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let one = || arm("one", 100, "");
    store(&at("before"), one(), "6.18.0", &[50, 52, 49, 51, 50]);
    store(&at("same"), one(), "6.18.0", &[51, 50, 50, 52, 49]);
    store(&at("worse"), one(), "6.18.0", &[40, 42, 39, 41, 40]);
    let run = |arguments: &[&str]| {
        let output = diff(folder.path(), arguments);
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, out, _) = run(&["before", "same", "--fail-on-regression"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(!out.contains("worse") && !out.contains("better"), "{out}");
    let (code, out, error) = run(&["before", "worse", "--fail-on-regression"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(
        out.contains("-19.8 %") && out.contains("worse (p<0.001)"),
        "{out}"
    );
    assert!(error.contains("worse: one: ok"), "{error}");
    let (code, out, _) = run(&["before", "worse"]);
    assert_eq!(
        code,
        Some(0),
        "without the flag a comparison is only shown: {out}"
    );
    let (code, out, _) = run(&["worse", "before", "--fail-on-regression"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("better (p<0.001)"), "{out}");
    for line in out.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let (_, out, _) = run(&["before", "worse", "--markdown"]);
    assert!(
        out.contains("| figure | before | after | change | difference |"),
        "{out}"
    );
    let (_, out, _) = run(&["before", "worse", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&out).expect("a document");
    let ok = &document["arms"][0]["figures"][0];
    assert_eq!((&ok["figure"], &ok["worse"]), (&"ok".into(), &true.into()));
    assert_eq!(ok["before"]["n"], 5);
}

/// The chart is two files, whichever of them is named; a comparison that is refused draws none.
#[test]
fn a_comparison_is_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    store(&at("before"), arm("one", 100, ""), "6.18.0", &[50, 52, 51]);
    store(&at("after"), arm("one", 100, ""), "6.18.0", &[20, 22, 21]);
    store(&at("kernel"), arm("one", 100, ""), "6.1.0", &[50, 51]);
    let refused = diff(folder.path(), &["before", "kernel", "--chart", "refused"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(!at("refused.png").exists());
    for name in ["drawn", "drawn.png", "drawn.svg"] {
        let arguments = ["before", "after", "--markdown", "--chart", name];
        let shown = diff(folder.path(), &arguments);
        assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
        let out = text(&shown.stdout);
        assert!(out.contains("](drawn.svg)"), "{out}");
        let svg = fs::read_to_string(at("drawn.svg")).expect("a picture");
        assert!(svg.contains("one: ok fell from 51 to 21"), "{svg}");
        let png = fs::read(at("drawn.png")).expect("a picture");
        assert!(png.starts_with(b"\x89PNG"));
        fs::remove_file(at("drawn.svg")).expect("a file");
    }
    let nowhere = diff(
        folder.path(),
        &["before", "after", "--chart", "no/such/folder"],
    );
    assert_eq!(nowhere.status.code(), Some(4));
    let alone = diff(folder.path(), &["before", "after", "--theme", "dark"]);
    assert_eq!(alone.status.code(), Some(2), "a theme is for a chart");
}

/// What differs in the setup is listed, and compared only when asked for.
#[test]
fn different_setups_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    store(&at("before"), arm("one", 100, ""), "6.18.0", &[50, 51]);
    store(&at("kernel"), arm("one", 100, ""), "6.1.0", &[50, 51]);
    let slower = arm("one", 100, "timeout = \"3s\"");
    store(&at("setting"), slower, "6.18.0", &[50, 51]);
    store(&at("arm"), arm("two", 100, ""), "6.18.0", &[50, 51]);
    for (other, words) in [
        ("kernel", "kernel: \"6.18.0\" and \"6.1.0\""),
        ("setting", "one: client.timeout: \"2s\" and \"3s\""),
        ("arm", "arm two is only in"),
    ] {
        let refused = diff(folder.path(), &["before", other]);
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(
            error.contains(words) && error.contains("--allow-different-setup"),
            "{error}"
        );
        assert!(refused.stdout.is_empty());
        let shown = diff(folder.path(), &["before", other, "--allow-different-setup"]);
        assert_eq!(shown.status.code(), Some(0));
        assert!(
            text(&shown.stdout).contains(words),
            "{}",
            text(&shown.stdout)
        );
    }
}

/// What no arm sets is compared as it was read: a machine's own default is a different setup too.
#[test]
fn sysctls_in_force_are_compared() {
    const COOKIES: &str = "net.ipv4.tcp_syncookies";
    const LINEAR: &str = "net.ipv4.tcp_syn_linear_timeouts";
    let folder = tempfile::tempdir().expect("a folder");
    let stored = |name: &str, sysctls: &[(&str, Option<&str>)]| {
        let path = folder.path().join(name);
        store(&path, arm("one", 100, ""), "6.18.0", &[50, 51]);
        for entry in fs::read_dir(path.join("observations")).expect("observations") {
            let file = entry.expect("an entry").path();
            let text = fs::read_to_string(&file).expect("a file");
            let mut observation: Observation = serde_json::from_str(&text).expect("an observation");
            let measured = observation.measured.as_mut().expect("readings");
            let read = |(name, value): &(&str, Option<&str>)| {
                ((*name).to_owned(), value.map(str::to_owned))
            };
            measured.server.sysctls = sysctls.iter().map(read).collect();
            measured.client = Some(measured.server.clone());
            let text = serde_json::to_string(&observation).expect("text");
            fs::write(&file, text).expect("a file");
        }
    };
    stored("before", &[(COOKIES, Some("1")), (LINEAR, Some("4"))]);
    stored("same", &[(COOKIES, Some("1")), (LINEAR, Some("4"))]);
    stored("other", &[(COOKIES, Some("2")), (LINEAR, Some("4"))]);
    stored("hidden", &[(COOKIES, Some("1")), (LINEAR, None)]);
    assert_eq!(
        diff(folder.path(), &["before", "same"]).status.code(),
        Some(0)
    );
    for (other, line) in [
        (
            "other",
            "one: net.ipv4.tcp_syncookies in force: \"1\" and \"2\"",
        ),
        (
            "other",
            "one: client.net.ipv4.tcp_syncookies in force: \"1\" and \"2\"",
        ),
        (
            "hidden",
            "one: net.ipv4.tcp_syn_linear_timeouts in force: \"4\" and unknown",
        ),
    ] {
        let refused = diff(folder.path(), &["before", other]);
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(line), "{line} in {error}");
        let shown = diff(folder.path(), &["before", other, "--allow-different-setup"]);
        assert_eq!(shown.status.code(), Some(0));
        assert!(text(&shown.stdout).contains(line));
    }
}

/// Trials that are not valid are left out and named; where none are left, nothing is claimed.
#[test]
fn what_is_not_valid_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let one = || arm("one", 100, "");
    store(&at("before"), one(), "6.18.0", &[50, 52, 0, 51]);
    store(&at("after"), one(), "6.18.0", &[50, 51, 52, 50]);
    store(&at("single"), one(), "6.18.0", &[50]);
    let shown = diff(folder.path(), &["before", "after", "--fail-on-regression"]);
    let out = text(&shown.stdout);
    assert_eq!(shown.status.code(), Some(0), "{out}");
    assert!(out.contains("3 and 4 valid trials"), "{out}");
    assert!(
        out.contains("before: 1 of 4 trials left out: failed"),
        "{out}"
    );
    let single = diff(folder.path(), &["before", "single", "--fail-on-regression"]);
    let out = text(&single.stdout);
    assert_eq!(single.status.code(), Some(4), "{out}");
    assert!(
        out.contains("cannot be said") && out.contains("too few valid trials"),
        "{out}"
    );
}

/// Without a terminal everything that reads stored runs prints for 80 columns.
#[test]
fn no_line_is_wider_than_80_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, kernel) in [("before", "6.18.0"), ("after", "6.19.0")] {
        let one = arm("one", 100, "");
        store(&folder.path().join(name), one, kernel, &[50]);
    }
    for arguments in [
        &["diff", "before", "after", "--allow-different-setup"][..],
        &["report", "before", "--no-charts"],
        &["ladder", "before"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_backlog-lab"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("the program starts");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        let printed = text(&output.stdout);
        assert!(printed.lines().count() > 5, "{arguments:?}: {printed}");
        for line in printed.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
    }
}
