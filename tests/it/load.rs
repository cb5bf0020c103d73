//! Rates over the time in which there was load.

use backlog_lab::observation::Ended;

use crate::pipeline::{accept, attempt, measured, one, port};

/// Twelve at once, of whom two come again a second later: what is accepted per second is not what a pause makes of it.
#[test]
fn the_pause_before_a_repeated_syn_is_no_time_of_load() {
    let at_us = |n: u32| match n {
        0..10 => u64::from(n) * 10_000,
        _ => 1_000_000 + u64::from(n - 10) * 10_000,
    };
    let burst = || {
        let attempts = (0..12).map(|n| {
            let mut one = attempt(n, port(n), Ended::Answered);
            (one.first_byte_us, one.ended_us) = (Some(at_us(n) + 50), at_us(n) + 100);
            one
        });
        let accepts = (0..12).map(|n| accept(at_us(n), port(n)));
        let mut one = measured(attempts.collect(), accepts.collect());
        let samples = &mut one.listeners[0].samples;
        samples.at_us = (0..1_020).map(|ms| ms * 1_000).collect();
        samples.recv_q = (0..1_020)
            .map(|ms| u32::from(matches!(ms, 0..95 | 1_000..1_010)))
            .collect();
        samples.drops = vec![Some(0); 1_020];
        one.ended_us = 1_020_000;
        one
    };
    let arm = one("", 12, burst);
    let figure = |name: &str| arm.summary.get(name).map(|one| one.median);
    assert_eq!(figure("accept-rate-per-s"), Some(100.0));
    let answered = figure("answered-per-s").expect("a burst was answered");
    assert!((answered - 10.0 / 0.095).abs() < 1.0, "{answered}");
    // Clients that start over a second are load for a second.
    let arm = one("spread = \"1s\"", 12, burst);
    let rate = arm.summary.get("accept-rate-per-s").map(|one| one.median);
    assert!(rate.is_some_and(|rate| rate < 12.0), "{rate:?}");
}
