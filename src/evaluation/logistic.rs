//! The logistic function that turns a model's raw output into a probability of relevance.

use super::spread::mean;
use crate::error::{Error, ErrorKind, Result};

const ITERATIONS: usize = 100;
/// Keeps the Hessian invertible when almost all outputs are equal.
const RIDGE: f64 = 1e-9;
const SMALLEST_STEP: f64 = 1e-10;
const CONVERGED: f64 = 1e-9;

/// p = 1/(1 + e^−(scale · x + shift)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logistic {
    /// Factor, above 0.
    pub scale: f64,
    /// Offset.
    pub shift: f64,
}

impl Logistic {
    /// The probability for a raw output.
    pub fn probability(self, x: f64) -> f64 {
        sigmoid(self.scale * x + self.shift)
    }
}

/// Platt scaling: maximum likelihood of (output, relevant) pairs by Newton's method with backtracking, with Platt's smoothed
/// targets (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2), which keep the scale finite for classes that don't overlap (Platt 1999; Lin, Lin
/// and Weng, "A note on Platt's probabilistic outputs for support vector machines", 2007).
///
/// # Errors
/// `NotFound` when a class is empty, outputs are not finite or all equal, or relevant pairs don't score higher than irrelevant
/// ones: no increasing function fits.
pub fn fit(pairs: &[(f64, bool)]) -> Result<Logistic> {
    let positives = pairs.iter().filter(|(_, relevant)| *relevant).count();
    let negatives = pairs.len() - positives;
    if positives == 0 || negatives == 0 {
        return Err(failed("relevant and irrelevant pairs are both needed"));
    }
    let (centre, spread) = moments(pairs);
    if !(spread.is_finite() && spread > 0.0) {
        return Err(failed(
            "the model gives every pair the same output, or none that is finite",
        ));
    }
    let high = (positives as f64 + 1.0) / (positives as f64 + 2.0);
    let low = 1.0 / (negatives as f64 + 2.0);
    // Outputs of mean 0 and deviation 1 make the steps of every model alike.
    let scaled: Vec<(f64, f64)> = pairs
        .iter()
        .map(|(x, relevant)| ((x - centre) / spread, if *relevant { high } else { low }))
        .collect();
    let start = [
        0.0,
        ((positives as f64 + 1.0) / (negatives as f64 + 1.0)).ln(),
    ];
    let [slope, offset] = newton(&scaled, start);
    let scale = slope / spread;
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(failed(&reversed(pairs)));
    }
    Ok(Logistic {
        scale,
        shift: offset - scale * centre,
    })
}

fn failed(problem: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("no calibration fits: {problem}"),
    )
}

fn reversed(pairs: &[(f64, bool)]) -> String {
    let mean_of = |side: bool| {
        let outputs = pairs.iter().filter(|(_, relevant)| *relevant == side);
        mean(&outputs.map(|(x, _)| *x).collect::<Vec<_>>())
    };
    format!(
        "relevant pairs don't score higher than irrelevant ones (mean output {:.3} against {:.3})",
        mean_of(true),
        mean_of(false)
    )
}

fn moments(pairs: &[(f64, bool)]) -> (f64, f64) {
    let count = pairs.len() as f64;
    let centre = pairs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let variance = pairs.iter().map(|(x, _)| (x - centre).powi(2)).sum::<f64>() / count;
    (centre, variance.sqrt())
}

fn newton(pairs: &[(f64, f64)], start: [f64; 2]) -> [f64; 2] {
    let mut at = start;
    let mut loss = cross_entropy(pairs, at);
    for _ in 0..ITERATIONS {
        let (gradient, [aa, ab, bb]) = derivatives(pairs, at);
        if gradient.iter().all(|g| g.abs() < CONVERGED) {
            break;
        }
        let determinant = aa * bb - ab * ab;
        let step = [
            -(bb * gradient[0] - ab * gradient[1]) / determinant,
            -(aa * gradient[1] - ab * gradient[0]) / determinant,
        ];
        let mut length = 1.0;
        let better = loop {
            let there = [at[0] + length * step[0], at[1] + length * step[1]];
            let new_loss = cross_entropy(pairs, there);
            if new_loss < loss {
                break Some((there, new_loss));
            }
            length /= 2.0;
            if length < SMALLEST_STEP {
                break None;
            }
        };
        match better {
            Some(better) => (at, loss) = better,
            None => break,
        }
    }
    at
}

/// Gradient and Hessian (aa, ab, bb) of the cross-entropy.
fn derivatives(pairs: &[(f64, f64)], [slope, offset]: [f64; 2]) -> ([f64; 2], [f64; 3]) {
    let (mut gradient, mut hessian) = ([0.0; 2], [RIDGE, 0.0, RIDGE]);
    for (x, target) in pairs {
        let p = sigmoid(slope * x + offset);
        let (error, weight) = (p - target, p * (1.0 - p));
        gradient[0] += error * x;
        gradient[1] += error;
        hessian[0] += weight * x * x;
        hessian[1] += weight * x;
        hessian[2] += weight;
    }
    (gradient, hessian)
}

/// −Σ t ln p + (1 − t) ln(1 − p), written so that nothing overflows.
fn cross_entropy(pairs: &[(f64, f64)], [slope, offset]: [f64; 2]) -> f64 {
    let of_pair = |(x, target): &(f64, f64)| {
        let z = slope * x + offset;
        z.max(0.0) - z * target + (-z.abs()).exp().ln_1p()
    };
    pairs.iter().map(of_pair).sum()
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn drawn(scale: f64, shift: f64, count: usize) -> Vec<(f64, bool)> {
        let mut rng = StdRng::seed_from_u64(5);
        let pair = |_| {
            let x: f64 = rng.random_range(-6.0..6.0);
            (x, rng.random_bool(sigmoid(scale * x + shift)))
        };
        (0..count).map(pair).collect()
    }

    #[test]
    fn what_made_the_pairs_is_found_again() {
        for (scale, shift) in [(0.8, -0.5), (1.5, 2.0)] {
            let fitted = fit(&drawn(scale, shift, 40_000)).unwrap();
            assert!(
                (fitted.scale - scale).abs() < 0.05 && (fitted.shift - shift).abs() < 0.1,
                "{fitted:?}"
            );
        }
    }

    #[test]
    fn the_gradient_is_zero_at_the_fit() {
        let pairs = drawn(0.7, 0.3, 300);
        let fitted = fit(&pairs).unwrap();
        let positives = pairs.iter().filter(|(_, r)| *r).count() as f64;
        let (high, low) = (
            (positives + 1.0) / (positives + 2.0),
            1.0 / (300.0 - positives + 2.0),
        );
        let error = |(x, relevant): &(f64, bool)| {
            fitted.probability(*x) - if *relevant { high } else { low }
        };
        let sum: f64 = pairs.iter().map(error).sum();
        assert!(sum.abs() < 1e-6, "{sum}");
    }

    #[test]
    fn classes_that_do_not_overlap_get_a_finite_scale() {
        let pairs: Vec<(f64, bool)> = (0..100).map(|n| (f64::from(n), n >= 50)).collect();
        let fitted = fit(&pairs).unwrap();
        assert!(fitted.scale.is_finite() && fitted.scale > 0.0);
        assert!((fitted.probability(49.5) - 0.5).abs() < 0.05);
    }

    #[test]
    fn what_cannot_fit_says_why() {
        let problem = |pairs: &[(f64, bool)]| fit(pairs).unwrap_err().message().to_owned();
        assert!(problem(&[(1.0, true)]).contains("both needed"));
        assert!(problem(&[(1.0, true), (1.0, false)]).contains("same output"));
        assert!(problem(&[(f64::NAN, true), (1.0, false)]).contains("finite"));
        let reversed: Vec<(f64, bool)> = drawn(-1.0, 0.0, 500);
        assert!(problem(&reversed).contains("don't score higher"));
    }
}
