//! Where every text lies, and what the files hold.

use std::collections::BTreeMap;

use super::super::{Figure, Options, Size, Theme, charts, figures, paint};
use super::runs;

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
