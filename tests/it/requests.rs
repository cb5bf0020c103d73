//! What becomes of the requests of kept connections in results, reports and stored files.

use backlog_lab::arm::{Arm, Source};
use backlog_lab::observation::{Attempt, Ended, Observation, Request, SCHEMA_VERSION, TrialStatus};
use backlog_lab::plan::Plan;
use backlog_lab::report;
use backlog_lab::result::{Cause, Kind, Outcome, RequestsResult, TrialResult};

use crate::pipeline::{Scripted, accept, attempt, measured, port, run, run_plan};

fn arms(client: &str) -> Vec<Arm> {
    let text = format!(
        "title = \"t\"\nwhy = \"w\"\nserver.backlog = 1\n[client]\n{client}\n[protocol]\nkind = \"http\"\nkeep-alive = true\nrequests = 3"
    );
    Source::new("kept", &text).arms(&[]).expect("arms")
}

/// A request that was meant for `at_us`, sent 10 us later, and answered 100 us after that.
fn request(at_us: u64, right: bool) -> Request {
    Request {
        intended_us: at_us,
        sent_us: at_us + 10,
        first_byte_us: Some(at_us + 90),
        answered_us: Some(at_us + 110),
        right,
    }
}

/// Three connections: all three requests answered; the second answered wrongly; no answer to the second.
fn readings() -> Vec<Attempt> {
    let unanswered = Request {
        first_byte_us: None,
        answered_us: None,
        ..request(200, false)
    };
    [
        (
            Ended::Answered,
            vec![request(0, true), request(200, true), request(400, true)],
        ),
        (
            Ended::WrongAnswer,
            vec![request(0, true), request(200, false)],
        ),
        (Ended::TimeUp, vec![request(0, true), unanswered]),
    ]
    .into_iter()
    .zip(0..)
    .map(|((ended, requests), n)| Attempt {
        first_byte_us: Some(90),
        requests,
        ..attempt(n, port(n), ended)
    })
    .collect()
}

fn trial(client: &str, attempts: &[Attempt]) -> TrialResult {
    let accepts = (0..3).map(|n| accept(50, port(n))).collect::<Vec<_>>();
    let lab = Scripted(|_: &str| Ok(measured(attempts.to_vec(), accepts.clone())));
    run(arms(client), &lab).arms.remove(0).trials.remove(0)
}

/// An attempt that is not ok has failed in one of its requests, the last; what was answered before counts as answered.
#[test]
fn answered_and_failed_are_told_apart() {
    let trial = trial("connections = 3", &readings());
    let told: RequestsResult = trial.requests.expect("requests");
    assert_eq!((told.answered, told.failed), (5, 2));
    // The last answer of a flood ends its time: five in 510 us.
    assert_eq!(told.answered_per_s.map(f64::round), Some(9_804.0));
    assert_eq!(
        (told.sent_ms.max, told.intended_ms.max),
        (Some(0.1), Some(0.11))
    );
    assert_eq!(trial.count(Outcome::Ok), Some(1));
    assert_eq!(trial.count(Outcome::ReadTimeout), Some(1));
    // Its server had answered before: the accept was not wasted, and nobody waited in the queue.
    assert_eq!(trial.wasted_accepts, Some(0));
    let causes = trial.causes.expect("causes");
    assert_eq!(causes.get(&Cause::NotAnswered), Some(&1));
    assert_eq!(causes.get(&Cause::WaitedInAcceptQueue), Some(&0));
}

/// More attempts than connections are what a closing server makes of them; fewer are a hole in the records.
#[test]
fn a_close_between_makes_more_attempts() {
    use backlog_lab::result::Status;
    let status = |connections: u32| {
        let client = format!("connections = {connections}");
        trial(&client, &readings()).status
    };
    assert_eq!(status(2), Status::Ok);
    assert_eq!(status(3), Status::Ok);
    assert_eq!(status(4), Status::Invalid);
}

/// An attempt from before there were requests is read as one without.
#[test]
fn old_observations_are_read() {
    let mut observation = Observation {
        schema_version: SCHEMA_VERSION,
        arm: "kept".into(),
        index: 0,
        status: TrialStatus::Measured,
        reason: None,
        measured: Some(measured(readings(), Vec::new())),
    };
    let text = serde_json::to_string(&observation).expect("text");
    assert!(text.contains("[0,10,90,110,true]"), "{text}");
    assert_eq!(
        serde_json::from_str::<Observation>(&text).expect("an observation"),
        observation
    );
    for attempt in observation
        .measured
        .iter_mut()
        .flat_map(|one| &mut one.attempts)
    {
        attempt.requests.clear();
    }
    let text = serde_json::to_string(&observation).expect("text");
    assert!(!text.contains("requests"), "{text}");
    assert_eq!(
        serde_json::from_str::<Observation>(&text).expect("an observation"),
        observation
    );
}

#[test]
fn the_report_has_a_row_for_each_request_and_steps_tell_requests() {
    let arms = arms("concurrency = [2, 3]\nduration = \"1s\"");
    let lab = Scripted(|_: &str| {
        Ok(measured(
            readings(),
            (0..3).map(|n| accept(50, port(n))).collect(),
        ))
    });
    let results = run_plan(Plan::new(arms, 1, 7, Vec::new()), &lab);
    let staircase = &results.staircases[0];
    assert!(staircase.per_request);
    assert_eq!(staircase.steps[0].answered_per_s, Some(5.0));
    let table = report::staircases(&results, 80);
    assert!(table.contains("requests"), "{table}");
    let verdict = &results.arms[0].verdict.text;
    assert!(
        verdict.contains("Requests: 5 answered over 3 connections"),
        "{verdict}"
    );
}

/// A stall that only a later request of a connection met is a wait like any other.
#[test]
fn a_slow_later_request_makes_the_trial_slow() {
    let slow = Request {
        answered_us: Some(600_200),
        ..request(200, true)
    };
    let kept = Attempt {
        requests: vec![request(0, true), slow],
        ..attempt(0, port(0), Ended::Answered)
    };
    let lab = Scripted(|_: &str| Ok(measured(vec![kept.clone()], vec![accept(50, port(0))])));
    let arm = run(arms("connections = 1"), &lab).arms.remove(0);
    assert_eq!(arm.verdict.kind, Some(Kind::Slow));
    assert!(arm.verdict.text.contains("0.6 s"), "{}", arm.verdict.text);
}
