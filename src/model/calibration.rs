//! From a cross-encoder's raw output to a probability, and from that to a grade. Bound to a model, sometimes to a corpus.

use std::collections::BTreeMap;

use super::{CorpusRef, Grade};

/// How raw outputs of one model are read. Thresholds are probabilities, inclusive at both ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Names this calibration in records; empty = none was made, the values are conservative guesses.
    pub id: String,
    /// Factor of the logistic function, above 0.
    pub scale: f32,
    /// Offset of the logistic function.
    pub shift: f32,
    /// At or above it a pair is `CORRECT`.
    pub correct: f32,
    /// At or below it a pair is `INCORRECT`, unless it is `CORRECT`.
    pub incorrect: f32,
}

impl Calibration {
    /// For a model nobody has calibrated: few pairs are called correct, and hardly any incorrect.
    pub fn conservative() -> Self {
        Self {
            id: String::new(),
            scale: 1.0,
            shift: 0.0,
            correct: 0.9,
            incorrect: 0.01,
        }
    }

    /// Whether it was got from judged queries.
    pub fn is_measured(&self) -> bool {
        !self.id.is_empty()
    }

    /// Probability of relevance: 1 / (1 + e^−(scale · logit + shift)), from 0 to 1.
    pub fn probability(&self, logit: f32) -> f32 {
        let x = f64::from(self.scale) * f64::from(logit) + f64::from(self.shift);
        (1.0 / (1.0 + (-x).exp())) as f32
    }

    /// The verdict on a raw output.
    pub fn grade(&self, logit: f32) -> Grade {
        let p = self.probability(logit);
        if p >= self.correct {
            Grade::Correct
        } else if p <= self.incorrect {
            Grade::Incorrect
        } else {
            Grade::Ambiguous
        }
    }
}

/// All calibrations of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrations {
    of_model: Calibration,
    of_corpora: BTreeMap<(String, String), Calibration>,
}

impl Calibrations {
    /// The model's own calibration, and those by tenant and corpus name.
    pub fn new(of_model: Calibration, of_corpora: BTreeMap<(String, String), Calibration>) -> Self {
        Self {
            of_model,
            of_corpora,
        }
    }

    /// What holds for a corpus: its own calibration, else the model's.
    pub fn of(&self, corpus: &CorpusRef) -> &Calibration {
        let key = (
            corpus.tenant.as_str().to_owned(),
            corpus.corpus.as_str().to_owned(),
        );
        self.of_corpora.get(&key).unwrap_or(&self.of_model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CorpusName, TenantId};

    fn calibration(correct: f32, incorrect: f32) -> Calibration {
        Calibration {
            id: "test".into(),
            correct,
            incorrect,
            ..Calibration::conservative()
        }
    }

    #[test]
    fn thresholds_are_inclusive_and_correct_goes_first() {
        let half = calibration(0.5, 0.5);
        assert_eq!(half.probability(0.0), 0.5);
        assert_eq!(half.grade(0.0), Grade::Correct);
        assert_eq!(half.grade(-0.001), Grade::Incorrect);
        let at = |logit: f32| Calibration::conservative().probability(logit);
        let wide = calibration(at(2.0), at(-2.0));
        assert_eq!(wide.grade(2.0), Grade::Correct);
        assert_eq!(wide.grade(-2.0), Grade::Incorrect);
        assert_eq!(wide.grade(1.99), Grade::Ambiguous);
        assert_eq!(wide.grade(-1.99), Grade::Ambiguous);
    }

    #[test]
    fn extreme_logits_stay_within_zero_and_one() {
        let any = Calibration::conservative();
        for logit in [f32::MIN, -1e4, -88.0, 0.0, 88.0, 1e4, f32::MAX] {
            let p = any.probability(logit);
            assert!((0.0..=1.0).contains(&p), "{logit} gave {p}");
        }
    }

    #[test]
    fn a_corpus_of_its_own_calibration_uses_that() {
        let corpus = |tenant: &str, name: &str| {
            CorpusRef::new(
                TenantId::mint(tenant).expect("valid"),
                CorpusName::new(name).expect("valid"),
            )
        };
        let own = calibration(0.6, 0.2);
        let key = ("acme".to_owned(), "docs".to_owned());
        let all = Calibrations::new(Calibration::conservative(), [(key, own.clone())].into());
        assert_eq!(all.of(&corpus("acme", "docs")), &own);
        assert!(!all.of(&corpus("acme", "other")).is_measured());
        assert!(!all.of(&corpus("other", "docs")).is_measured());
    }
}
