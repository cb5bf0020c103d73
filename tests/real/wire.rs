//! The capture of a wire, read by tcpdump and tshark, beside what the results count.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    ["ipv4", "ipv6"]
        .map(|family| {
            let name = format!("wire/the-capture-holds-what-the-results-count({family})");
            Trial::test(name, move || {
                the_capture_holds_what_the_results_count(family)
            })
        })
        .into()
}

/// What a program prints; its failure is the test's.
fn output(command: &mut Command) -> Result<String, Failed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{name} failed: {said}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn the_capture_holds_what_the_results_count(family: &str) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let arm = format!(
        "title = \"t\"\nwhy = \"w\"\nserver.backlog = 16\n\
         client = {{ connections = 60, timeout = \"3s\" }}\n\
         [link]\nkind = \"wire\"\nfamily = \"{family}\"\ndelay = \"10ms\"\nloss = \"5%\"\nduplicate = \"5%\"\n\
         drop = [{{ to = \"client\", flags = \"SYN+ACK\", nth = 1 }}]\n"
    );
    std::fs::write(folder.path().join("lossy.toml"), arm)?;
    let run = folder.path().join("run");
    // A busy machine may make the relay late, and the trial invalid; it is recorded all the same.
    let _ = Command::new(env!("CARGO_BIN_EXE_backlog-lab"))
        .current_dir(folder.path())
        .args(["run", "lossy.toml", "--quiet", "--out"])
        .arg(&run)
        .output()?;
    let results: Value = serde_json::from_slice(&std::fs::read(run.join("results.json"))?)?;
    let wire = &results["arms"][0]["trials"][0]["wire"];
    let count = |name: &str| -> u64 {
        let of = |direction: &str| wire[direction][name].as_u64().unwrap_or(0);
        of("to_server") + of("to_client")
    };
    assert!(
        count("lost") > 0 && count("dropped_by_rule") == 60 && count("duplicated") > 0,
        "{wire}"
    );

    let capture = run.join("captures/lossy.0.pcapng");
    let delivered = count("passed") + count("duplicated");
    let lines = output(Command::new("tcpdump").args(["-n", "-r"]).arg(&capture))?
        .lines()
        .count();
    assert_eq!(lines as u64, count("packets") + delivered, "{wire}");

    let comments = comments(&capture)?;
    let commented = |words: &str| comments.get(words).copied().unwrap_or(0);
    assert_eq!(commented("lost"), count("lost"));
    assert_eq!(commented("dropped by rule"), count("dropped_by_rule"));
    assert_eq!(commented("passed, duplicated"), count("duplicated"));
    assert_eq!(commented("delivered"), delivered);
    Ok(())
}

/// How often each comment stands in a capture. A checksum that is wrong would be a packet that no wire carries.
fn comments(capture: &Path) -> Result<BTreeMap<String, u64>, Failed> {
    let fields = [
        "-T",
        "fields",
        "-e",
        "tcp.checksum.status",
        "-e",
        "frame.comment",
    ];
    let text = output(
        Command::new("tshark")
            .args(["-o", "tcp.check_checksum:TRUE", "-r"])
            .arg(capture)
            .args(fields),
    )?;
    let mut comments = BTreeMap::new();
    for line in text.lines() {
        let (status, comment) = line.split_once('\t').ok_or("a line without its fields")?;
        assert_eq!(status, "1", "a packet without a good checksum: {line}");
        *comments.entry(comment.to_owned()).or_default() += 1;
    }
    Ok(comments)
}
