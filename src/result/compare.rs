//! Two runs, arm by arm and figure by figure: by how much they differ, and whether the difference is real.
//!
//! A difference is real when Welch's t-test says so after Holm's correction over every figure of every arm: if
//! nothing has changed, one comparison in twenty reports a difference at most. Trials that are not valid count
//! nowhere.

use std::collections::BTreeMap;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::setup::different_setup;
use super::{ArmResult, Results, Status, Summary};
use crate::figure::Figure;

/// The chance that a comparison of two runs that do not differ reports any difference.
pub const ERROR_RATE: f64 = 0.05;

/// How a difference is judged, for the reader.
pub const METHOD: &str = "Welch's t-test with Holm's correction, error rate 5 %";

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The first run's id.
    pub before: String,
    /// The second run's id.
    pub after: String,
    /// In what the setups differ, a line each.
    pub different_setup: Vec<String>,
    /// How a difference is judged.
    pub method: &'static str,
    /// The arms that both runs have, in the order of the second.
    pub arms: Vec<ArmComparison>,
}

/// An arm in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmComparison {
    /// Its name.
    pub name: String,
    /// What must be known of its trials, a sentence each.
    pub notes: Vec<String>,
    /// The figures that either run knows.
    pub figures: Vec<FigureComparison>,
}

/// A figure of an arm in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureComparison {
    /// Its name.
    pub figure: &'static str,
    /// Over the valid trials of the first run.
    pub before: Option<Summary>,
    /// Over the valid trials of the second run.
    pub after: Option<Summary>,
    /// The change of the mean, in percent of the first; `null` where that is 0.
    pub change_percent: Option<f64>,
    /// The chance of a difference like this where there is none, corrected; `null` with too few trials.
    pub p: Option<f64>,
    /// Whether the difference is real; `null` when that cannot be said.
    pub real: Option<bool>,
    /// Whether a real difference is one for the worse; `null` for a figure without a good direction.
    pub worse: Option<bool>,
}

impl FigureComparison {
    /// `none`, `worse (p=0.012)`, `cannot be said`.
    pub fn in_a_word(&self) -> String {
        let word = match (self.real, self.worse) {
            (None, _) => return "cannot be said".into(),
            (Some(false), _) => return "none".into(),
            (Some(true), Some(true)) => "worse",
            (Some(true), Some(false)) => "better",
            (Some(true), None) => "different",
        };
        match self.p {
            Some(p) if p >= 0.001 => format!("{word} (p={p:.3})"),
            _ => format!("{word} (p<0.001)"),
        }
    }
}

/// Which direction of a figure is the good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Good {
    More,
    Less,
    Neither,
}

/// The figures that are compared. Each stands for something of its own: more would cost the others their power.
const COMPARED: &[(&str, Good)] = &[
    ("ok", Good::More),
    ("connect-timeout", Good::Less),
    ("read-timeout", Good::Less),
    ("refused", Good::Less),
    ("reset", Good::Less),
    ("closed-early", Good::Less),
    ("wrong-data", Good::Less),
    ("other", Good::Less),
    ("ghosts", Good::Less),
    ("accepted", Good::Neither),
    ("wasted-accepts", Good::Less),
    ("TcpExt.ListenOverflows", Good::Less),
    ("TcpExt.ListenDrops", Good::Less),
    ("recv-q-max", Good::Neither),
    ("connect-p50-ms", Good::Less),
    ("answered-p50-ms", Good::Less),
    ("answered-p99-ms", Good::Less),
    ("answered-max-ms", Good::Less),
];

/// Compares two runs.
pub fn compare(before: &Results, after: &Results) -> Comparison {
    let mut arms: Vec<ArmComparison> = after
        .arms
        .iter()
        .filter_map(|arm| {
            let other = before.arms.iter().find(|other| other.name == arm.name)?;
            Some(compare_arm(other, arm))
        })
        .collect();
    correct(arms.iter_mut().flat_map(|arm| &mut arm.figures).collect());
    Comparison {
        before: before.run_id.clone(),
        after: after.run_id.clone(),
        different_setup: different_setup(before, after),
        method: METHOD,
        arms,
    }
}

impl Comparison {
    /// The real differences for the worse, as arm and figure.
    pub fn regressions(&self) -> impl Iterator<Item = (&str, &FigureComparison)> {
        self.arms.iter().flat_map(|arm| {
            let worse = arm.figures.iter().filter(|one| one.worse == Some(true));
            worse.map(|figure| (arm.name.as_str(), figure))
        })
    }

    /// The arms of which nothing could be judged, for want of valid trials.
    pub fn not_judged(&self) -> impl Iterator<Item = &str> {
        let judged = |arm: &&ArmComparison| arm.figures.iter().any(|one| one.real.is_some());
        let without = self.arms.iter().filter(move |arm| !judged(arm));
        without.map(|arm| arm.name.as_str())
    }
}

fn compare_arm(before: &ArmResult, after: &ArmResult) -> ArmComparison {
    let mut notes = Vec::new();
    for (when, arm) in [("before", before), ("after", after)] {
        let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
        for trial in arm.trials.iter().filter(|one| one.status != Status::Ok) {
            *left_out.entry(trial.status.to_string()).or_default() += 1;
        }
        for (status, count) in left_out {
            notes.push(format!(
                "{when}: {count} of {} trials left out: {status}",
                arm.trials.len()
            ));
        }
        let open = arm
            .trials
            .iter()
            .filter(|one| one.open_books().next().is_some());
        match open.count() {
            0 => {}
            n => notes.push(format!("{when}: the books of {n} trials do not close")),
        }
    }
    let figures: Vec<FigureComparison> = COMPARED
        .iter()
        .filter_map(|(name, _)| compare_figure(name, before, after))
        .collect();
    if figures
        .iter()
        .all(|one| one.p.is_none() && one.real.is_none())
    {
        notes.push(
            "too few valid trials to tell a difference from chance: each run needs two, better five or more (-n)"
                .into(),
        );
    }
    ArmComparison {
        name: after.name.clone(),
        notes,
        figures,
    }
}

fn compare_figure(
    name: &'static str,
    before: &ArmResult,
    after: &ArmResult,
) -> Option<FigureComparison> {
    let figure: Figure = name.parse().ok()?;
    let values = |arm: &ArmResult| -> Vec<f64> {
        let valid = arm.trials.iter().filter(|one| one.status == Status::Ok);
        valid.filter_map(|trial| trial.figure(&figure)).collect()
    };
    let (one, other) = (values(before), values(after));
    let is_nothing = |values: &[f64]| values.iter().all(|value| *value == 0.0);
    if is_nothing(&one) && is_nothing(&other) {
        return None;
    }
    let least = if name.ends_with("-ms") {
        LEAST_TIME_MS
    } else {
        LEAST_COUNT
    };
    let p = welch(&one, &other, least);
    let (before, after) = (Summary::of(one), Summary::of(other));
    let means = before.zip(after).map(|(one, other)| (one.mean, other.mean));
    Some(FigureComparison {
        figure: name,
        change_percent: means
            .filter(|(one, _)| *one != 0.0)
            .map(|(one, other)| (other - one) / one.abs() * 100.0),
        before,
        after,
        p,
        real: None,
        worse: None,
    })
}

/// Trials of a count that are all alike say that it varies little, not that it cannot vary.
const LEAST_COUNT: f64 = 0.5;
/// The like for times.
const LEAST_TIME_MS: f64 = 1.0;

/// The two-sided p-value of Welch's t-test (Biometrika 34, 1947); `None` with less than two values on a side.
/// No standard deviation is taken to be smaller than `least`.
#[expect(
    clippy::cast_precision_loss,
    reason = "a run has far fewer than 2^53 trials"
)]
fn welch(one: &[f64], other: &[f64], least: f64) -> Option<f64> {
    let moments = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (values.len() > 1).then(|| (mean, (squares / (n - 1.0)).max(least * least) / n, n))
    };
    let ((mean1, error1, n1), (mean2, error2, n2)) = (moments(one)?, moments(other)?);
    let error = error1 + error2;
    let t = (mean1 - mean2).abs() / error.sqrt();
    let freedom = error.powi(2) / (error1.powi(2) / (n1 - 1.0) + error2.powi(2) / (n2 - 1.0));
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(2.0 * student.sf(t))
}

/// Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979), and what follows from it. A figure
/// that is the same in every trial of both runs cannot differ, and is no test.
#[expect(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "far fewer than 2^53 figures are compared; a constant is exactly equal"
)]
fn correct(mut figures: Vec<&mut FigureComparison>) {
    let is_constant = |one: &FigureComparison| {
        let ends = |summary: Summary| [summary.min, summary.max];
        let ends = one.before.map(ends).zip(one.after.map(ends));
        ends.is_some_and(|(a, b)| a[0] == a[1] && a == b)
    };
    for figure in figures
        .iter_mut()
        .filter(|one| one.p.is_some() && is_constant(one))
    {
        (figure.p, figure.real) = (Some(1.0), Some(false));
    }
    figures.retain(|one| one.p.is_some() && one.real.is_none());
    figures.sort_by(|a, b| f64::total_cmp(&a.p.unwrap_or(1.0), &b.p.unwrap_or(1.0)));
    let (tests, mut largest) = (figures.len(), 0.0_f64);
    for (rank, figure) in figures.into_iter().enumerate() {
        let corrected = figure.p.unwrap_or(1.0) * (tests - rank) as f64;
        largest = largest.max(corrected).min(1.0);
        let real = largest < ERROR_RATE;
        (figure.p, figure.real) = (Some(largest), Some(real));
        let means = figure.before.zip(figure.after);
        let grew = means.is_some_and(|(before, after)| after.mean > before.mean);
        let good = COMPARED.iter().find(|(name, _)| *name == figure.figure);
        figure.worse = match good.map(|(_, good)| *good) {
            Some(Good::More) => Some(real && !grew),
            Some(Good::Less) => Some(real && grew),
            Some(Good::Neither) | None => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with R: t.test(a, b)$p.value.
    #[test]
    fn welch_as_elsewhere() {
        let a = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ];
        let b = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5,
            24.4,
        ];
        assert!((welch(&a, &b, 0.0).unwrap() - 0.021_378).abs() < 1e-5);
        let a = [3.0, 4.0, 1.0, 2.1];
        let b = [490.2, 340.0, 433.9];
        assert!((welch(&a, &b, 0.0).unwrap() - 0.010_751).abs() < 1e-5);
    }

    #[test]
    fn one_value_tells_nothing_and_equal_values_not_everything() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0], 0.5), None);
        let close = welch(&[29.0; 5], &[28.0; 5], LEAST_COUNT).unwrap();
        assert!(close > 0.01 && close < 0.05, "{close}");
        let far = welch(&[29.0; 5], &[60.0; 5], LEAST_COUNT).unwrap();
        assert!(far < 1e-9, "{far}");
        assert!((welch(&[29.0; 5], &[29.0; 5], LEAST_COUNT).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn holm_as_elsewhere() {
        let figure = |p| FigureComparison {
            figure: "ok",
            before: Summary::of(vec![1.0, 2.0]),
            after: Summary::of(vec![3.0, 4.0]),
            change_percent: None,
            p: Some(p),
            real: None,
            worse: None,
        };
        // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") in R.
        let mut figures = [0.01, 0.04, 0.03, 0.005].map(figure);
        correct(figures.iter_mut().collect());
        for (figure, expected) in figures.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((figure.p.unwrap() - expected).abs() < 1e-12, "{figure:?}");
            assert_eq!(figure.real, Some(expected < 0.05));
            assert_eq!(figure.worse, Some(false), "more answers are better");
        }
    }
}
