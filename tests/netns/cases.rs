//! Cases of which an arm's expectations cannot say everything: what was seen when, and by how many.

use std::sync::Arc;

use backlog_lab::arm::Catalog;
use backlog_lab::load::Progress;
use backlog_lab::observation::{Attempt, Measured};
use backlog_lab::plan::Plan;
use backlog_lab::run::{KernelLab, Lab};
use libtest_mimic::Trial;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::test;

pub(crate) fn trials() -> Vec<Trial> {
    // K06 holds 3,000 sockets; what the soft limit withholds, the hard limit may allow.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("a limit up to the hard one");
    }
    vec![
        test(
            "cases/k36-a-full-unix-queue-does-not-wait",
            k36_a_full_unix_queue_does_not_wait,
        ),
        test(
            "cases/k03-a-refusal-does-not-wait",
            k03_a_refusal_does_not_wait,
        ),
        test("cases/k06-two-waves-of-answers", k06_two_waves_of_answers),
        test(
            "cases/k14-the-tail-is-the-overflows",
            k14_the_tail_is_the_overflows,
        ),
        test(
            "cases/k38-the-storm-is-served-in-portions",
            k38_the_storm_is_served_in_portions,
        ),
    ]
}

fn observe(arm: &str) -> Measured {
    let catalog = Catalog::new(std::path::Path::new("/nonexistent"));
    let arms = catalog.load(&[arm.to_owned()], &[]).expect("a shipped arm");
    let plan = Plan::new(arms, 1, 1, Vec::new());
    let measured = KernelLab::default().observe(plan.order()[0], &Arc::new(Progress::default()));
    measured.unwrap_or_else(|error| panic!("{arm}: {error}"))
}

/// Time from start to answer of everybody who was answered.
fn answers_us(measured: &Measured) -> Vec<u64> {
    let answer = |one: &Attempt| Some(one.first_byte_us? - one.started_us);
    measured.attempts.iter().filter_map(answer).collect()
}

/// The growth of the listener's drop counter in the whole trial.
fn drops(measured: &Measured) -> u32 {
    let listener = &measured.listeners[0];
    let known = listener.before.drops.zip(listener.after.drops);
    let (before, after) = known.expect("this kernel counts");
    after.wrapping_sub(before)
}

/// A closed port answers within the call, so the fastest of three knows it at once, and what it knows is a refusal.
fn k03_a_refusal_does_not_wait() {
    let measured = observe("cases/k03-control");
    let refused = |one: &Attempt| one.errno.as_deref() == Some("ECONNREFUSED");
    assert!(measured.attempts.iter().all(refused));
    let took = |one: &Attempt| one.ended_us - one.started_us;
    let fastest = measured.attempts.iter().map(took).min();
    assert!(fastest < Some(50_000), "{fastest:?} us");
}

/// Of 24 clients that met a full `AF_UNIX` queue, the fastest knew it within 10 ms, and half before their timeout of 500 ms.
fn k36_a_full_unix_queue_does_not_wait() {
    let measured = observe("cases/k36-unix-full");
    let sent_away = measured
        .attempts
        .iter()
        .filter(|one| one.errno.as_deref() == Some("EAGAIN"));
    let mut waits_us: Vec<u64> = sent_away.map(|one| one.ended_us - one.started_us).collect();
    waits_us.sort_unstable();
    assert_eq!(waits_us.len(), 24);
    assert!(
        waits_us[0] < 10_000 && waits_us[12] < 490_000,
        "{waits_us:?}"
    );
}

/// While nothing is accepted, 512 wait and 988 first SYNs have been dropped; they come back a second apart.
fn k06_two_waves_of_answers() {
    let measured = observe("cases/k06-default-511");
    let samples = &measured.listeners[0].samples;
    let before_retries = samples.at_us.partition_point(|at_us| *at_us < 950_000) - 1;
    assert_eq!(samples.recv_q[before_retries], 512);
    assert_eq!(samples.drops[before_retries], Some(988));
    let answers = answers_us(&measured);
    let lost = measured
        .attempts
        .iter()
        .filter(|one| one.first_byte_us.is_none());
    let lost: Vec<&Attempt> = lost.collect();
    assert!(
        lost.len() <= 10 && lost.iter().all(|one| one.errno.is_none()),
        "{lost:?}"
    );
    // Whoever was dropped until then is back 3 s after its start, to a few ticks.
    let first_wave = answers.iter().filter(|us| **us < 2_980_000).count();
    assert_eq!(first_wave, 512);
    assert!(drops(&measured) >= 3 * 988, "{}", drops(&measured));
}

/// Nobody fails; everybody in the tail lost at least one SYN, and nobody else did.
fn k14_the_tail_is_the_overflows() {
    let measured = observe("cases/k14-one-second-tail");
    let answers = answers_us(&measured);
    assert_eq!(answers.len(), 200);
    let tail = answers.iter().filter(|us| **us >= 1_000_000).count();
    let drops = usize::try_from(drops(&measured)).expect("a count");
    assert!(tail > 0 && tail <= drops, "{tail} late, {drops} drops");
}

/// Everybody is served in the end, by 51 at most for each look at a full queue, and the last waits for seconds.
fn k38_the_storm_is_served_in_portions() {
    let small = answers_us(&observe("cases/k38-reconnect-storm"));
    let large = answers_us(&observe("cases/k38-reconnect-storm-control"));
    assert_eq!((small.len(), large.len()), (500, 500));
    let slowest = |answers: &[u64]| answers.iter().copied().max().expect("answers");
    assert!(
        slowest(&small) > slowest(&large) + 400_000,
        "{} us and {} us",
        slowest(&small),
        slowest(&large)
    );
    let at_once = small.iter().filter(|us| **us < 1_900_000).count();
    assert!(
        at_once <= 52,
        "{at_once} answered before a SYN was repeated"
    );
}
