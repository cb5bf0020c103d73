//! Rules of the house that a machine can check.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder, with its path from the root and its text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(root())
                    .expect("below the root")
                    .display()
                    .to_string();
                found.push((name, fs::read_to_string(&path).expect("a file")));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn no_file_is_too_long() {
    for (name, text) in sources("src") {
        let lines = text.lines().count();
        assert!(lines <= 500, "{name} has {lines} lines; 500 at the most");
    }
}

/// The code before the unit tests of a file.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

#[test]
fn only_sys_holds_unsafe_and_only_cmd_prints() {
    for (name, text) in sources("src") {
        let code = code(&text);
        if !name.starts_with("src/sys/") {
            assert!(
                !code.contains("unsafe {") && !code.contains("unsafe fn"),
                "{name} holds unsafe"
            );
        }
        if !name.starts_with("src/cmd/") && name != "src/main.rs" {
            for word in ["println!(", "print!(", "dbg!("] {
                assert!(!code.contains(word), "{name} prints");
            }
        }
    }
}

/// Imports run downward: each layer knows only the ones named here.
#[test]
fn imports_run_downward() {
    const PURE: &[&str] = &[
        "arm",
        "figure",
        "manifest",
        "nearest",
        "observation",
        "plan",
        "random",
        "result",
        "search",
    ];
    let kernel_side: &[(&str, &[&str])] = &[
        ("sys", &[]),
        ("probe", &["sys"]),
        ("netns", &["sys", "probe"]),
        ("load", &["sys", "probe"]),
        ("wire", &["sys"]),
        ("run", &["sys", "probe", "netns", "load", "wire"]),
        ("audit", &["probe", "netns", "load"]),
        ("doctor", &["sys", "probe", "netns"]),
        ("hold", &["sys"]),
        ("report", &["audit"]),
    ];
    for (name, text) in sources("src") {
        let layer = name
            .trim_start_matches("src/")
            .split(['/', '.'])
            .next()
            .unwrap_or_default();
        let allowed: Vec<&str> = if PURE.contains(&layer) {
            PURE.to_vec()
        } else if let Some((_, below)) = kernel_side.iter().find(|(one, _)| *one == layer) {
            [PURE, *below].concat()
        } else {
            continue;
        };
        for used in code(&text).split("crate::").skip(1) {
            let used = used
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            assert!(
                used == layer || allowed.contains(&used),
                "{name} imports {used}"
            );
        }
    }
}

#[test]
fn nothing_is_unfinished() {
    for (name, text) in sources("src").into_iter().chain(sources("tests")) {
        for word in [
            "TO\u{44}O",
            "FIX\u{4d}E",
            "to\u{64}o!(",
            "unimple\u{6d}ented!(",
            "#[ig\u{6e}ore",
        ] {
            assert!(!text.contains(word), "{name} has {word}");
        }
    }
}

/// The list of figures in the reference is the one in the code.
#[test]
fn the_reference_lists_every_figure() {
    let reference = fs::read_to_string(root().join("docs/format.md")).expect("docs/format.md");
    for (name, meaning) in backlog_lab::figure::NAMED {
        assert!(
            reference.contains(&format!("| `{name}` | {meaning} |")),
            "docs/format.md lacks {name}"
        );
    }
}

/// Every label of tables and charts stands in the reference beside its figure.
#[test]
fn the_reference_maps_every_word() {
    let reference = fs::read_to_string(root().join("docs/format.md")).expect("docs/format.md");
    let words = backlog_lab::report::glossary();
    assert!(words.len() > 25, "{words:?}");
    for (label, figure, meaning) in words {
        assert!(!meaning.is_empty(), "{figure} has no meaning");
        let is_row = |line: &str| {
            let cells = line.trim_matches('|').split('|').map(str::trim);
            let mut cells = cells.map(|cell| cell.split(';').next().unwrap_or(cell));
            cells.any(|cell| cell == label) && line.contains(&format!("`{figure}`"))
        };
        assert!(
            reference.lines().any(is_row),
            "docs/format.md has no row with {label} and {figure}"
        );
    }
}

#[test]
fn the_changelog_has_this_version() {
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).expect("CHANGELOG.md");
    assert!(changelog.contains(&format!("## [{}]", env!("CARGO_PKG_VERSION"))));
}
