//! Writes the shipped arms and the source revision into the binary.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));

    let arms = root.join("arms");
    println!("cargo::rerun-if-changed={}", arms.display());
    let mut files = Vec::new();
    collect(&arms, &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file
            .strip_prefix(&arms)
            .expect("below arms")
            .with_extension("");
        writeln!(
            list,
            "({:?}, include_str!({:?})),",
            name.display().to_string(),
            file.display().to_string()
        )
        .expect("writing to a string");
    }
    list.push(']');
    fs::write(out.join("shipped_arms.rs"), list).expect("OUT_DIR is writable");

    println!(
        "cargo::rerun-if-changed={}",
        root.join(".git/HEAD").display()
    );
    println!(
        "cargo::rerun-if-changed={}",
        root.join(".git/refs/heads").display()
    );
    println!(
        "cargo::rustc-env=BACKLOG_LAB_GIT={}",
        revision(&root).unwrap_or_default()
    );
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder).expect("arms/ is readable") {
        let path = entry.expect("arms/ is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            files.push(path);
        }
    }
}

/// The short revision, or nothing outside of a checkout.
fn revision(root: &Path) -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .current_dir(root)
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
