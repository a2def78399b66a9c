//! From judged pairs with raw model outputs to a [`Calibration`], and how well it does on queries it has not seen.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::logistic::fit;
use super::thresholds::choose;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Calibration, Grade};

const BINS: usize = 10;

/// A judged (query, document) pair. The document's best chunk stands for it: relevance was judged of documents, and the best
/// chunk is the one that would carry it.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedPair {
    /// The query's id.
    pub query: String,
    /// The document's id.
    pub document: String,
    /// The model's raw output.
    pub logit: f32,
    /// Whether the document is judged relevant.
    pub relevant: bool,
}

/// What a calibration must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationPlan {
    /// Precision of `CORRECT`, as the lower bound of a one-sided 90 % interval.
    pub precision: f64,
    /// The largest share of relevant pairs that may be `INCORRECT`.
    pub miss_rate: f64,
    /// Relevant and irrelevant pairs needed, each.
    pub minimum: usize,
    /// Share of relevant pairs among those that will be graded; `None` = as among the judged ones.
    pub prevalence: Option<f64>,
}

/// A calibration, not named yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// Its values; the id is empty.
    pub calibration: Calibration,
    /// Relevant pairs it was got from.
    pub positives: usize,
    /// Irrelevant pairs it was got from.
    pub negatives: usize,
    /// What a reader should doubt.
    pub warnings: Vec<String>,
}

/// How a calibration does on held-out pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOut {
    /// Relevant pairs.
    pub positives: usize,
    /// Irrelevant pairs.
    pub negatives: usize,
    /// Pairs graded `CORRECT`.
    pub correct: usize,
    /// Pairs graded `INCORRECT`.
    pub incorrect: usize,
    /// Share of relevant pairs among `CORRECT` ones; `None` without any.
    pub precision: Option<f64>,
    /// Share of relevant pairs graded `INCORRECT`; `None` without any.
    pub miss_rate: Option<f64>,
    /// Mean squared error of the probability (Brier 1950).
    pub brier: f64,
    /// Expected calibration error: Σ |mean probability − share of relevant pairs| over ten equal bins, weighted by their size
    /// (Naeini, Cooper and Hauskrecht 2015).
    pub calibration_error: f64,
}

/// Splits queries by chance, from a seed: the first part to calibrate on, the rest to report on. Queries are split, not pairs,
/// so that no query is in both.
pub fn split_queries(
    mut queries: Vec<String>,
    share: f64,
    seed: u64,
) -> (Vec<String>, Vec<String>) {
    queries.sort();
    queries.dedup();
    let mut rng = StdRng::seed_from_u64(seed);
    for last in (1..queries.len()).rev() {
        queries.swap(last, rng.random_range(0..=last));
    }
    let first = (share * queries.len() as f64).round() as usize;
    let rest = queries.split_off(first.min(queries.len()));
    (queries, rest)
}

/// Fits the logistic function, then chooses the thresholds on its probabilities.
///
/// # Errors
/// `NotFound` when there are too few pairs (with how many there were), when nothing fits, or when no threshold reaches the
/// precision.
pub fn calibrate(pairs: &[JudgedPair], plan: &CalibrationPlan) -> Result<Calibrated> {
    let positives = pairs.iter().filter(|pair| pair.relevant).count();
    let negatives = pairs.len() - positives;
    if positives < plan.minimum || negatives < plan.minimum {
        return Err(failed(format!(
            "too few judged pairs came back: {positives} relevant and {negatives} irrelevant, {} of each are needed",
            plan.minimum
        )));
    }
    let raw: Vec<(f64, bool)> = pairs
        .iter()
        .map(|p| (f64::from(p.logit), p.relevant))
        .collect();
    let fitted = fit(&raw)?;
    let judged_odds = positives as f64 / negatives as f64;
    let odds = plan
        .prevalence
        .map_or(judged_odds, |share| share / (1.0 - share));
    // Other odds of relevance move the offset alone (prior correction: King and Zeng 2001).
    let mut calibration = Calibration {
        id: String::new(),
        scale: fitted.scale as f32,
        shift: (fitted.shift + (odds / judged_odds).ln()) as f32,
        correct: 1.0,
        incorrect: 0.0,
    };
    let graded: Vec<(f32, bool)> = pairs
        .iter()
        .map(|p| (calibration.probability(p.logit), p.relevant))
        .collect();
    let chosen = choose(&graded, odds / judged_odds, plan.precision, plan.miss_rate);
    let Some(chosen) = chosen else {
        return Err(failed(format!(
            "no threshold gives CORRECT a precision of {} on {positives} relevant and {negatives} irrelevant pairs",
            plan.precision
        )));
    };
    (calibration.correct, calibration.incorrect) = (chosen.correct, chosen.incorrect);
    let warnings = doubts(&graded, &calibration, positives as f64 / pairs.len() as f64);
    Ok(Calibrated {
        calibration,
        positives,
        negatives,
        warnings,
    })
}

fn doubts(graded: &[(f32, bool)], calibration: &Calibration, relevant: f64) -> Vec<String> {
    let mut doubts = Vec::new();
    if graded.iter().all(|(p, _)| *p >= calibration.correct) {
        doubts.push(format!(
            "every judged pair is CORRECT: {:.0} % of them are relevant, so the precision asked for says nothing; ask for more, \
             or give the share of relevant pairs among what is graded",
            relevant * 100.0
        ));
    }
    if !graded.iter().any(|(p, _)| *p <= calibration.incorrect) {
        doubts.push("no judged pair is INCORRECT: the miss rate asked for allows none".to_owned());
    }
    doubts
}

/// Grades held-out pairs. `None` when there is none.
pub fn held_out(pairs: &[JudgedPair], calibration: &Calibration) -> Option<HeldOut> {
    if pairs.is_empty() {
        return None;
    }
    let count = |test: &dyn Fn(&JudgedPair) -> bool| pairs.iter().filter(|p| test(p)).count();
    let is = |pair: &JudgedPair, grade| calibration.grade(pair.logit) == grade;
    let positives = count(&|p| p.relevant);
    let correct = count(&|p| is(p, Grade::Correct));
    let hits = count(&|p| is(p, Grade::Correct) && p.relevant);
    let missed = count(&|p| is(p, Grade::Incorrect) && p.relevant);
    let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
    Some(HeldOut {
        positives,
        negatives: pairs.len() - positives,
        correct,
        incorrect: count(&|p| is(p, Grade::Incorrect)),
        precision: share(hits, correct),
        miss_rate: share(missed, positives),
        brier: brier(pairs, calibration),
        calibration_error: calibration_error(pairs, calibration),
    })
}

fn target(pair: &JudgedPair) -> f64 {
    f64::from(u8::from(pair.relevant))
}

fn brier(pairs: &[JudgedPair], calibration: &Calibration) -> f64 {
    let error = |pair: &JudgedPair| f64::from(calibration.probability(pair.logit)) - target(pair);
    pairs.iter().map(|pair| error(pair).powi(2)).sum::<f64>() / pairs.len() as f64
}

fn calibration_error(pairs: &[JudgedPair], calibration: &Calibration) -> f64 {
    let mut gaps = [0.0_f64; BINS];
    for pair in pairs {
        let p = f64::from(calibration.probability(pair.logit));
        let bin = ((p * BINS as f64) as usize).min(BINS - 1);
        gaps[bin] += p - target(pair);
    }
    gaps.iter().map(|gap| gap.abs()).sum::<f64>() / pairs.len() as f64
}

fn failed(problem: String) -> Error {
    Error::new(ErrorKind::NotFound, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAN: CalibrationPlan = CalibrationPlan {
        precision: 0.8,
        miss_rate: 0.05,
        minimum: 50,
        prevalence: None,
    };

    /// Pairs whose outputs follow the logistic function of scale 0.9 and shift −1.
    fn drawn(count: usize, seed: u64) -> Vec<JudgedPair> {
        let mut rng = StdRng::seed_from_u64(seed);
        let pair = |n| {
            let logit: f32 = rng.random_range(-8.0..10.0);
            let p = 1.0 / (1.0 + (-0.9 * f64::from(logit) + 1.0).exp());
            let (query, document) = (format!("q{}", n % 40), format!("d{n}"));
            JudgedPair {
                query,
                document,
                logit,
                relevant: rng.random_bool(p),
            }
        };
        (0..count).map(pair).collect()
    }

    #[test]
    fn a_calibration_keeps_its_promises_on_other_pairs() {
        let made = calibrate(&drawn(4_000, 1), &PLAN).unwrap();
        let calibration = &made.calibration;
        assert!((calibration.scale - 0.9).abs() < 0.1 && (calibration.shift + 1.0).abs() < 0.2);
        assert!(made.warnings.is_empty(), "{:?}", made.warnings);
        let other = drawn(4_000, 2);
        let held = held_out(&other, calibration).unwrap();
        assert!(held.precision.unwrap() > 0.78, "{held:?}");
        assert!(held.miss_rate.unwrap() < 0.07, "{held:?}");
        assert!(held.calibration_error < 0.03, "{held:?}");
        let uncalibrated = held_out(&other, &Calibration::conservative()).unwrap();
        assert!(held.brier < uncalibrated.brier);
        assert_eq!(held.positives + held.negatives, 4_000);
    }

    #[test]
    fn too_few_pairs_are_counted_in_the_error() {
        let few: Vec<JudgedPair> = drawn(60, 1);
        let positives = few.iter().filter(|p| p.relevant).count();
        let error = calibrate(&few, &PLAN).unwrap_err();
        let expected = format!(
            "{positives} relevant and {} irrelevant, 50 of each",
            60 - positives
        );
        assert!(error.message().contains(&expected), "{error}");
    }

    #[test]
    fn rarer_relevance_lowers_every_probability() {
        let pairs = drawn(4_000, 1);
        let as_judged = calibrate(&pairs, &PLAN).unwrap().calibration;
        let rare = CalibrationPlan {
            prevalence: Some(0.1),
            ..PLAN
        };
        let rare = calibrate(&pairs, &rare).unwrap().calibration;
        assert_eq!(rare.scale, as_judged.scale);
        assert!(rare.probability(1.0) < as_judged.probability(1.0));
        // In logits: CORRECT begins later.
        let begins = |c: &Calibration| {
            (-800..1000)
                .map(|n| n as f32 / 100.0)
                .find(|l| c.grade(*l) == Grade::Correct)
        };
        assert!(begins(&rare) > begins(&as_judged));
    }

    #[test]
    fn a_target_that_says_nothing_is_told() {
        let easy = CalibrationPlan {
            precision: 0.1,
            ..PLAN
        };
        let made = calibrate(&drawn(2_000, 1), &easy).unwrap();
        assert!(
            made.warnings[0].starts_with("every judged pair is CORRECT"),
            "{:?}",
            made.warnings
        );
        let hard = CalibrationPlan {
            precision: 0.9999,
            ..PLAN
        };
        assert!(
            calibrate(&drawn(2_000, 1), &hard)
                .unwrap_err()
                .message()
                .contains("no threshold")
        );
        assert_eq!(held_out(&[], &Calibration::conservative()), None);
    }

    proptest! {
        #[test]
        fn a_split_loses_nothing_and_depends_on_the_seed_alone(count in 0usize..80, share in 0.0f64..=1.0, seed: u64) {
            let queries: Vec<String> = (0..count).map(|n| format!("q{n}")).collect();
            let (first, rest) = split_queries(queries.clone(), share, seed);
            let reversed = queries.iter().rev().cloned().collect();
            prop_assert_eq!(split_queries(reversed, share, seed), (first.clone(), rest.clone()));
            prop_assert_eq!(first.len(), (share * count as f64).round() as usize);
            let mut all = [first, rest].concat();
            all.sort();
            let mut expected = queries;
            expected.sort();
            prop_assert_eq!(all, expected);
        }
    }
}
