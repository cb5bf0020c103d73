//! Titles: what a figure shows, in words and with numbers.

use super::latency_data::Latency;
use super::scale;
use super::story::{ArmStory, Outcomes, Story};
use super::{depth, depth_data::Depth};
use crate::report::composition::{Composition, Effect, Lot};
use crate::result::Outcome;

/// The arms that have outcomes, with them.
fn told<'a>(story: &'a Story<'_>) -> Vec<(&'a ArmStory<'a>, &'a Outcomes)> {
    story
        .arms
        .iter()
        .filter_map(|arm| Some((arm, arm.outcomes.as_ref()?)))
        .collect()
}

const NOTHING: &str = "No arm was measured";

/// The arms with the smallest and the largest value; the first of equals.
fn extremes<T>(items: &[T], value: impl Fn(&T) -> f64) -> Option<(&T, &T)> {
    let mut ends = (items.first()?, items.first()?);
    for item in items {
        if value(item) < value(ends.0) {
            ends.0 = item;
        }
        if value(item) > value(ends.1) {
            ends.1 = item;
        }
    }
    Some(ends)
}

/// `29 of 200`.
fn of_all(outcomes: &Outcomes) -> String {
    format!(
        "{} of {}",
        scale::count(outcomes.count(Outcome::Ok)),
        scale::count(outcomes.attempts)
    )
}

/// What is to be said where every arm did equally well; `None` where they differ.
fn alike(arms: &[(&ArmStory<'_>, &Outcomes)]) -> Option<String> {
    let (worst, best) = extremes(arms, |(_, outcomes)| outcomes.ok_share())?;
    let same = (best.1.ok_share() - worst.1.ok_share()).abs() < 1e-9;
    let well = best.0.well();
    let whom = match arms.len() {
        1 => return None,
        2 => "in both arms".to_owned(),
        n => format!("in all {n} arms"),
    };
    same.then(|| match best.1.ok_share() {
        share if share >= 1.0 => format!("Everybody was {well} {whom}"),
        share if share <= 0.0 => format!("Nobody was {well} {whom}"),
        share => format!(
            "{} of the clients were {well} {whom}",
            scale::percent(share)
        ),
    })
}

pub(super) fn outcomes(story: &Story<'_>) -> String {
    let arms = told(story);
    if let Some(text) = alike(&arms) {
        return text;
    }
    match arms.as_slice() {
        [] => NOTHING.into(),
        [(arm, _)] => format!("{}: {}, {}", arm.label, arm.answered(), arm.overflowed()),
        [first, rest @ ..] if arms.len() <= 3 => {
            let mut text = format!("{} in {}", first.0.answered(), first.0.label);
            for (arm, outcomes) in rest {
                text += &format!(", {} in {}", of_all(outcomes), arm.label);
            }
            text
        }
        _ => from_to(&arms),
    }
}

fn from_to(arms: &[(&ArmStory<'_>, &Outcomes)]) -> String {
    let Some((worst, best)) = extremes(arms, |(_, outcomes)| outcomes.ok_share()) else {
        return NOTHING.into();
    };
    format!(
        "From {} ({}) to {} ({})",
        worst.0.answered(),
        worst.0.label,
        of_all(best.1),
        best.0.label
    )
}

pub(super) fn comparison(story: &Story<'_>) -> String {
    let arms = told(story);
    let Some((worst, best)) = extremes(&arms, |(_, outcomes)| outcomes.ok_share()) else {
        return NOTHING.into();
    };
    if let Some(same) = alike(&arms) {
        return match tails(&arms) {
            Some(tails) => format!("{same}, but {tails}"),
            None => format!("{same}; {}", most_overflows(story)),
        };
    }
    let arm = |(arm, _): &(&ArmStory<'_>, &Outcomes)| {
        format!("{}: {}, {}", arm.label, arm.answered(), arm.overflowed())
    };
    if arms.len() == 1 {
        arm(worst)
    } else {
        format!("{}; {}", arm(worst), arm(best))
    }
}

/// Tails that differ by half a second or more: nobody failed, but somebody waited.
fn tails(arms: &[(&ArmStory<'_>, &Outcomes)]) -> Option<String> {
    const TELLING_MS: f64 = 500.0;
    let slowest: Option<Vec<(&str, f64)>> = arms
        .iter()
        .map(|(arm, _)| Some((arm.label.as_str(), arm.figure("answered-max-ms")?)))
        .collect();
    let slowest = slowest?;
    let (quick, slow) = extremes(&slowest, |one| one.1)?;
    (slow.1 - quick.1 >= TELLING_MS).then(|| {
        format!(
            "{}'s slowest waited {}, {}'s {}",
            slow.0,
            scale::time(slow.1),
            quick.0,
            scale::time(quick.1)
        )
    })
}

fn most_overflows(story: &Story<'_>) -> String {
    let known: Vec<(&ArmStory<'_>, f64)> = story
        .arms
        .iter()
        .filter_map(|arm| Some((arm, arm.overflows()?)))
        .collect();
    match extremes(&known, |one| one.1) {
        None => "overflows are unknown".into(),
        Some((_, most)) if most.1 == 0.0 => "no queue overflowed".into(),
        Some((_, most)) => format!(
            "most overflows in {}: {}",
            most.0.label,
            scale::count(most.1)
        ),
    }
}

pub(super) fn counters(story: &Story<'_>) -> String {
    let known: Vec<(&ArmStory<'_>, f64)> = story
        .arms
        .iter()
        .filter_map(|arm| Some((arm, arm.overflows()?)))
        .collect();
    let Some((_, (arm, overflows))) = extremes(&known, |one| one.1) else {
        return "The overflow counters are unknown".into();
    };
    if *overflows == 0.0 {
        return match known.len() {
            1 => format!("No overflow was counted in {}", arm.label),
            n => format!("No overflow was counted in any of {n} arms"),
        };
    }
    let counted = format!("{}: {}", arm.label, arm.overflowed());
    let Some(outcomes) = &arm.outcomes else {
        // Of a load tool's clients nothing is known.
        return counted;
    };
    let lost = outcomes.attempts - outcomes.count(Outcome::Ok);
    match Some(lost).filter(|n| *n > 0.0) {
        // A client sends a handful of SYNs: where fewer lost, others overflowed too and came through.
        Some(lost) if *overflows > lost && *overflows < lost * 8.0 => format!(
            "{counted} for {} losing clients, as every {} counts",
            scale::count(lost),
            if arm.repeated_syns() {
                "repeated SYN"
            } else {
                "packet that meets the full queue"
            }
        ),
        Some(lost) => format!(
            "{counted}, {} clients not {}",
            scale::count(lost),
            arm.well()
        ),
        None => format!("{counted}, and yet everybody was {} in the end", arm.well()),
    }
}

pub(super) fn depth(story: &Story<'_>) -> String {
    let horizon_us = depth::horizon_us(story);
    let depths: Vec<(&ArmStory<'_>, Depth)> = story
        .arms
        .iter()
        .filter_map(|arm| Some((arm, depth::of_arm(arm, horizon_us, 1.0)?.0)))
        .collect();
    let share = |(_, depth): &(&ArmStory<'_>, Depth)| depth.full_share.unwrap_or(0.0);
    let Some((least, most)) = extremes(&depths, share) else {
        return "Nothing listened: there is no queue to see".into();
    };
    if share(most) > 0.0 {
        let full = format!(
            "{}: queue full in {} of the looks",
            most.0.label,
            scale::percent(share(most))
        );
        return if depths.len() == 1 || share(least) >= share(most) {
            full
        } else {
            format!(
                "{full}; {}: in {}",
                least.0.label,
                scale::percent(share(least))
            )
        };
    }
    match depths
        .iter()
        .find_map(|(arm, depth)| Some((arm, depth.unseen()?)))
    {
        #[expect(
            clippy::cast_precision_loss,
            reason = "counts of a trial are far below 2^53"
        )]
        Some((arm, n)) => format!(
            "{}: queue never seen full, but {} drops: bursts shorter than the sampling interval",
            arm.label,
            scale::count(n as f64)
        ),
        None => "No queue was seen full".into(),
    }
}

pub(super) fn latency(story: &Story<'_>, latencies: &[Latency]) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of a trial are far below 2^53"
    )]
    let number = |n: usize| n as f64;
    let arms: Vec<(&ArmStory<'_>, &Latency)> = story
        .arms
        .iter()
        .zip(latencies)
        .filter(|(_, latency)| latency.attempts > 0)
        .collect();
    let lost = |(_, latency): &(&ArmStory<'_>, &Latency)| {
        number(latency.lost()) / number(latency.attempts)
    };
    let slowest_us = |(_, latency): &(&ArmStory<'_>, &Latency)| latency.well_us.last().copied();
    let in_words = |us: u64| {
        #[expect(
            clippy::cast_precision_loss,
            reason = "times of a trial are far below 2^53 microseconds"
        )]
        let ms = us as f64 / 1_000.0;
        scale::time(ms)
    };
    let Some((_, most)) = extremes(&arms, lost) else {
        return NOTHING.into();
    };
    if lost(most) > 0.0 {
        let mut text = format!(
            "{}: {} of {} were not {}",
            most.0.label,
            scale::count(number(most.1.lost())),
            scale::count(number(most.1.attempts)),
            most.0.well()
        );
        if let Some(us) = slowest_us(most) {
            text += &format!("; the answered waited up to {}", in_words(us));
        }
        return text;
    }
    let slow = arms.iter().max_by_key(|arm| slowest_us(arm));
    let slow = slow.and_then(|arm| Some((arm.0, slowest_us(arm)?)));
    slow.map_or_else(
        || NOTHING.into(),
        |(arm, us)| {
            format!(
                "Nobody gave up; the slowest was {} after {} ({})",
                arm.well(),
                in_words(us),
                arm.label
            )
        },
    )
}

pub(super) fn matrix(story: &Story<'_>) -> String {
    let arms = told(story);
    alike(&arms).unwrap_or_else(|| from_to(&arms))
}

/// What the setting that changes most does, and at which levels of the others. The link is the circumstance, not a
/// choice: it comes last.
pub(super) fn fates(composition: &Composition) -> (String, Option<String>) {
    let matrix = &composition.matrix;
    let is_choice = |effect: &Effect| matrix.factors[effect.factor].name != "link";
    let effects = composition.effects();
    let largest = effects
        .iter()
        .filter_map(|effect| Some((effect, effect.largest()?)))
        .max_by(|(a, one), (b, other)| {
            let by_choice = is_choice(a).cmp(&is_choice(b));
            by_choice.then(one.moved.total_cmp(&other.moved))
        });
    let Some((effect, pair)) = largest else {
        let text = "No setting changes what becomes of the clients".into();
        return (text, None);
    };
    let factor = &matrix.factors[effect.factor];
    let level = |arm: usize| &factor.levels[matrix.places[arm][effect.factor]];
    let told = |lots: Vec<(Lot, f64)>| {
        let two = lots.into_iter().take(2);
        let two = two.map(|(lot, n)| format!("{} \u{201c}{lot}\u{201d}", scale::count(n)));
        two.collect::<Vec<_>>().join(" and ")
    };
    let title = format!(
        "{}={} instead of {} turns {} into {}",
        factor.name,
        level(pair.after),
        level(pair.before),
        told(pair.sorted(true)),
        told(pair.sorted(false))
    );
    (title, matrix.others(pair.before, effect.factor))
}
