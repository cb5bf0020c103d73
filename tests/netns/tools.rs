//! Load tools: what they say, how they end, and what stands beside it.

use std::sync::Arc;

use backlog_lab::arm::Source;
use backlog_lab::load::Progress;
use backlog_lab::observation::{Measured, Observation, SCHEMA_VERSION, TrialStatus};
use backlog_lab::plan::Plan;
use backlog_lab::result::{Status, TrialResult, trial_result};
use backlog_lab::run::{KernelLab, Lab, TrialError};
use libtest_mimic::Trial;

use crate::test;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        test(
            "tools/claims-stand-beside-counts",
            claims_stand_beside_counts,
        ),
        test("tools/a-tool-ends-at-its-limit", a_tool_ends_at_its_limit),
        test(
            "tools/a-missing-tool-is-skipped-with-its-package",
            a_missing_tool_is_skipped_with_its_package,
        ),
    ]
}

/// An arm whose client is a shell that runs this script.
fn plan(script: &str, more: &str) -> Plan {
    let text = format!(
        "title = \"a tool\"\nwhy = \"a test\"\nserver.backlog = 4\nprotocol.kind = \"http\"\n\
         [client]\ncommand = [\"bash\", \"-c\", '''{script}''']\n{more}"
    );
    let arms = Source::new("tool", &text).arms(&[]).expect("an arm");
    Plan::new(arms, 1, 1, Vec::new())
}

fn observe(plan: &Plan) -> Result<Measured, TrialError> {
    KernelLab::default().observe(plan.order()[0], &Arc::new(Progress::default()))
}

fn result(plan: &Plan) -> TrialResult {
    let measured = observe(plan).unwrap_or_else(|error| panic!("{error}"));
    let observation = Observation {
        schema_version: SCHEMA_VERSION,
        arm: "tool".into(),
        index: 0,
        status: TrialStatus::Measured,
        reason: None,
        measured: Some(measured),
    };
    trial_result(&plan.arms[0].settings, &observation)
}

/// Two connections, one answered and read; the tool claims what it likes.
fn claims_stand_beside_counts() {
    let script = "exec 3<>/dev/tcp/{host}/{port}; exec 4<>/dev/tcp/{host}/{port}\n\
         printf \"GET / HTTP/1.1\\r\\n\\r\\n\" >&3; cat <&3\n\
         echo 7 completed; echo nothing else >&2; exit 4";
    let claims = "claims = { completed = '(\\d+) completed', failed = '(\\d+) failed' }";
    let result = result(&plan(script, claims));
    assert_eq!(result.status, Status::Ok, "{:?}", result.reason);
    let tool = result.tool.as_ref().expect("a tool");
    assert_eq!(tool.claimed_completed, Some(7.0), "{tool:?}");
    assert_eq!(tool.claimed_failed, None, "{tool:?}");
    assert_eq!((tool.exit_code, tool.in_time), (Some(4), true));
    assert_eq!(tool.last_words.as_deref(), Some("nothing else"));
    let says_so = |note: &String| note.contains("says nothing of failed");
    assert!(result.notes.iter().any(says_so), "{:?}", result.notes);
    // The kernel and the server agree on two; of attempts nothing is known, and that is not zero.
    assert_eq!(result.counters.server["Tcp.PassiveOpens"], Some(2));
    assert_eq!(result.accepted, Some(2));
    assert_eq!((result.attempts, result.wasted_accepts), (None, None));
    assert!(result.outcomes.is_none() && result.ghosts.is_none() && result.causes.is_none());
    assert!(result.open_books().next().is_none(), "{:?}", result.books);
}

fn a_tool_ends_at_its_limit() {
    let result = result(&plan("echo {port} waits; sleep 1000", "limit = \"300ms\""));
    let tool = result.tool.as_ref().expect("a tool");
    assert!(!tool.in_time && tool.ran_ms >= 300.0, "{tool:?}");
    let says_so = |note: &String| note.contains("was ended at its limit of 300ms");
    assert!(result.notes.iter().any(says_so), "{:?}", result.notes);
}

fn a_missing_tool_is_skipped_with_its_package() {
    let mut plan = plan("echo {port}", "package = \"load-tool\"");
    plan.arms[0].settings.client.command[0] = "no-such-load-tool".into();
    match observe(&plan) {
        Err(TrialError::Skipped(reason)) => assert!(
            reason.contains("no-such-load-tool") && reason.contains("apt-get install load-tool"),
            "{reason}"
        ),
        other => panic!("{other:?}"),
    }
}
