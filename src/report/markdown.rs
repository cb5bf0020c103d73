//! The run's README.md.

use std::fmt::Write as _;

use super::charts::Chart;
use super::table;
use crate::manifest::Manifest;
use crate::observation::Observation;
use crate::result::Results;

pub(super) fn readme(manifest: &Manifest, observations: &[Observation], results: &Results, charts: &[Chart]) -> String {
    let mut text = String::new();
    let unknown = || "unknown".to_owned();
    let host = &results.host;
    let _ = writeln!(text, "# Run {}\n", results.run_id);
    let _ = writeln!(
        text,
        "Measured on Linux {} ({}, {} processors) with backlog-lab {}, seed {}, {} trial(s) of each arm{}.\n",
        host.kernel.clone().unwrap_or_else(unknown),
        host.architecture.clone().unwrap_or_else(unknown),
        host.cpus.map_or_else(unknown, |cpus| cpus.to_string()),
        results.tool.version,
        results.seed,
        manifest.plan.trials,
        if results.complete {
            ""
        } else {
            "; the run is partial"
        }
    );
    for one in &results.overrides {
        let _ = writeln!(text, "Overridden for this run: `{one}`\n");
    }
    let (heads, rows) = table::cells(results, true);
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = heads
        .iter()
        .map(|head| head.replace("over- ", "over").replace(':', " "))
        .collect();
    text += &line(&heads);
    let rule: Vec<String> = (0..heads.len())
        .map(|n| if n == 0 { "---" } else { "--:" }.into())
        .collect();
    text += &line(&rule);
    for row in &rows {
        text += &line(row);
    }
    text.push('\n');
    for arm in &results.arms {
        let _ = writeln!(
            text,
            "## {}: {}\n\n{}\n\n{}\n",
            arm.name, arm.title, arm.settings.why, arm.verdict.text
        );
    }
    let command: Vec<String> = manifest.command.iter().map(|word| quoted(word)).collect();
    let _ = writeln!(text, "## Again\n\n```sh\n{}\n```\n", command.join(" "));
    text
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
