//! Where `CORRECT` begins and `INCORRECT` ends, chosen on judged pairs.

/// One-sided 90 % of the normal distribution.
const Z: f64 = 1.281_551_565_544_9;

/// Thresholds on the probability, inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// `CORRECT` at or above it.
    pub correct: f32,
    /// `INCORRECT` at or below it; 0 when a single miss would be too many.
    pub incorrect: f32,
}

/// Lower bound of a share by Wilson's score interval (1927), one-sided at 90 %: with few pairs a share proves little.
pub fn wilson_lower(share: f64, count: usize) -> f64 {
    if count == 0 {
        return 0.0;
    }
    let n = count as f64;
    let centre = share + Z * Z / (2.0 * n);
    let margin = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre - margin) / (1.0 + Z * Z / n)).max(0.0)
}

/// Chooses thresholds for (probability, relevant) pairs.
///
/// `CORRECT`: the lowest probability at or above which the lower bound of the precision reaches `precision`; `None` when there is
/// none. `weight` is what a relevant pair counts against an irrelevant one (1 = as judged).
/// `INCORRECT`: the highest probability that occurs, with at most `miss_rate` of the relevant pairs at or below it, and below
/// `CORRECT`.
pub fn choose(
    pairs: &[(f32, bool)],
    weight: f64,
    precision: f64,
    miss_rate: f64,
) -> Option<Thresholds> {
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let correct = correct(&sorted, weight, precision)?;
    let incorrect = incorrect(&sorted, miss_rate, correct);
    Some(Thresholds { correct, incorrect })
}

fn correct(descending: &[(f32, bool)], weight: f64, precision: f64) -> Option<f32> {
    let (mut relevant, mut irrelevant, mut lowest) = (0_usize, 0_usize, None);
    for group in descending.chunk_by(|(a, _), (b, _)| a == b) {
        let hits = group.iter().filter(|(_, is)| *is).count();
        relevant += hits;
        irrelevant += group.len() - hits;
        let weighted = weight * relevant as f64;
        let share = weighted / (weighted + irrelevant as f64);
        if wilson_lower(share, relevant + irrelevant) >= precision {
            lowest = Some(group[0].0);
        }
    }
    lowest
}

fn incorrect(descending: &[(f32, bool)], miss_rate: f64, correct: f32) -> f32 {
    let relevant = descending.iter().filter(|(_, is)| *is).count();
    let allowed = miss_rate * relevant as f64;
    let (mut missed, mut highest) = (0_usize, 0.0);
    for group in descending.chunk_by(|(a, _), (b, _)| a == b).rev() {
        missed += group.iter().filter(|(_, is)| *is).count();
        if missed as f64 > allowed || group[0].0 >= correct {
            break;
        }
        highest = group[0].0;
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wilson_by_hand() {
        assert!(
            (wilson_lower(0.9, 100) - 0.8549).abs() < 5e-4,
            "{}",
            wilson_lower(0.9, 100)
        );
        assert!((wilson_lower(1.0, 10) - 10.0 / (10.0 + Z * Z)).abs() < 1e-12);
        assert_eq!(wilson_lower(0.5, 0), 0.0);
    }

    /// Relevant pairs at .005, .015, … .995; irrelevant ones below one half.
    fn pairs() -> Vec<(f32, bool)> {
        let relevant = (0..100).map(|n| (0.005 + 0.01 * n as f32, true));
        let irrelevant = (0..100).map(|n| (0.002 + 0.005 * n as f32, false));
        relevant.chain(irrelevant).collect()
    }

    #[test]
    fn the_targets_are_met_and_no_threshold_is_further_than_needed() {
        let chosen = choose(&pairs(), 1.0, 0.8, 0.05).unwrap();
        let above = |t: f32, is: bool| pairs().iter().filter(|(p, r)| *p >= t && *r == is).count();
        let (hits, wrong) = (above(chosen.correct, true), above(chosen.correct, false));
        assert!(wilson_lower(hits as f64 / (hits + wrong) as f64, hits + wrong) >= 0.8);
        let missed = pairs()
            .iter()
            .filter(|(p, r)| *p <= chosen.incorrect && *r)
            .count();
        assert_eq!(missed, 5);
        // A target that only fewer pairs reach needs a higher threshold; one that nothing reaches has none.
        assert!(choose(&pairs(), 1.0, 0.95, 0.05).unwrap().correct > chosen.correct);
        assert_eq!(choose(&pairs(), 1.0, 0.999, 0.05), None);
        // Relevant pairs that are rarer than judged make the same threshold less precise.
        assert!(choose(&pairs(), 0.1, 0.8, 0.05).unwrap().correct > chosen.correct);
        assert_eq!(choose(&pairs(), 1.0, 0.8, 0.0).unwrap().incorrect, 0.002);
    }

    proptest! {
        #[test]
        fn incorrect_stays_below_correct_and_within_the_miss_rate(
            pairs in prop::collection::vec((0u8..50, any::<bool>()), 20..200),
            miss_rate in 0.0f64..0.5,
        ) {
            let pairs: Vec<(f32, bool)> = pairs.into_iter().map(|(p, r)| (f32::from(p) / 50.0, r)).collect();
            if let Some(chosen) = choose(&pairs, 1.0, 0.3, miss_rate) {
                prop_assert!(chosen.incorrect < chosen.correct || chosen.correct == 0.0);
                let relevant = pairs.iter().filter(|(_, r)| *r).count() as f64;
                let missed = pairs.iter().filter(|(p, r)| *r && *p <= chosen.incorrect && *p < chosen.correct);
                let zero = pairs.iter().filter(|(p, r)| *r && *p == 0.0).count() as f64;
                prop_assert!(missed.count() as f64 <= (miss_rate * relevant).max(zero) + 1e-9);
            }
        }
    }
}
