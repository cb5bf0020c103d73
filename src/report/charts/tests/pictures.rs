//! Where every text lies, and what the files hold.

use std::collections::BTreeMap;

use super::super::{ChartId, Figure, Options, Size, Theme, charts, figures, paint};
use super::{busy, emptied, quiet, run, runs};

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

/// Sixteen panels with the same name would be one panel sixteen times.
#[test]
fn every_cell_of_a_large_matrix_has_a_name_of_its_own_in_every_picture() {
    let mut names = Vec::new();
    for abort in [0, 1] {
        for cookies in [0, 1] {
            for link in ["loopback", "wire-25ms"] {
                for first in ["server", "client"] {
                    names.push(format!(
                        "policy/abort={abort},cookies={cookies},link={link},first={first}"
                    ));
                }
            }
        }
    }
    let run = run(names
        .iter()
        .map(|name| (name.clone(), Some(busy())))
        .collect());
    let size = Size::default();
    let options = Options {
        size,
        ..Options::default()
    };
    let per_arm = [
        ChartId::Comparison,
        ChartId::QueueDepth,
        ChartId::Latency,
        ChartId::Counters,
    ];
    let figures = figures(&run.results, &run.observations, options);
    let shown: Vec<_> = figures
        .iter()
        .filter(|figure| per_arm.contains(&figure.id))
        .collect();
    assert_eq!(shown.len(), per_arm.len());
    for figure in shown {
        let texts: Vec<&str> = figure
            .scene
            .texts
            .iter()
            .map(|text| text.words.as_str())
            .collect();
        for name in &names {
            let levels: Vec<&str> = name
                .split(['/', ','])
                .filter_map(|part| Some(part.split_once('=')?.1))
                .collect();
            let label = levels.join(" \u{b7} ");
            let n = texts.iter().filter(|text| **text == label).count();
            assert_eq!(n, 1, "{label} in {:?}", figure.id);
        }
        let factors = "policy (abort \u{b7} cookies \u{b7} link \u{b7} first)";
        let told = texts.iter().any(|text| text.contains(factors));
        assert!(told, "{:?}: {texts:?}", figure.id);
    }
}

#[test]
fn a_repeated_syn_is_only_spoken_of_where_one_was_counted() {
    for (repeated, words) in [
        (0, "every packet that meets the full queue counts"),
        (30, "every repeated SYN counts"),
    ] {
        let mut one = busy();
        let after = one.server.counters.after.as_mut().unwrap();
        after.insert("TcpExt.ListenOverflows".into(), Some(300));
        after.insert("TcpExt.TCPSynRetrans".into(), Some(repeated));
        let before = one.server.counters.before.as_mut().unwrap();
        before.insert("TcpExt.TCPSynRetrans".into(), Some(0));
        let run = run(vec![("one".into(), Some(one))]);
        let figures = figures(&run.results, &run.observations, Options::default());
        let counters = figures.iter().find(|one| one.id == ChartId::Counters);
        let title = &counters.unwrap().title;
        assert!(title.contains(words), "{title}");
    }
}

/// A search finds its loads in no order, and steps that end before the queue is full tell little.
#[test]
fn the_steps_of_a_search_come_by_load_and_short_ones_are_said_to_be_short() {
    use crate::report::{sort_by_load, staircases};
    use crate::result::Held;
    let names = [
        "other",
        "a/rate=93",
        "a/rate=139",
        "a/rate=116",
        "a/rate=104",
    ];
    let arms = names.map(|name| (name.to_owned(), Some(quiet())));
    let mut run = run(arms.to_vec());
    sort_by_load(&mut run.results);
    let sorted: Vec<&str> = run
        .results
        .arms
        .iter()
        .map(|arm| arm.name.as_str())
        .collect();
    assert_eq!(
        sorted,
        [
            "other",
            "a/rate=93",
            "a/rate=104",
            "a/rate=116",
            "a/rate=139"
        ]
    );
    let one = &mut run.results.staircases[0];
    for (step, too_short) in one.steps.iter_mut().zip([false, true, false, false]) {
        step.too_short = too_short;
        step.held = if step.load < 110.0 {
            Held::Holds
        } else {
            Held::Breaks
        };
    }
    (one.holds, one.breaks, one.limit) = (Some(104.0), Some(116.0), None);
    let text = staircases(&run.results, 80);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "104/s (no overflow and no failed client, but the step was too short to tell; for as long as it takes at most 93/s were borne)",
        "CPU % idle",
    ] {
        assert!(flat.contains(words), "{words}\n{text}");
    }
    let figures = figures(&run.results, &run.observations, Options::default());
    let title = &figures
        .iter()
        .find(|one| one.id == ChartId::Staircase(None))
        .unwrap()
        .title;
    assert!(
        title.contains(
            "bears 104/s only while a short step lasts (93/s for sure) and breaks at 116/s"
        ),
        "{title}"
    );
}

#[test]
fn every_group_of_steps_has_a_chart_that_bears_its_name() {
    let steps = [
        "m/b=1,rate=50",
        "m/b=1,rate=120",
        "m/b=9,rate=50",
        "m/b=9,rate=120",
    ];
    let arms = steps.map(|name| (name.to_owned(), Some(quiet())));
    let run = run(arms.to_vec());
    let figures = figures(&run.results, &run.observations, Options::default());
    let charts: Vec<(String, &str)> = figures
        .iter()
        .filter(|one| matches!(one.id, ChartId::Staircase(_)))
        .map(|one| (one.id.file_stem(), one.title.as_str()))
        .collect();
    let titles = ["m/b=1 bears 120/s", "m/b=9 bears 120/s"];
    assert_eq!(
        charts,
        [
            ("staircase-m__b=1".to_owned(), titles[0]),
            ("staircase-m__b=9".to_owned(), titles[1]),
        ]
    );
}

/// Few arms of one folder, of which one overflowed and one emptied: all queues in one picture, and a line for each.
#[test]
fn remedies_are_compared_in_one_picture() {
    let arms = |names: [&str; 3]| {
        let [first, second, third] = names.map(str::to_owned);
        run(vec![
            (first, Some(busy())),
            (second, Some(emptied(3))),
            (third, Some(emptied(6))),
        ])
    };
    let one = arms(["storm/a", "storm/b", "storm/c"]);
    let figures = figures(&one.results, &one.observations, Options::default());
    let chart = figures.iter().find(|one| one.id == ChartId::Remedies);
    let chart = chart.expect("a chart");
    let texts: Vec<&str> = chart
        .scene
        .texts
        .iter()
        .map(|text| text.words.as_str())
        .collect();
    for words in [
        "emptied after 3 ms, no overflow, deepest 2 of 2",
        "emptied after 6 ms, no overflow, deepest 2 of 2",
    ] {
        assert!(texts.contains(&words), "{words}: {texts:?}");
    }
    for name in ["a", "b", "c"] {
        let theirs = texts.iter().filter(|text| **text == name);
        assert!(theirs.count() >= 1, "{name}: {texts:?}");
    }
    let told = crate::report::queues(&one.results, 80);
    assert!(
        told.contains("\nstorm/b: emptied after 3 ms, no overflow\n"),
        "{told}"
    );
    // Arms of several folders answer no common question, and where nothing overflowed there is nothing to remedy.
    let other = arms(["storm/a", "other/b", "storm/c"]);
    assert_eq!(crate::report::queues(&other.results, 80), "");
    let quiet = run(vec![
        ("storm/a".into(), Some(emptied(3))),
        ("storm/b".into(), Some(emptied(6))),
    ]);
    assert_eq!(crate::report::queues(&quiet.results, 80), "");
}
