//! A lab that can be believed: nothing survives it but the data, and its statements are not chance.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use backlog_lab::load::Clock;
use backlog_lab::netns::Namespace;
use backlog_lab::observation::Observation;
use libtest_mimic::Trial;
use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::namespaces::in_user_namespace;
use crate::{program, test};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("trust/killed-at-any-moment", || killed_at_any_moment(20)),
        test("trust/a-full-disk", a_full_disk),
        test("trust/the-facts-hold-here", the_facts_hold),
        test("trust/here-only-with-leave", here_only_with_leave),
        test("trust/trials-at-once-are-apart", trials_at_once_are_apart),
        soak("soak/killed-at-any-moment", || killed_at_any_moment(200)),
        soak("soak/runs-that-do-not-differ", runs_that_do_not_differ),
        soak("soak/trials-at-once-agree", trials_at_once_agree),
        soak("soak/without-capabilities", without_capabilities),
    ]
}

/// A test that takes minutes: `just soak`.
fn soak(name: &str, body: fn()) -> Trial {
    test(name, body).with_ignored_flag(true)
}

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

const VICTIM: &str = r#"
title = "A run to be killed"
why = "Two namespaces, a veth pair, threads and files: all that a killed run could leave behind."

[server]
backlog = 2
accept-delay = "5ms"

[client]
connections = 30
timeout = "150ms"

[link]
kind = "veth"
"#;

/// Numbers that differ from run to run; the seed is told when a test fails.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a time");
        Self(u64::from(now.subsec_nanos()) | 1)
    }

    /// Xorshift (Marsaglia, 2003).
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Whatever the moment and the signal: no process and no mount keeps a namespace of the lab, no link appears, and
/// what had been stored can be read.
fn killed_at_any_moment(times: usize) {
    const SIGNALS: [Signal; 4] = [
        Signal::SIGKILL,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
    ];
    let mut random = Random::new();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("victim.toml"), VICTIM).expect("a file");
    let before = links();
    let mut interrupted = 0;
    for n in 0..times {
        let seed = random.0;
        let (signal, after_ms) = (SIGNALS[n % SIGNALS.len()], random.below(1_500));
        let told = format!("kill {n}, seed {seed}: {signal} after {after_ms} ms");
        let run = format!("run-{n}");
        let mut child = Command::new(program())
            .args(["run", "victim.toml", "-n", "30", "-j", "2", "--json"])
            .args(["--out", &run])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Clock::start().sleep_until(after_ms * 1_000);
        let namespaces = namespaces_of(&child);
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        kill(pid, signal).expect("a signal");
        let status = child.wait().expect("an end");
        interrupted += usize::from(status.code().is_none_or(|code| code >= 128));
        nobody_is_left_in(&namespaces, &told);
        assert_eq!(links(), before, "{told}");
        reads_back(folder.path(), &run, &told);
    }
    assert!(
        interrupted > times / 2,
        "only {interrupted} of {times} were hit"
    );
    let next = lab(
        folder.path(),
        &["run", "facts/closed-port", "--out", "next"],
    );
    assert_eq!(next.status.code(), Some(0), "{}", stderr(&next));
}

/// The network namespaces of a running lab that are not ours, by inode. Held open, so that no other test's namespace
/// can have the same inode.
fn namespaces_of(child: &Child) -> BTreeMap<u64, File> {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id()));
    let held = |path: PathBuf| {
        let file = File::open(path).ok()?;
        Some((file.metadata().ok()?.st_ino(), file))
    };
    let ours = held("/proc/self/ns/net".into()).map(|(inode, _)| inode);
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| held(task.path().join("ns/net")))
        .filter(|(inode, _)| Some(*inode) != ours)
        .collect()
}

/// Within two seconds no thread of any process is in one of these namespaces, and no mount holds one.
fn nobody_is_left_in(namespaces: &BTreeMap<u64, File>, told: &str) {
    let clock = Clock::start();
    loop {
        let left: Vec<PathBuf> = fs::read_dir("/proc")
            .expect("processes")
            .flatten()
            .flat_map(|process| {
                fs::read_dir(process.path().join("task"))
                    .into_iter()
                    .flatten()
            })
            .flatten()
            .map(|task| task.path().join("ns/net"))
            .filter(|path| {
                fs::metadata(path).is_ok_and(|found| namespaces.contains_key(&found.st_ino()))
            })
            .collect();
        if left.is_empty() {
            break;
        }
        assert!(clock.now_us() < 2_000_000, "{told}: {left:?}");
        clock.sleep_until(clock.now_us() + 20_000);
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    for inode in namespaces.keys() {
        assert!(
            !mounts.contains(&format!("net:[{inode}]")),
            "{told}: {mounts}"
        );
    }
}

/// The links of this namespace.
fn links() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/net/dev").expect("links");
    let names = table.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Every stored observation is whole, and a report can be made of them.
fn reads_back(folder: &Path, run: &str, told: &str) {
    if !folder.join(run).join("manifest.json").exists() {
        return;
    }
    for entry in fs::read_dir(folder.join(run).join("observations"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let text = fs::read(&path).expect("a file");
            let read: Result<Observation, _> = serde_json::from_slice(&text);
            assert!(read.is_ok(), "{told}: {}: {:?}", path.display(), read.err());
        }
    }
    let report = lab(folder, &["report", run, "--json"]);
    let code = report.status.code();
    assert!(matches!(code, Some(0 | 4)), "{told}: {}", stderr(&report));
    document(&report);
}

/// A disk that fills up while results are written: a clear error, exit code 4, and the earlier trials are whole.
fn a_full_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let small = move || {
        let none: Option<&Path> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        let kind = Some(Path::new("tmpfs"));
        Ok(mount(
            kind,
            &disk,
            kind,
            MsFlags::empty(),
            Some(Path::new("size=512k")),
        )?)
    };
    let script = "\"$0\" run facts/closed-port -n 100 --quiet --out disk/run >/dev/null\n\
                  echo \"code $?\"\n\
                  for file in disk/run/observations/*; do echo \"$file\"; cat \"$file\"; echo; done";
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .arg(program())
        .current_dir(folder.path());
    let output = in_user_namespace(command, 0, CloneFlags::CLONE_NEWNS, small);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("code 4"), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("cannot write disk/run/observations/"),
        "{}",
        stderr(&output)
    );
    let mut stored = 0;
    while let (Some(name), Some(content)) = (lines.next(), lines.next()) {
        assert!(!name.contains(".tmp"), "{name} is half-written");
        let read: Result<Observation, _> = serde_json::from_str(content);
        assert!(read.is_ok(), "{name}: {:?}", read.err());
        stored += 1;
    }
    assert!(stored > 0 && stored < 400, "{stored} trials were stored");
}

/// The facts hold on the kernel that these tests run on, and the document says what was expected and observed.
fn the_facts_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = lab(folder.path(), &["facts", "--json", "-j", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = document(&output);
    let facts = report["facts"].as_array().expect("facts");
    assert!(facts.len() >= 44, "{}", facts.len());
    for fact in facts {
        assert_eq!(fact["holds"], true, "{fact:#}");
    }
    let full = &facts[0]["expectations"][0];
    for key in ["key", "expected", "observed", "met"] {
        assert!(!full[key].is_null(), "{key} in {full}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// Without a namespace of its own the lab runs only when it is told to, and writes no sysctl.
fn here_only_with_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!(
        "{}[sysctl]\n\"net.core.somaxconn\" = 77\n",
        VICTIM.replace("veth", "here")
    );
    fs::write(folder.path().join("here.toml"), text).expect("a file");
    let path = folder.path().to_owned();
    let run = move |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let path = path.clone();
        let alone = Namespace::create("test").expect("a namespace");
        let inside = move || {
            let read = || fs::read_to_string("/proc/sys/net/core/somaxconn").expect("a sysctl");
            let before = read();
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = lab(&path, &words);
            assert_eq!(read(), before, "nothing is written");
            output
        };
        alone.run(inside).expect("an end")
    };
    let refused = run(&["run", "here.toml", "--out", "refused"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--here"), "{}", stderr(&refused));
    let skipped = run(&["run", "here.toml", "--here", "--json", "--out", "skipped"]);
    assert_eq!(skipped.status.code(), Some(3), "{}", stderr(&skipped));
    let reason = document(&skipped)["arms"][0]["trials"][0]["reason"].to_string();
    assert!(
        reason.contains("net.core.somaxconn is 4096 here"),
        "{reason}"
    );
    let facts = run(&["facts", "--here", "--json"]);
    let report = document(&facts);
    let held = |fact: &&Value| fact["holds"] == true;
    let facts = report["facts"].as_array().expect("facts");
    assert!(facts.iter().filter(held).count() >= 20, "{report:#}");
    assert!(
        facts.iter().all(|fact| fact["holds"] != false),
        "{report:#}"
    );
}

/// Trials at once count their own packets only.
fn trials_at_once_are_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "run",
        "facts/capacity-3",
        "facts/capacity-10",
        "-n",
        "4",
        "-j",
        "8",
    ];
    let output = lab(
        folder.path(),
        &[&arguments[..], &["--json", "--warm-up"]].concat(),
    );
    let results = document(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for arm in results["arms"].as_array().expect("arms") {
        assert_eq!(arm["trials"].as_array().map(Vec::len), Some(4));
        assert_eq!(arm["verdict"]["met"], true, "{}", arm["verdict"]);
    }
    assert_eq!(results["schedule"]["jobs"], 8);
}

/// Twenty comparisons of runs of the same arms: the stated error rate is one in twenty, so that three or more
/// have a chance of 8 %, four or more of 2 %. And a change that matters is found.
#[expect(clippy::print_stdout, reason = "the table is what a soak is for")]
fn runs_that_do_not_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |name: &str, more: &[&str]| {
        let arguments = [
            "run", "arm-a", "arm-c", "-n", "5", "-j", "4", "--json", "--out", name,
        ];
        let output = lab(folder.path(), &[&arguments[..], more].concat());
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}",
            stderr(&output)
        );
    };
    let compare = |one: &str, other: &str| {
        let arguments = ["diff", one, other, "--json", "--allow-different-setup"];
        let comparison = document(&lab(folder.path(), &arguments));
        let arms = comparison["arms"].as_array().expect("arms").clone();
        let mut found = Vec::new();
        for arm in &arms {
            for figure in arm["figures"].as_array().expect("figures") {
                if figure["real"] == true {
                    found.push(format!(
                        "{}: {} p={}",
                        arm["name"], figure["figure"], figure["p"]
                    ));
                }
            }
        }
        found
    };
    let mut different = 0;
    for n in 0..20 {
        let (one, other) = (format!("{n}-one"), format!("{n}-other"));
        run(&one, &[]);
        run(&other, &[]);
        let found = compare(&one, &other);
        println!(
            "comparison {n:>2}: {} real differences {found:?}",
            found.len()
        );
        different += usize::from(!found.is_empty());
    }
    println!("{different} of 20 comparisons report a difference");
    assert!(different <= 3, "{different} of 20");
    run("changed", &["--set", "server.backlog=3"]);
    let found = compare("0-one", "changed");
    println!("against backlog 3: {found:?}");
    assert!(
        found
            .iter()
            .any(|figure| figure.contains("arm-a\": \"ok\"")),
        "{found:?}"
    );
}

/// Eight trials at once give the distributions of one after the other, and are faster.
#[expect(clippy::print_stdout, reason = "the table is what a soak is for")]
fn trials_at_once_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let arms = ["arm-a", "arm-c"];
    let policy = [
        "--set",
        "sysctl.net.ipv4.tcp_abort_on_overflow=0,1",
        "--set",
        "sysctl.net.ipv4.tcp_syncookies=0,1",
    ];
    let mut took_us = Vec::new();
    for (name, jobs) in [("serial", "1"), ("at-once", "8")] {
        let clock = Clock::start();
        let arguments = ["-n", "8", "-j", jobs, "--json", "--out", name];
        let output = lab(
            folder.path(),
            &[&["run"][..], &arms, &policy, &arguments].concat(),
        );
        assert!(output.status.success(), "{}", stderr(&output));
        took_us.push(clock.now_us());
    }
    let shown = lab(
        folder.path(),
        &["diff", "serial", "at-once", "--allow-different-setup"],
    );
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    println!(
        "{text}64 trials: serial {} us, eight at once {} us",
        took_us[0], took_us[1]
    );
    for word in ["worse", "better", "different (", "cannot be said"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert!(took_us[1] * 2 < took_us[0], "{took_us:?}");
}

/// Whoever has no capability enters a user namespace, and measures the same.
#[expect(clippy::print_stdout, reason = "the table is what a soak is for")]
fn without_capabilities() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "run", "arm-a", "arm-c", "-n", "6", "-j", "2", "--json", "--out",
    ];
    let with = lab(folder.path(), &[&arguments[..], &["with"]].concat());
    assert!(with.status.success(), "{}", stderr(&with));
    let mut command = Command::new(program());
    command
        .args(arguments)
        .arg("without")
        .current_dir(folder.path());
    let without = in_user_namespace(command, 65534, CloneFlags::empty(), || Ok(()));
    assert!(without.status.success(), "{}", stderr(&without));
    let shown = lab(folder.path(), &["diff", "with", "without"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    println!("{text}");
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    for word in ["worse", "better", "different (", "cannot be said"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}
