//! Percentiles within a trial, summaries over trials.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Percentiles of a population, by nearest rank. One without enough samples is `null`: the median and the 90th
/// and 95th percentile need 20, the 99th needs 100.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Percentiles {
    /// The population's size.
    pub n: usize,
    /// The median.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The largest value; `null` for an empty population.
    pub max: Option<f64>,
}

impl Percentiles {
    /// Those of a population of microseconds, in milliseconds.
    pub fn of_us(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let n = values.len();
        let rank = |percent: usize, needed: usize| {
            let rank = (n * percent).div_ceil(100).max(1);
            (n >= needed).then(|| ms(values[rank - 1]))
        };
        Self {
            n,
            p50: rank(50, 20),
            p90: rank(90, 20),
            p95: rank(95, 20),
            p99: rank(99, 100),
            max: values.last().copied().map(ms),
        }
    }
}

/// Microseconds as milliseconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "times of a trial are far below 2^53 microseconds"
)]
pub(crate) fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}

/// A count as a number to reckon with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a trial are far below 2^53"
)]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// A figure over the valid trials of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The lower end of the mean's 95 % interval by Student's t; `null` for a single trial.
    pub ci95_low: Option<f64>,
    /// The upper end.
    pub ci95_high: Option<f64>,
    /// How many trials.
    pub n: usize,
}

impl Summary {
    /// Of these values; `None` when there are none.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a run has far fewer than 2^53 trials"
    )]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let n = values.len();
        let (&min, &max) = (values.first()?, values.last()?);
        let mean = values.iter().sum::<f64>() / n as f64;
        let half = student_t(n - 1).map(|t| {
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            t * (variance / n as f64).sqrt()
        });
        Some(Self {
            mean,
            median: f64::midpoint(values[(n - 1) / 2], values[n / 2]),
            min,
            max,
            ci95_low: half.map(|half| mean - half),
            ci95_high: half.map(|half| mean + half),
            n,
        })
    }
}

/// The 97.5 % quantile of Student's t distribution; `None` without a degree of freedom.
#[expect(
    clippy::cast_precision_loss,
    reason = "a run has far fewer than 2^53 trials"
)]
fn student_t(degrees: usize) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, degrees as f64).ok()?;
    Some(student.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_percentile_without_enough_samples_is_unknown() {
        let few = Percentiles::of_us((1..=19).map(|n| n * 1_000).collect());
        assert_eq!((few.n, few.p50, few.max), (19, None, Some(19.0)));
        let more = Percentiles::of_us((1..=99).map(|n| n * 1_000).collect());
        assert_eq!((more.p50, more.p99), (Some(50.0), None));
        let enough = Percentiles::of_us((1..=100).map(|n| n * 1_000).collect());
        assert_eq!((enough.p90, enough.p99), (Some(90.0), Some(99.0)));
        assert_eq!(Percentiles::of_us(Vec::new()).max, None);
    }

    #[test]
    fn a_summary_of_known_values() {
        let summary = Summary::of(vec![30.0, 34.0, 32.0]).unwrap();
        assert_eq!(
            (summary.mean, summary.median, summary.min, summary.max),
            (32.0, 32.0, 30.0, 34.0)
        );
        // s = 2, t(2) = 4.302653: the half width is 4.302653 * 2 / sqrt(3).
        assert!((summary.ci95_high.unwrap() - 36.968_275).abs() < 1e-5);
        assert_eq!(Summary::of(vec![1.0]).unwrap().ci95_low, None);
        assert_eq!(Summary::of(Vec::new()), None);
    }

    proptest! {
        #[test]
        fn percentiles_rise(values in prop::collection::vec(0_u64..1_000_000, 100..300)) {
            let p = Percentiles::of_us(values);
            prop_assert!(p.p50 <= p.p90 && p.p90 <= p.p95 && p.p95 <= p.p99 && p.p99 <= p.max);
        }
    }
}
