//! Charts of made-up runs: what is prepared, where every text lies, what the files hold.

use std::collections::BTreeMap;

use super::depth_data::Depth;
use super::latency_data::Latency;
use super::story::Story;
use super::{Figure, Options, Size, Theme, charts, figures, paint};
use crate::arm::Arm;
use crate::manifest::{Host, Manifest};
use crate::observation::{
    Attempt, BeforeAfter, Counters, Cpu, Ended, Listener, Look, Measured, Namespace, Observation,
    SCHEMA_VERSION, Samples, Stage, TrialStatus,
};
use crate::plan::Plan;
use crate::result::{Results, results};

/// A run of one trial for each arm.
struct Run {
    results: Results,
    observations: Vec<Observation>,
}

fn run(arms: Vec<(String, Option<Measured>)>) -> Run {
    let settings = |name: &str, measured: Option<&Measured>| {
        let connections = measured.map_or(1, |one| one.attempts.len().max(1));
        let text = format!(
            "title = \"what {name} is about\"\nwhy = \"w\"\n[server]\nbacklog = 1\n[client]\nconnections = {connections}"
        );
        Arm {
            name: name.to_owned(),
            ..toml::from_str(&text).unwrap()
        }
    };
    let plan = Plan::new(
        arms.iter()
            .map(|(name, one)| settings(name, one.as_ref()))
            .collect(),
        1,
        7,
        Vec::new(),
    );
    let host = Host {
        kernel: Some("6.18.0".into()),
        architecture: None,
        cpus: Some(2),
    };
    let manifest = Manifest::new(
        Vec::new(),
        host,
        "2026-01-01T00:00:00Z".parse().unwrap(),
        plan,
    );
    let observations: Vec<Observation> = arms
        .into_iter()
        .map(|(arm, measured)| Observation {
            schema_version: SCHEMA_VERSION,
            arm,
            index: 0,
            status: if measured.is_some() {
                TrialStatus::Measured
            } else {
                TrialStatus::Skipped
            },
            reason: measured
                .is_none()
                .then(|| "net.core.nonesuch does not exist".into()),
            measured,
        })
        .collect();
    Run {
        results: results(&manifest, &observations),
        observations,
    }
}

fn attempt(n: u32, stage: Stage, ended: Ended, at_us: u64) -> Attempt {
    Attempt {
        n,
        intended_us: 0,
        started_us: 0,
        connected_us: (stage > Stage::Connect).then_some(at_us / 2),
        first_byte_us: (ended == Ended::Answered).then_some(at_us),
        ended_us: at_us,
        stage,
        ended,
        errno: None,
        local_port: None,
        server_side: None,
    }
}

fn look(recv_q: u32, send_q: u32, drops: u32) -> Look {
    Look {
        recv_q,
        send_q,
        drops: Some(drops),
    }
}

fn counters(overflows: i128, opens: i128) -> Counters {
    [
        ("TcpExt.ListenOverflows", overflows),
        ("TcpExt.ListenDrops", overflows),
        ("Tcp.ActiveOpens", opens),
    ]
    .map(|(name, value)| (name.to_owned(), Some(value)))
    .into()
}

fn measured(attempts: Vec<Attempt>, samples: Samples, overflows: i128) -> Measured {
    let opens = i128::try_from(attempts.len()).unwrap();
    let drops = samples.drops.iter().copied().flatten().last().unwrap_or(0);
    let sysctls = [
        ("net.ipv4.tcp_syn_retries", "6"),
        ("net.ipv4.tcp_syn_linear_timeouts", "4"),
    ];
    Measured {
        notes: Vec::new(),
        server: Namespace {
            sysctls: sysctls
                .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
                .into(),
            counters: BeforeAfter {
                before: Some(counters(0, 0)),
                after: Some(counters(overflows, opens)),
            },
            ..Namespace::default()
        },
        client: None,
        softnet_dropped: BeforeAfter::default(),
        ended_us: samples.at_us.last().map_or(2_000_000, |last| last + 500),
        listeners: vec![Listener {
            address: ([127, 0, 0, 1], 8080).into(),
            backlog_requested: 1,
            before: look(0, 1, 0),
            samples,
            after: look(0, 1, drops),
        }],
        attempts,
        accepts: Vec::new(),
        pending: Vec::new(),
        cpu: Cpu::default(),
    }
}

/// Looks every millisecond, with this depth and these drops at each.
fn samples(n: u64, look: impl Fn(u64) -> (u32, u32)) -> Samples {
    Samples {
        period_us: 1_000,
        missed: 0,
        at_us: (0..n).map(|n| n * 1_000).collect(),
        recv_q: (0..n).map(|n| look(n).0).collect(),
        drops: (0..n).map(|n| Some(look(n).1)).collect(),
    }
}

/// Thirty answered, the others lost in every way there is.
fn every_fate() -> Vec<Attempt> {
    let lost = [
        (Stage::Connect, Ended::TimeUp, "", 150),
        (Stage::Receive, Ended::TimeUp, "", 7),
        (Stage::Connect, Ended::Error, "ECONNREFUSED", 3),
        (Stage::Receive, Ended::Error, "ECONNRESET", 4),
        (Stage::Receive, Ended::EndOfStream, "", 2),
        (Stage::Receive, Ended::WrongAnswer, "", 1),
        (Stage::Connect, Ended::Error, "EADDRNOTAVAIL", 1),
        (Stage::Connect, Ended::Error, "EHOSTUNREACH", 2),
    ];
    let mut attempts: Vec<Attempt> = (0..30)
        .map(|n| {
            attempt(
                n,
                Stage::Receive,
                Ended::Answered,
                1_000 + u64::from(n) * 60_000,
            )
        })
        .collect();
    for (stage, ended, errno, n) in lost {
        for _ in 0..n {
            let n = u32::try_from(attempts.len()).unwrap();
            let errno = (!errno.is_empty()).then(|| errno.to_owned());
            attempts.push(Attempt {
                errno,
                ..attempt(n, stage, ended, 2_000_000)
            });
        }
    }
    attempts
}

fn busy() -> Measured {
    let burst = |n: u64| if n < 1_000 { 150 } else { 300 };
    measured(
        every_fate(),
        samples(2_200, |n| (u32::from(n < 2_000) * 2, burst(n))),
        362,
    )
}

fn quiet() -> Measured {
    let attempts = (0..200)
        .map(|n| attempt(n, Stage::Receive, Ended::Answered, 500 + u64::from(n)))
        .collect();
    measured(attempts, samples(12, |_| (0, 0)), 0)
}

/// Runs that a layout may stumble over.
fn runs() -> Vec<(&'static str, Run)> {
    let named = |name: &str, one: Measured| (name.to_owned(), Some(one));
    let long = |n: usize| {
        format!("folder/a-rather-long-name-that-says-everything-about-arm-{n}-and-then-some-more")
    };
    let matrix = |names: &[&str]| names.iter().map(|name| named(name, busy())).collect();
    let many_levels: Vec<String> = (0..16)
        .map(|n| {
            format!(
                "overflow-policy/abort={},cookies={},link=wire-25ms,first={}",
                n / 8,
                n / 4 % 2,
                n % 4
            )
        })
        .collect();
    let many_levels: Vec<&str> = many_levels.iter().map(String::as_str).collect();
    let one_look = measured(
        vec![attempt(0, Stage::Receive, Ended::Answered, 900)],
        samples(1, |_| (1, 0)),
        0,
    );
    let no_look = measured(Vec::new(), samples(0, |_| (0, 0)), 0);
    let mut blind = busy();
    blind.server.counters = BeforeAfter::default();
    blind.listeners[0].samples.drops[5] = None;
    let mut deaf = quiet();
    deaf.listeners.clear();
    let huge = measured(
        (0..28_000)
            .map(|n| attempt(n, Stage::Connect, Ended::TimeUp, 2_000_000 + u64::from(n)))
            .collect(),
        samples(4_000, |n| {
            (
                u32::try_from(n % 4_097).unwrap(),
                u32::try_from(n * 300).unwrap(),
            )
        }),
        1_234_567_890,
    );
    vec![
        (
            "three arms",
            run(vec![
                named("arm-a", busy()),
                named("arm-b", quiet()),
                named("arm-c", busy()),
            ]),
        ),
        ("one arm", run(vec![named("arm-a", busy())])),
        ("one look", run(vec![named("arm-a", one_look)])),
        (
            "nothing at all",
            run(vec![
                named("arm-a", no_look.clone()),
                named("arm-b", no_look),
            ]),
        ),
        (
            "everything unknown",
            run(vec![
                named("arm-a", blind),
                named("arm-b", deaf),
                ("arm-c".into(), None),
            ]),
        ),
        (
            "all quiet",
            run((0..5)
                .map(|n| named(&format!("arm-{n}"), quiet()))
                .collect()),
        ),
        (
            "sixteen",
            run((0..16)
                .map(|n| named(&long(n), if n % 3 == 0 { quiet() } else { busy() }))
                .collect()),
        ),
        (
            "forty",
            run((0..40).map(|n| named(&long(n), busy())).collect()),
        ),
        (
            "two by two",
            run(matrix(&[
                "m/b=1,d=0s",
                "m/b=1,d=80ms",
                "m/b=128,d=0s",
                "m/b=128,d=80ms",
            ])),
        ),
        (
            "a matrix with a hole",
            run(matrix(&["m/b=1,d=0s", "m/b=1,d=80ms", "m/b=128,d=0s"])),
        ),
        ("four factors", run(matrix(&many_levels))),
        (
            "large numbers",
            run(vec![named("arm-a", huge), named("arm-b", quiet())]),
        ),
    ]
}

/// Of different shapes: scaled to another size, a layout stays the same.
fn sizes() -> [Size; 3] {
    [(1_600, 900), (4_000, 1_000), (1_000, 2_000)].map(|(width, height)| Size { width, height })
}

#[test]
fn no_text_meets_another_or_leaves_the_canvas() {
    for (what, run) in runs() {
        for size in sizes() {
            let options = Options {
                theme: Theme::Light,
                size,
            };
            for Figure { id, scene, .. } in figures(&run.results, &run.observations, options) {
                assert!(!scene.texts.is_empty());
                scene.assert_tidy(&format!("{what}, {id:?}, {size}"));
            }
        }
    }
}

#[test]
fn pictures_are_small_of_the_right_size_and_have_ink() {
    for (what, run) in runs().into_iter().filter(|(what, _)| *what == "sixteen") {
        for (name, chart) in charts(&run.results, &run.observations, Options::default()) {
            let chart = chart.unwrap();
            assert!(
                chart.png.len() < 300_000,
                "{what}, {name}: {} bytes",
                chart.png.len()
            );
            let (pixels, info) = pixels(&chart.png);
            assert_eq!((info.width, info.height), (1_600, 900), "{what}, {name}");
            assert!(ink(&pixels, &info, Theme::Light) > 0.01, "{what}, {name}");
        }
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let (_, run) = runs().remove(0);
    for theme in [Theme::Light, Theme::Dark] {
        let size = Size {
            width: 640,
            height: 360,
        };
        let drawn = || charts(&run.results, &run.observations, Options { theme, size });
        for ((name, once), (_, again)) in drawn().into_iter().zip(drawn()) {
            let (once, again) = (once.unwrap(), again.unwrap());
            assert!(once.png == again.png && once.svg == again.svg, "{name}");
        }
    }
}

/// Palette indices as colours.
fn pixels(png: &[u8]) -> (Vec<u8>, ::png::OutputInfo) {
    let mut decoder = ::png::Decoder::new(std::io::Cursor::new(png));
    decoder.set_transformations(::png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (pixels, info)
}

/// The share of the title's line that is as dark, or in the dark theme as light, as ink.
#[expect(clippy::cast_precision_loss, reason = "a picture has few pixels")]
fn ink(pixels: &[u8], info: &::png::OutputInfo, theme: Theme) -> f64 {
    let band = &pixels[info.line_size * 30..info.line_size * 130];
    let inked = band.iter().filter(|byte| match theme {
        Theme::Light => **byte < 96,
        Theme::Dark => **byte > 160,
    });
    inked.count() as f64 / band.len() as f64
}

#[test]
fn an_svg_has_titles_names_numbers_and_units_as_text() {
    let (_, run) = runs().remove(0);
    let options = Options::default();
    let mut told = BTreeMap::new();
    for figure in figures(&run.results, &run.observations, options) {
        let svg = String::from_utf8(paint::svg(&figure.scene).unwrap()).unwrap();
        for text in &figure.scene.texts {
            let escaped = text.words.replace('&', "&amp;").replace('\'', "&apos;");
            assert!(svg.contains(&escaped), "{}", text.words);
        }
        assert!(!svg.contains("<image"));
        told.insert(figure.id.file_stem(), svg);
    }
    for (name, words) in [
        (
            "comparison",
            &[
                "arm-a: 30 of 200 answered, 362 overflows",
                "arm-b",
                "362",
                "idle CPU",
            ][..],
        ),
        (
            "outcomes",
            &[
                "30 of 200 answered",
                "share of the attempts",
                "100 %",
                "connect timeout",
                "arm-c",
            ],
        ),
        (
            "queue-depth",
            &[
                "arm-a",
                "deepest 2 of 2",
                "time since the clients&apos; start",
                "1 s",
                "150 drops",
            ],
        ),
        (
            "latency",
            &[
                "arm-a",
                "time since each client&apos;s start",
                "100 %",
                "1.74 s",
            ],
        ),
        (
            "counters",
            &[
                "ListenDrops",
                "362",
                "growth of the server&apos;s kernel counters",
            ],
        ),
    ] {
        for word in words {
            assert!(told[name].contains(word), "{name} does not say {word:?}");
        }
    }
}

#[test]
fn every_bar_has_its_number_or_its_words() {
    let (_, run) = runs().remove(0);
    let figures = figures(&run.results, &run.observations, Options::default());
    let outcomes = figures
        .iter()
        .find(|one| one.id.file_stem() == "outcomes")
        .unwrap();
    for text in ["30", "150", "7"] {
        assert!(
            outcomes.scene.texts.iter().any(|one| one.words == text),
            "{text}"
        );
    }
    assert!(
        outcomes
            .alt
            .contains("2 closed early, 1 wrong data, 1 local limit, 2 other"),
        "{}",
        outcomes.alt
    );
}

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
        "200 of 200 answered. No overflow."
    );
}
