//! Axes and numbers: round ticks, counts and times as people write them.

/// Round values from 0 to `most`, about `about` of them.
pub(super) fn ticks(most: f64, about: f64) -> Vec<f64> {
    if most <= 0.0 || !most.is_finite() {
        return vec![0.0];
    }
    let rough = most / about;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|n| n * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(most);
    let mut ticks = Vec::new();
    let mut n = 0.0;
    while n * step <= most * 1.000_1 {
        ticks.push(n * step);
        n += 1.0;
    }
    ticks
}

/// A count, or a mean of counts: `12`, `31.5`, from a thousand on whole, `1,234`.
pub(in crate::report) fn count(value: f64) -> String {
    let parts = if value.abs() < 1_000.0 { 10.0 } else { 1.0 };
    let rounded = (value * parts).round() / parts;
    let whole = rounded.trunc();
    let digits = format!("{:.0}", whole.abs());
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if rounded < 0.0 {
        text.insert(0, '\u{2212}');
    }
    let tenths = ((rounded - whole).abs() * 10.0).round();
    if tenths > 0.0 {
        format!("{text}.{tenths:.0}")
    } else {
        text
    }
}

/// A share: `0 %`, `97 %`; what is not all is never `100 %`, and what is not nothing never `0 %`.
pub(super) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.005 {
        "under 1 %".into()
    } else if (0.995..1.0).contains(&share) {
        "over 99 %".into()
    } else {
        format!("{:.0} %", share * 100.0)
    }
}

/// A time: `0.4 ms`, `40 ms`, `1.03 s`, `12 s`.
pub(super) fn time(ms: f64) -> String {
    let trimmed = |text: String| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    };
    if ms < 9.95 {
        format!("{} ms", trimmed(format!("{ms:.1}")))
    } else if ms < 999.5 {
        format!("{ms:.0} ms")
    } else if ms < 9_995.0 {
        format!("{} s", trimmed(format!("{:.2}", ms / 1_000.0)))
    } else {
        format!("{} s", trimmed(format!("{:.1}", ms / 1_000.0)))
    }
}

/// Ticks of a time axis, all in the unit of its end.
pub(super) fn time_ticks(most_ms: f64, about: f64) -> Vec<(f64, String)> {
    let (unit_ms, unit) = if most_ms < 1_000.0 {
        (1.0, "ms")
    } else {
        (1_000.0, "s")
    };
    let decimals = |tick: f64| {
        let text = format!("{:.3}", tick / unit_ms);
        format!(
            "{} {unit}",
            text.trim_end_matches('0').trim_end_matches('.')
        )
    };
    ticks(most_ms, about)
        .into_iter()
        .map(|tick| (tick, decimals(tick)))
        .collect()
}

/// Moves the places apart so that neighbours keep `gap` and all stay between `low` and `high`, in their order.
/// `None` when there is no room for all.
#[expect(clippy::cast_precision_loss, reason = "a handful of labels")]
pub(super) fn apart(places: &[f64], gap: f64, low: f64, high: f64) -> Option<Vec<f64>> {
    if (places.len().saturating_sub(1)) as f64 * gap > high - low {
        return None;
    }
    let mut moved = Vec::with_capacity(places.len());
    let mut least = low;
    for &place in places {
        let at = f64::max(place, least);
        moved.push(at);
        least = at + gap;
    }
    let mut most = high;
    for place in moved.iter_mut().rev() {
        *place = place.min(most);
        most = *place - gap;
    }
    Some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(2_000.0, 5.0), [0.0, 500.0, 1_000.0, 1_500.0, 2_000.0]);
        assert_eq!(ticks(0.0, 5.0), [0.0]);
        let labels: Vec<String> = time_ticks(2_100.0, 5.0)
            .into_iter()
            .map(|(_, label)| label)
            .collect();
        assert_eq!(labels, ["0 s", "0.5 s", "1 s", "1.5 s", "2 s"]);
    }

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for (value, text) in [
            (0.0, "0"),
            (34.0, "34"),
            (31.25, "31.3"),
            (1_234.0, "1,234"),
            (1_000_000.0, "1,000,000"),
            (999.96, "1,000"),
            (-4.0, "\u{2212}4"),
        ] {
            assert_eq!(count(value), text);
        }
        for (ms, text) in [
            (0.0, "0 ms"),
            (0.43, "0.4 ms"),
            (40.2, "40 ms"),
            (1_008.0, "1.01 s"),
            (2_000.0, "2 s"),
            (12_500.0, "12.5 s"),
        ] {
            assert_eq!(time(ms), text);
        }
        for (share, text) in [
            (0.0, "0 %"),
            (0.001, "under 1 %"),
            (0.5, "50 %"),
            (0.999, "over 99 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_moved_apart_keeps_its_distance(mut places in prop::collection::vec(-50.0..150.0_f64, 1..12)) {
            places.sort_by(f64::total_cmp);
            let moved = apart(&places, 8.0, 0.0, 100.0);
            prop_assert_eq!(moved.is_some(), places.len() <= 13);
            for pair in moved.iter().flat_map(|moved| moved.windows(2)) {
                prop_assert!(pair[1] - pair[0] >= 8.0 - 1e-9);
            }
            for place in moved.iter().flatten() {
                prop_assert!((0.0 - 1e-9..=100.0 + 1e-9).contains(place));
            }
        }

        #[test]
        fn ticks_never_pass_the_end(most in 0.001..1e7_f64) {
            let ticks = ticks(most, 5.0);
            prop_assert!(ticks.len() >= 2 && ticks.len() <= 12, "{:?}", ticks);
            prop_assert!(ticks.iter().all(|tick| *tick <= most * 1.001));
        }
    }
}
