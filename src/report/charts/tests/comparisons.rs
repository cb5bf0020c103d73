//! The chart of a comparison.

use super::super::{Options, Size, Theme, difference};
use crate::report::charts::difference as layout;
use crate::result::{ArmComparison, Comparison, FigureComparison, METHOD, Summary};

fn side(mean: f64, half: Option<f64>) -> Summary {
    Summary {
        mean,
        median: mean,
        min: mean,
        max: mean,
        ci95_low: half.map(|half| mean - half),
        ci95_high: half.map(|half| mean + half),
        n: half.map_or(1, |_| 5),
    }
}

fn figure(
    name: &'static str,
    before: Summary,
    after: impl Into<Option<Summary>>,
    real: Option<bool>,
) -> FigureComparison {
    FigureComparison {
        figure: name,
        before: Some(before),
        after: after.into(),
        change_percent: None,
        p: real.map(|real| if real { 0.000_1 } else { 0.7 }),
        real,
        worse: real.filter(|real| *real),
    }
}

fn arm(name: &str, figures: Vec<FigureComparison>) -> ArmComparison {
    ArmComparison {
        name: name.into(),
        notes: vec!["before: 1 of 4 trials left out: invalid".into()],
        figures,
    }
}

fn comparison(arms: Vec<ArmComparison>) -> Comparison {
    Comparison {
        before: "20260101T000000Z-00000001".into(),
        after: "20260101T000100Z-00000002".into(),
        different_setup: vec!["kernel: \"6.1\" and \"6.18\"".into()],
        method: METHOD,
        arms,
    }
}

fn many(real: bool) -> Vec<FigureComparison> {
    vec![
        figure(
            "ok",
            side(29.4, Some(0.7)),
            side(60.0, Some(1e-9)),
            Some(false),
        ),
        figure(
            "TcpExt.ListenOverflows",
            side(1_234_567_890.4, Some(98_765_432.1)),
            side(2e9, Some(3e9)),
            Some(real),
        ),
        figure("answered-max-ms", side(0.0, Some(0.0)), None, None),
        figure(
            "ghosts",
            side(0.0, Some(0.0)),
            side(0.0, Some(0.0)),
            Some(false),
        ),
    ]
}

fn comparisons() -> Vec<(&'static str, Comparison)> {
    let long = |n: usize| {
        format!("folder/a-rather-long-name-that-says-everything-about-arm-{n}-and-then-some-more")
    };
    let single = || figure("ok", side(30.0, None), side(31.0, None), None);
    let arms = |n: usize, real: bool| (0..n).map(|n| arm(&long(n), many(real))).collect();
    vec![
        ("sixteen", comparison(arms(16, true))),
        ("forty", comparison(arms(40, false))),
        ("one", comparison(vec![arm("arm-a", many(true))])),
        ("one trial", comparison(vec![arm("arm-a", vec![single()])])),
        ("nothing known", comparison(vec![arm("arm-a", Vec::new())])),
        ("no arm", comparison(Vec::new())),
    ]
}

#[test]
fn no_text_of_a_comparison_meets_another() {
    for (what, comparison) in comparisons() {
        for (width, height) in [(1_600, 900), (1_000, 2_000)] {
            let size = Size { width, height };
            let figure = layout::chart(&comparison, size, Theme::Light);
            figure.scene.assert_tidy(&format!("{what}, {size}"));
        }
    }
}

#[test]
fn the_chart_says_what_differs_and_what_was_left_out() {
    let told = |comparison: &Comparison| {
        let figure = layout::chart(comparison, Size::default(), Theme::Light);
        let words = figure.scene.texts.iter().map(|text| text.words.clone());
        (
            figure.title,
            words.collect::<Vec<_>>().join("\n"),
            figure.alt,
        )
    };
    let all = comparisons();
    let of = |name: &str| told(&all.iter().find(|(what, _)| *what == name).expect("one").1);
    let (title, words, alt) = of("one");
    assert_eq!(
        title,
        "arm-a: TcpExt.ListenOverflows rose from 1,234,567,890 to 2,000,000,000; 1 of 3 figures really differs"
    );
    for part in [
        "worse (p<0.001)",
        "none",
        "cannot be said",
        "unknown",
        "1 of 4 trials left out: invalid",
        "29.4 \u{b1}0.7",
    ] {
        assert!(words.contains(part), "{part} in {words}");
    }
    assert!(
        alt.contains("answered-max-ms 0 \u{b1}0 and unknown, cannot be said"),
        "{alt}"
    );
    let (title, words, _) = of("one trial");
    assert_eq!(
        title,
        "Too few valid trials to tell a difference from chance"
    );
    assert!(
        words.contains("\n30\n") && !words.contains('\u{b1}'),
        "{words}"
    );
    assert_eq!(of("forty").0, "No real difference in 120 figures");
    assert!(of("forty").1.contains("figures more stand in the table"));
    let (_, words, _) = of("sixteen");
    let real = words.matches("worse (p<0.001)").count();
    assert_eq!(real, 16, "every arm shows its real difference: {words}");
    assert!(of("nothing known").1.contains("nothing is known of it"));
}

#[test]
fn a_comparison_becomes_two_pictures() {
    let (_, comparison) = comparisons().remove(0);
    for theme in [Theme::Light, Theme::Dark] {
        let options = Options {
            theme,
            ..Options::default()
        };
        let chart = difference(&comparison, options).expect("a chart");
        assert!(chart.png.starts_with(b"\x89PNG") && chart.png.len() < 300_000);
        let svg = String::from_utf8(chart.svg).expect("text");
        assert!(svg.contains("worse (p&lt;0.001)"), "{svg}");
    }
}
