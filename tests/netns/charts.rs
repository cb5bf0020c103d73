//! Runs with pictures: on a machine without fonts, beside broken ones, and where a picture cannot be written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::Trial;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::{program, test};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test(
            "charts/need-no-font-of-the-system",
            need_no_font_of_the_system,
        ),
        test("charts/that-fail-cost-no-data", that_fail_cost_no_data),
        test("charts/are-drawn-as-asked", are_drawn_as_asked),
    ]
}

/// A short run whose clients lose, in `folder/run`.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let quick = [
        "run",
        "cases/k25-wrong-cures",
        "cases/k25-wrong-cures-backlog",
        "facts/closed-port",
        "--quiet",
        "--out",
        "run",
    ];
    let mut command = Command::new(program());
    command.args(quick).args(arguments).current_dir(folder);
    command.output().expect("the program starts")
}

fn report(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["report", "run"]).args(arguments);
    command.current_dir(folder);
    command
}

/// Every derived file of the run, by name.
fn derived(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let run = folder.join("run");
    let mut files = BTreeMap::new();
    for part in ["", "charts", "data"] {
        for entry in fs::read_dir(run.join(part)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                files.insert(path.clone(), fs::read(path).expect("a file"));
            }
        }
    }
    files
}

fn succeeded(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
}

/// The same bytes with empty font folders, with broken fonts in them, and with no home and no fontconfig.
fn need_no_font_of_the_system() {
    let folder = tempfile::tempdir().expect("a folder");
    succeeded(&run(folder.path(), &[]));
    let before = derived(folder.path());
    let svg = fs::read_to_string(folder.path().join("run/charts/comparison.svg")).expect("a chart");
    for text in [
        "k25-wrong-cures",
        "closed-port",
        "34",
        "overflows",
        "idle CPU",
    ] {
        assert!(svg.contains(text), "the comparison does not say {text}");
    }
    let path = folder.path().to_owned();
    // The mounts are seen by this thread and what it starts, and vanish with it.
    let inside = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).expect("a mount namespace");
        let none = None::<&str>;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).expect("mounts of its own");
        let home = path.join("home");
        let fonts = [home.join(".fonts"), PathBuf::from("/usr/share/fonts")];
        fs::create_dir_all(&fonts[0]).expect("a folder");
        if fonts[1].exists() {
            mount(
                Some("none"),
                &fonts[1],
                Some("tmpfs"),
                MsFlags::empty(),
                none,
            )
            .expect("no fonts");
        }
        let same = |what: &str| {
            let mut report = report(&path, &[]);
            report
                .env("HOME", &home)
                .env("FONTCONFIG_FILE", "/nonexistent");
            succeeded(&report.output().expect("the program starts"));
            assert!(derived(&path) == before, "other bytes {what}");
        };
        same("without fonts");
        for fonts in fonts.iter().filter(|fonts| fonts.exists()) {
            fs::write(fonts.join("empty.otf"), "").expect("a file");
            fs::write(fonts.join("text.ttf"), "no font at all").expect("a file");
            std::os::unix::fs::symlink("/nonexistent.ttf", fonts.join("dangling.ttf"))
                .expect("a link");
        }
        same("beside broken fonts");
    });
    inside.join().expect("the same pictures");
}

/// Where charts cannot be written the results, the data and the README are there all the same.
fn that_fail_cost_no_data() {
    let folder = tempfile::tempdir().expect("a folder");
    succeeded(&run(folder.path(), &["--no-charts"]));
    assert!(!folder.path().join("run/charts").exists());
    let before = fs::read(folder.path().join("run/results.json")).expect("results");
    for name in ["results.json", "data/attempts.csv", "README.md"] {
        fs::remove_file(folder.path().join("run").join(name)).expect("a derived file");
    }
    fs::write(folder.path().join("run/charts"), "in the way").expect("a file");
    let output = report(folder.path(), &[])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(4));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("no chart comparison: "), "{stderr}");
    let read = |name: &str| fs::read(folder.path().join("run").join(name)).expect(name);
    assert!(read("results.json") == before);
    assert!(!read("data/attempts.csv").is_empty());
    let readme = String::from_utf8(read("README.md")).expect("a text");
    assert!(readme.contains("## Result") && !readme.contains("charts/"));
}

/// Theme and size are obeyed, the README shows what was drawn, and a wrong size is a usage error.
fn are_drawn_as_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    succeeded(&run(
        folder.path(),
        &["--theme", "dark", "--size", "800x450"],
    ));
    let read = |name: &str| fs::read(folder.path().join("run/charts").join(name)).expect(name);
    let png = read("comparison.png");
    let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((side(16), side(20)), (800, 450));
    let svg = String::from_utf8(read("outcomes.svg")).expect("a text");
    assert!(svg.contains("width=\"800\"") && svg.contains("#12171E"));
    let readme = fs::read_to_string(folder.path().join("run/README.md")).expect("a README");
    for name in [
        "comparison",
        "outcomes",
        "queue-depth",
        "latency",
        "counters",
    ] {
        assert!(readme.contains(&format!("](charts/{name}.png)")), "{name}");
    }
    for text in [
        "k25-wrong-cures: 6 of 40 connected, 34 overflows",
        "nobody speaks",
        "| `net.ipv4.tcp_max_syn_backlog` |",
        "backlog-lab run cases/k25-wrong-cures",
    ] {
        assert!(readme.contains(text), "{text}");
    }
    let output = report(folder.path(), &["--size", "10x10"])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
}
