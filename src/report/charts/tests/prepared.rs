//! What is prepared for the charts, and what their titles say of it.

use super::super::depth_data::Depth;
use super::super::latency_data::Latency;
use super::super::story::Story;
use super::super::{Options, figures};
use super::{attempt, busy, counters, every_fate, measured, quiet, run, samples};
use crate::observation::{BeforeAfter, Ended, Stage};

#[test]
fn a_stall_of_the_sampler_is_a_gap() {
    let mut one = measured(Vec::new(), samples(200, |_| (2, 0)), 0);
    let samples = &mut one.listeners[0].samples;
    for column in 100..150 {
        samples.at_us[column] = u64::MAX;
    }
    let kept: Vec<usize> = (0..200).filter(|n| samples.at_us[*n] != u64::MAX).collect();
    samples.recv_q = kept.iter().map(|n| samples.recv_q[*n]).collect();
    samples.drops = kept.iter().map(|n| samples.drops[*n]).collect();
    samples.at_us.retain(|at_us| *at_us != u64::MAX);
    let depth = Depth::of(&one, one.ended_us, 1_000).unwrap();
    assert_eq!(depth.gaps, [(99_000, 150_000)]);
    let [first, second] = depth.lines[0].pieces.as_slice() else {
        panic!("{} pieces", depth.lines[0].pieces.len());
    };
    assert_eq!(first.last().unwrap().until_us, 100_000);
    assert_eq!(second.first().unwrap().at_us, 150_000);
    assert!(first.iter().chain(second).all(|column| column.least == 2));
}

#[test]
fn looks_that_never_came_are_a_gap_from_end_to_end() {
    let one = measured(Vec::new(), samples(0, |_| (0, 0)), 0);
    let depth = Depth::of(&one, one.ended_us, 1_000).unwrap();
    assert_eq!(
        (depth.gaps.as_slice(), depth.full_share),
        (&[(0, 2_000_000)][..], None)
    );
    assert!(depth.lines[0].pieces.is_empty());
}

#[test]
fn a_missing_counter_is_unknown_and_not_zero() {
    let mut one = busy();
    one.listeners[0].samples.drops[700] = None;
    one.server
        .counters
        .after
        .as_mut()
        .unwrap()
        .insert("TcpExt.ListenDrops".into(), None);
    assert_eq!(
        Depth::of(&one, one.ended_us, 1_000).unwrap().dropped(),
        None
    );
    let run = run(vec![
        ("arm-a".into(), Some(one)),
        ("arm-b".into(), Some(busy())),
    ]);
    let story = Story::of(&run.results, &run.observations);
    let counters = story.counters();
    assert_eq!(
        counters[&0],
        ("TcpExt.ListenOverflows", vec![Some(362.0), Some(362.0)])
    );
    assert_eq!(
        counters[&1],
        ("TcpExt.ListenDrops", vec![None, Some(362.0)])
    );
    let figures = figures(&run.results, &run.observations, Options::default());
    let said = |name: &str, word: &str| {
        let figure = figures
            .iter()
            .find(|one| one.id.file_stem() == name)
            .unwrap();
        figure
            .scene
            .texts
            .iter()
            .any(|text| text.words.contains(word))
    };
    assert!(said("counters", "unknown") && said("queue-depth", "drops unknown"));
}

#[test]
fn a_million_looks_keep_their_extremes() {
    let one = measured(
        Vec::new(),
        samples(1_000_000, |n| {
            (
                if n == 777_777 {
                    129
                } else {
                    u32::try_from(n % 3).unwrap()
                },
                0,
            )
        }),
        0,
    );
    let depth = Depth::of(&one, one.ended_us, 1_000).unwrap();
    let columns = &depth.lines[0].pieces[0];
    assert!(columns.len() <= 1_001, "{}", columns.len());
    assert_eq!(columns.iter().map(|column| column.most).max(), Some(129));
    assert!(
        columns
            .iter()
            .all(|column| column.least == 0 && column.most >= 2)
    );
    assert_eq!(depth.deepest, 129);
}

#[test]
fn drops_come_in_bursts() {
    let depth = Depth::of(&busy(), 2_200_000, 1_000).unwrap();
    let bursts: Vec<(u64, u64)> = depth
        .bursts()
        .iter()
        .map(|burst| (burst.from_us, burst.n))
        .collect();
    assert_eq!(bursts, [(0, 150), (1_000_000, 150)]);
    assert_eq!(depth.dropped(), Some(300));
}

/// The counter of drops is 32 bits wide.
#[test]
fn a_counter_that_wraps_goes_on() {
    let mut one = measured(
        Vec::new(),
        samples(3, |n| (0, if n == 2 { 4 } else { u32::MAX })),
        0,
    );
    one.listeners[0].before.drops = Some(u32::MAX - 1);
    assert_eq!(
        Depth::of(&one, one.ended_us, 100).unwrap().dropped(),
        Some(6)
    );
}

#[test]
fn a_tail_of_one_second_is_a_cluster_of_its_own() {
    let answered = |n: u32| {
        if n < 131 {
            1_000 * u64::from(n + 1)
        } else {
            1_010_000 + u64::from(n) * 500
        }
    };
    let attempts = (0..200)
        .map(|n| attempt(n, Stage::Receive, Ended::Answered, answered(n)))
        .collect();
    let one = measured(attempts, samples(1_200, |_| (1, 0)), 69);
    let latency = Latency::of(&[&one]);
    let clusters: Vec<usize> = latency.clusters().iter().map(|cluster| cluster.n).collect();
    assert_eq!(clusters, [131, 69]);
    assert_eq!(latency.retries_us[..3], [1_000_000, 2_000_000, 3_000_000]);
    let run = run(vec![("k14".into(), Some(one))]);
    let figures = figures(&run.results, &run.observations, Options::default());
    let latency = figures
        .iter()
        .find(|one| one.id.file_stem() == "latency")
        .unwrap();
    for words in ["131 within 131 ms", "69 at 1.08 s to 1.11 s"] {
        assert!(
            latency.scene.texts.iter().any(|text| text.words == words),
            "{words}"
        );
    }
    let comparison = &figures[0];
    assert!(comparison.title.contains("69"), "{}", comparison.title);
}

#[test]
fn every_attempt_is_in_one_state_at_every_time() {
    let one = busy();
    let latency = Latency::of(&[&one]);
    assert_eq!(
        (latency.attempts, latency.well_us.len(), latency.lost()),
        (200, 30, 170)
    );
    for at_us in (0..2_500_000).step_by(1_000) {
        let states = latency.states(at_us);
        let known = states.well + states.waiting + states.lost.iter().sum::<usize>();
        assert!(known <= 200, "{known} at {at_us}");
    }
    let end = latency.states(2_000_000);
    assert_eq!(
        (end.well, end.waiting, end.lost.iter().sum::<usize>()),
        (30, 0, 170)
    );
}

#[test]
fn drops_without_a_full_look_say_why() {
    let one = measured(
        every_fate(),
        samples(50, |n| (0, u32::from(n > 3) * 233)),
        233,
    );
    let run = run(vec![("k79".into(), Some(one))]);
    let figures = figures(&run.results, &run.observations, Options::default());
    let depth = figures
        .iter()
        .find(|one| one.id.file_stem() == "queue-depth")
        .unwrap();
    assert_eq!(
        depth.title,
        "k79: queue never seen full, but 233 drops: bursts shorter than the sampling interval"
    );
}

#[test]
fn the_same_success_with_another_tail_is_told() {
    let arm = |name: &str, slowest_us: u64| {
        let ended = |n: u32| if n == 99 { slowest_us } else { 1_500_000 };
        let attempts = (0..100)
            .map(|n| attempt(n, Stage::Receive, Ended::Answered, ended(n)))
            .collect();
        (
            name.to_owned(),
            Some(measured(attempts, samples(10, |_| (0, 0)), 0)),
        )
    };
    let run = run(vec![arm("small", 4_100_000), arm("large", 1_500_000)]);
    let comparison = &figures(&run.results, &run.observations, Options::default())[0];
    assert_eq!(
        comparison.title,
        "Everybody was answered in both arms, but small's slowest waited 4.1 s, large's 1.5 s"
    );
}

/// What a counter had before the clients came is none of their business.
#[test]
fn old_overflows_are_not_spoken_of() {
    let mut one = quiet();
    one.listeners[0].before.drops = Some(500);
    one.listeners[0].after.drops = Some(500);
    one.listeners[0].samples.drops.fill(Some(500));
    one.server.counters = BeforeAfter {
        before: Some(counters(500, 300)),
        after: Some(counters(500, 500)),
    };
    let run = run(vec![("k24".into(), Some(one))]);
    for figure in figures(&run.results, &run.observations, Options::default()) {
        let words = figure.scene.texts.iter().map(|text| &text.words);
        for words in words.chain([&figure.title, &figure.alt]) {
            assert!(!words.contains("500"), "{:?}: {words}", figure.id);
        }
    }
    assert_eq!(
        run.results.arms[0].verdict.text,
        "Clean: 200 of 200 answered. No overflow."
    );
}
