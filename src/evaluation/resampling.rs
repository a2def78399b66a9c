//! Intervals and tests by resampling queries, from a seed: equal inputs give equal figures.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::spread::{mean, percentile};

/// Resamples behind every interval and every p-value.
pub const RESAMPLES: usize = 10_000;

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// 2.5th percentile of the resampled means.
    pub low: f64,
    /// 97.5th percentile of the resampled means.
    pub high: f64,
}

/// The mean and its percentile bootstrap interval (Efron and Tibshirani 1993, ch. 13): queries drawn with replacement,
/// [`RESAMPLES`] times. Of differences by query it is the paired interval (Sakai 2006).
pub fn mean_interval(values: &[f64], seed: u64) -> Estimate {
    let average = mean(values);
    if values.is_empty() {
        return Estimate {
            mean: average,
            low: average,
            high: average,
        };
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn = (0..values.len()).map(|_| values[rng.random_range(0..values.len())]);
            drawn.sum::<f64>() / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Estimate {
        mean: average,
        low: percentile(&means, 2.5),
        high: percentile(&means, 97.5),
    }
}

/// Two-sided p-value of the paired randomisation test (Fisher; Smucker, Allan and Carterette 2007): were the two systems the
/// same, each query's difference could as well have the other sign. p = (1 + resamples at least as far from 0)/(1 + resamples).
pub fn sign_flip_p(differences: &[f64], seed: u64) -> f64 {
    let moved: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    // Sums of the same numbers in another order differ by rounding.
    let observed = moved.iter().sum::<f64>().abs() - 1e-12;
    let mut rng = StdRng::seed_from_u64(seed);
    let extreme = (0..RESAMPLES)
        .filter(|_| flipped(&moved, &mut rng).abs() >= observed)
        .count();
    (1 + extreme) as f64 / (1 + RESAMPLES) as f64
}

fn flipped(values: &[f64], rng: &mut StdRng) -> f64 {
    let mut sum = 0.0;
    for block in values.chunks(64) {
        let mut signs = rng.next_u64();
        for value in block {
            sum += if signs & 1 == 1 { *value } else { -value };
            signs >>= 1;
        }
    }
    sum
}

/// Holm's step-down correction (1979) for several tests at once, in the order given: the chance that any of them calls a
/// difference where there is none stays below the level.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut highest = 0.0_f64;
    for (done, index) in order.into_iter().enumerate() {
        let factor = (p_values.len() - done) as f64;
        highest = highest.max((p_values[index] * factor).min(1.0));
        adjusted[index] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_difference_is_p_1_and_a_steady_one_is_significant() {
        assert_eq!(sign_flip_p(&[0.0; 40], 1), 1.0);
        assert_eq!(sign_flip_p(&[], 1), 1.0);
        let steady: Vec<f64> = (0..40).map(|n| 0.05 + f64::from(n % 3) * 0.01).collect();
        assert!(sign_flip_p(&steady, 1) < 0.001);
        let undecided: Vec<f64> = (0..40)
            .map(|n| if n % 2 == 0 { 0.1 } else { -0.1 })
            .collect();
        assert!(sign_flip_p(&undecided, 1) > 0.5);
    }

    #[test]
    fn few_queries_give_the_exact_p_value() {
        // Of the 8 sign patterns of three equal differences, 2 are as extreme.
        assert!((sign_flip_p(&[0.2; 3], 7) - 0.25).abs() < 0.02);
    }

    #[test]
    fn the_interval_agrees_with_the_standard_error() {
        let values: Vec<f64> = (0..400).map(|n| f64::from(n % 5)).collect();
        let estimate = mean_interval(&values, 3);
        // Standard deviation √2, 400 values: 2 ± 1.96 · 0.0707.
        assert!((estimate.low - 1.861).abs() < 0.015 && (estimate.high - 2.139).abs() < 0.015);
        assert_eq!(estimate, mean_interval(&values, 3));
    }

    #[test]
    fn holm_by_hand() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.9]);
        let expected = [0.04, 0.09, 0.09, 0.9];
        for (value, expected) in adjusted.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "{adjusted:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn an_interval_holds_its_mean(values in prop::collection::vec(-1.0f64..1.0, 8..40), seed: u64) {
            let estimate = mean_interval(&values, seed);
            prop_assert!(estimate.low <= estimate.mean && estimate.mean <= estimate.high);
            let p = sign_flip_p(&values, seed);
            prop_assert!(p > 0.0 && p <= 1.0);
        }
    }
}
