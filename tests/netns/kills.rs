//! A lab that is killed leaves nothing behind but its data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use backlog_lab::load::Clock;
use backlog_lab::observation::Observation;
use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::trust::{document, lab, soak, stderr};
use crate::{program, test};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test("trust/killed-at-any-moment", || killed_at_any_moment(20)),
        test(
            "trust/a-programs-folder-goes-with-the-killed-lab",
            a_programs_folder_goes_with_the_killed_lab,
        ),
        soak("soak/killed-at-any-moment", || killed_at_any_moment(200)),
    ]
}

pub(crate) const VICTIM: &str = r#"
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

/// Whatever the moment and the signal: links, mounts, processes and namespaces are those that were there before, and
/// what had been stored can be read. Four of five are hit between the first stored trial and the last, the others
/// while they begin.
fn killed_at_any_moment(times: usize) {
    let mut signals = vec![
        Signal::SIGKILL,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
    ];
    // What nohup(1) has ignored for these tests, their children ignore too, and run on.
    signals.retain(|signal| !is_ignored(*signal));
    let mut random = Random::new();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("victim.toml"), VICTIM).expect("a file");
    let mut had_namespaces = false;
    for n in 0..times {
        let (seed, signal) = (random.0, signals[n % signals.len()]);
        let (begins, after_ms) = (n % 5 == 4, random.below(500));
        let told = format!("kill {n}, seed {seed}: {signal} after {after_ms} ms");
        let run = format!("run-{n}");
        let mark = format!("BACKLOG_LAB_KILL={seed:016x}");
        let before = Traces::of(&mark);
        assert_eq!(before.processes, BTreeSet::new(), "{told}");
        let (key, value) = mark.split_once('=').expect("a mark");
        let mut child = Command::new(program())
            .args([
                "run",
                "victim.toml",
                "-n",
                "300",
                "-j",
                "2",
                "--json",
                "--no-charts",
            ])
            .args(["--out", &run])
            .env(key, value)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let clock = Clock::start();
        let observations = folder.path().join(&run).join("observations");
        while !begins && stored(&observations).is_empty() {
            assert!(clock.now_us() < 60_000_000, "{told}: no trial was stored");
            assert!(
                child.try_wait().expect("a state").is_none(),
                "{told}: it ended"
            );
            clock.sleep_until(clock.now_us() + 5_000);
        }
        clock.sleep_until(clock.now_us() + after_ms * 1_000);
        let namespaces = namespaces_of(&child);
        if !begins {
            let running = Traces::of(&mark);
            assert!(
                running.processes.contains(&child.id()),
                "{told}: {running:?}"
            );
            // One more than the one it was started in; between two trials there may be none.
            let own = fs::metadata("/proc/thread-self/ns/net").expect("a namespace");
            had_namespaces |= running.namespaces.iter().any(|one| *one != own.st_ino());
        }
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        kill(pid, signal).expect("a signal");
        let status = child.wait().expect("an end");
        let hit = status.code().is_none_or(|code| code >= 128);
        assert!(hit, "{told}: it was running, and ended with {status}");
        nobody_is_left_in(&namespaces, &told);
        let clock = Clock::start();
        while Traces::of(&mark).has_more_than(&before) {
            assert!(
                clock.now_us() < 2_000_000,
                "{told}: {:?}, before {before:?}",
                Traces::of(&mark)
            );
            clock.sleep_until(clock.now_us() + 20_000);
        }
        assert!(begins || !stored(&observations).is_empty(), "{told}");
        reads_back(folder.path(), &run, &told);
    }
    assert!(had_namespaces, "no kill hit a trial");
    let next = lab(
        folder.path(),
        &["run", "facts/closed-port", "--out", "next"],
    );
    assert_eq!(next.status.code(), Some(0), "{}", stderr(&next));
}

/// A program's folder is the one thing that has a name outside of the run's folder. It goes with a lab that is killed,
/// with what the program has put there, and so does a grandchild in a session of its own.
fn a_programs_folder_goes_with_the_killed_lab() {
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let arm = "title = \"t\"\nwhy = \"w\"\n[server]\nport = 7000\nready-within = \"60s\"\n\
        command = [\"sh\", \"-c\", \"mkdir below; setsid sleep 60 & echo $PWD > below/there; wait\"]\n\
        files.\"conf/a\" = \"text\"\n";
    fs::write(folder.path().join("program.toml"), arm).expect("a file");
    let (key, value) = ("BACKLOG_LAB_KILL", format!("{:016x}", Random::new().0));
    let mut child = Command::new(program())
        .args(["run", "program.toml", "-q", "--out", "run"])
        .env("TMPDIR", &temporary)
        .env(key, &value)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let clock = Clock::start();
    let there = || {
        let made = entries(&temporary).pop()?;
        (made.join("below/there").exists() && made.join("conf/a").exists()).then_some(())
    };
    while there().is_none() {
        assert!(clock.now_us() < 30_000_000, "the program does not start");
        clock.sleep_until(clock.now_us() + 5_000);
    }
    child.kill().expect("a signal");
    child.wait().expect("an end");
    let clock = Clock::start();
    let left = || {
        (
            entries(&temporary),
            Traces::of(&format!("{key}={value}")).processes,
        )
    };
    while left() != (Vec::new(), BTreeSet::new()) {
        assert!(clock.now_us() < 5_000_000, "{:?}", left());
        clock.sleep_until(clock.now_us() + 5_000);
    }
}

/// What a run could leave behind: links, mounts and named namespaces of this machine, and the processes that carry
/// its mark in their environment with the network namespaces of their threads.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    links: BTreeSet<String>,
    mounts: BTreeSet<String>,
    names: BTreeSet<PathBuf>,
    processes: BTreeSet<u32>,
    namespaces: BTreeSet<u64>,
}

impl Traces {
    /// Whether something is there that was not; what others have taken away meanwhile is no trace.
    fn has_more_than(&self, before: &Self) -> bool {
        !(self.links.is_subset(&before.links)
            && self.mounts.is_subset(&before.mounts)
            && self.names.is_subset(&before.names)
            && self.processes.is_empty()
            && self.namespaces.is_empty())
    }

    fn of(mark: &str) -> Self {
        let marked = |process: &PathBuf| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| variable == mark.as_bytes())
        };
        let processes: Vec<PathBuf> = entries("/proc").into_iter().filter(marked).collect();
        let threads = processes.iter().flat_map(|one| entries(one.join("task")));
        let pid = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
        Self {
            links: links().into_iter().collect(),
            mounts: fs::read_to_string("/proc/self/mountinfo")
                .expect("mounts")
                .lines()
                .map(str::to_owned)
                .collect(),
            names: entries("/run/netns").into_iter().collect(),
            namespaces: threads
                .filter_map(|thread| Some(fs::metadata(thread.join("ns/net")).ok()?.st_ino()))
                .collect(),
            processes: processes.iter().filter_map(pid).collect(),
        }
    }
}

/// What a folder holds; nothing when it is not there.
fn entries(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).into_iter().flatten().flatten();
    read.map(|entry| entry.path()).collect()
}

/// The observations in a folder.
fn stored(observations: &Path) -> Vec<PathBuf> {
    let mut files = entries(observations);
    files.retain(|path| path.extension().is_some_and(|one| one == "json"));
    files
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

/// Whether this process, and so each that it starts, ignores a signal.
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .expect("the ignored signals");
    let set = u64::from_str_radix(set.trim(), 16).expect("a set of signals");
    set & (1 << (signal as u32 - 1)) != 0
}

/// Within two seconds no thread of any process is in one of these namespaces, and no mount holds one.
fn nobody_is_left_in(namespaces: &BTreeMap<u64, File>, told: &str) {
    let clock = Clock::start();
    loop {
        let left: Vec<PathBuf> = entries("/proc")
            .into_iter()
            .flat_map(|process| entries(process.join("task")))
            .map(|task| task.join("ns/net"))
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
    for path in stored(&folder.join(run).join("observations")) {
        let text = fs::read(&path).expect("a file");
        let read: Result<Observation, _> = serde_json::from_slice(&text);
        assert!(read.is_ok(), "{told}: {}: {:?}", path.display(), read.err());
    }
    let report = lab(folder, &["report", run, "--json", "--no-charts"]);
    let code = report.status.code();
    assert!(matches!(code, Some(0 | 4)), "{told}: {}", stderr(&report));
    document(&report);
}
