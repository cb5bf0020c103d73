//! What a load tool says, from its stored output to the table.

use backlog_lab::arm::Arm;
use backlog_lab::observation::{Measured, ToolRun};
use backlog_lab::report;
use backlog_lab::result::{Results, Status};

use crate::pipeline::{Scripted, measured, run};

const CLAIMS: &str = "claims = { completed = '(\\d+) done', failed = '(\\d+) failed' }";

fn arm(name: &str, claims: &str) -> Arm {
    let text = format!(
        "title = \"t\"\nwhy = \"w\"\n[server]\nbacklog = 1\n[client]\ncommand = [\"/usr/bin/load\", \"{{url}}\"]\n{claims}"
    );
    Arm {
        name: name.into(),
        ..toml::from_str(&text).expect("an arm")
    }
}

/// No attempt is known, and the tool wrote this.
fn readings(stdout: &str, in_time: bool) -> Measured {
    Measured {
        tool: Some(ToolRun {
            command: vec!["/usr/bin/load".into(), "http://127.0.0.1:1/".into()],
            started_us: 10,
            ended_us: 1_500_010,
            in_time,
            exit_code: Some(3),
            ended: "exited with 3".into(),
            stdout: stdout.into(),
            stderr: String::new(),
            left_out_bytes: 0,
        }),
        ..measured(Vec::new(), Vec::new())
    }
}

fn results(arms: Vec<Arm>, stdout: &str, in_time: bool) -> Results {
    run(arms, &Scripted(|_: &str| Ok(readings(stdout, in_time))))
}

#[test]
fn a_claim_is_a_number_or_unknown_and_never_zero() {
    let results = results(vec![arm("tools/load", CLAIMS)], "12 done\n30 done\n", true);
    let trial = &results.arms[0].trials[0];
    assert_eq!(trial.status, Status::Ok, "{:?}", trial.reason);
    let tool = trial.tool.as_ref().expect("a tool");
    assert_eq!(tool.claimed_completed, Some(42.0));
    assert_eq!(tool.claimed_failed, None);
    let summary = &results.arms[0].summary;
    assert!(summary.contains_key("claimed-completed"));
    assert!(!summary.contains_key("claimed-failed"));
    assert!(!summary.contains_key("attempts") && !summary.contains_key("ok"));
    let text = &results.arms[0].verdict.text;
    assert!(
        text.contains("load exited with 3 after 1.5 s, and says: 42 completed, nothing of failed."),
        "{text}"
    );
    assert!(!text.contains("0 of 0"), "{text}");
}

#[test]
fn a_tool_that_was_ended_is_said_to_be() {
    let results = results(
        vec![arm("tools/load", "limit = \"1500ms\"")],
        "waiting\n",
        false,
    );
    let notes = &results.arms[0].trials[0].notes;
    let says_so = |note: &String| note == "load was ended at its limit of 1.5s (client.limit)";
    assert!(notes.iter().any(says_so), "{notes:?}");
}

/// Names are long, words are longer, and no line is wider than the terminal.
#[test]
fn the_table_fits_80_and_120_columns() {
    let words = "upstream timed out (110: Connection timed out) while reading ".repeat(3);
    let long = "symptoms/a-program-with-a-long-name/server=closed-early-and-reset";
    for (name, claims) in [("t", CLAIMS), (long, CLAIMS), ("t", ""), (long, "")] {
        let results = results(vec![arm(name, claims)], &format!("7 done\n{words}\n"), true);
        for width in [80, 120] {
            let table = report::comparison(&results, width);
            for line in table.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(table.contains(name), "{table}");
            let says = if claims.is_empty() {
                "upstream timed out"
            } else {
                "7"
            };
            assert!(table.contains(says), "{table}");
        }
    }
}
