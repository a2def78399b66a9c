//! Cross-encoders without a model: one by word overlap, one by a given rule, and a wrapper that fails on demand.
//!
//! Must not know any real cross-encoder. The fakes run the same contract suite as the real ones.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;

use super::encoders::{count, words};
use crate::error::{Error, Result};
use crate::model::{Calibration, Calibrations};
use crate::spi::{CrossEncoder, CrossEncoderInfo, PairScore, PairScoring};

/// Special tokens the fakes pretend to add to a pair.
const SPECIAL_TOKENS: usize = 3;

/// The fakes' default length in words, special tokens included.
const MAX_TOKENS: u32 = 256;

fn info(id: &str, max_tokens: u32) -> CrossEncoderInfo {
    assert!(
        max_tokens as usize > SPECIAL_TOKENS + 1,
        "room for two words"
    );
    CrossEncoderInfo {
        id: id.to_owned(),
        max_tokens,
        calibrations: Calibrations::new(Calibration::conservative(), [].into()),
    }
}

/// Cuts documents to the model's length and scores them: `logit` gets the query's and the document's words, and the document's position.
fn score(
    info: &CrossEncoderInfo,
    request: &PairScoring,
    logit: impl Fn(&[String], &[String], usize) -> f32,
) -> Vec<Result<PairScore>> {
    let query: Vec<String> = words(&request.query).collect();
    let room = (info.max_tokens as usize).saturating_sub(SPECIAL_TOKENS + query.len());
    let score_pair = |(position, document): (usize, &String)| {
        let is_late = request
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now());
        if is_late {
            return Err(Error::timeout("inference"));
        }
        if room == 0 {
            return Err(Error::invalid_field("query", "is too long"));
        }
        let mut document: Vec<String> = words(document).collect();
        let truncated = document.len().saturating_sub(room);
        document.truncate(room);
        let logit = logit(&query, &document, position);
        if !logit.is_finite() {
            return Err(Error::internal("the model's output isn't finite"));
        }
        Ok(PairScore {
            logit,
            tokens: count(query.len() + document.len() + SPECIAL_TOKENS),
            truncated: count(truncated),
        })
    };
    request
        .documents
        .iter()
        .enumerate()
        .map(score_pair)
        .collect()
}

/// A pair's logit is 8 · (the share of the query's words that the document has) − 4: from −4 to 4.
#[derive(Debug)]
pub struct HashCrossEncoder {
    info: CrossEncoderInfo,
}

impl HashCrossEncoder {
    /// A cross-encoder of that input length in words, uncalibrated.
    ///
    /// # Panics
    /// When there is no room for two words.
    pub fn new(id: &str, max_tokens: u32) -> Self {
        Self {
            info: info(id, max_tokens),
        }
    }

    /// The same with calibrations.
    #[must_use]
    pub fn calibrated(mut self, calibrations: Calibrations) -> Self {
        self.info.calibrations = calibrations;
        self
    }
}

fn overlap(query: &[String], document: &[String]) -> f32 {
    let found = query.iter().filter(|word| document.contains(word)).count();
    8.0 * found as f32 / query.len().max(1) as f32 - 4.0
}

#[async_trait]
impl CrossEncoder for HashCrossEncoder {
    fn info(&self) -> &CrossEncoderInfo {
        &self.info
    }

    async fn score_pairs(&self, request: PairScoring) -> Result<Vec<Result<PairScore>>> {
        Ok(score(&self.info, &request, |query, document, _| {
            overlap(query, document)
        }))
    }
}

/// What a pair's logit shall be: of a query and a document, whole.
type Rule = dyn Fn(&str, &str) -> f32 + Send + Sync;

/// Scores by a given rule and records what it was asked. A logit that isn't finite is that pair's `Internal` error.
pub struct ScriptedCrossEncoder {
    info: CrossEncoderInfo,
    rule: Box<Rule>,
    calls: Mutex<Vec<PairScoring>>,
}

impl ScriptedCrossEncoder {
    /// A cross-encoder of 256 words, uncalibrated.
    pub fn new(id: &str, rule: impl Fn(&str, &str) -> f32 + Send + Sync + 'static) -> Self {
        Self {
            info: info(id, MAX_TOKENS),
            rule: Box::new(rule),
            calls: Mutex::default(),
        }
    }

    /// The logit of the first entry whose text is in the document; of none, `otherwise`.
    pub fn by_text(id: &str, entries: &[(&str, f32)], otherwise: f32) -> Self {
        let entries: Vec<(String, f32)> = (entries.iter())
            .map(|(text, logit)| ((*text).to_owned(), *logit))
            .collect();
        Self::new(id, move |_, document| {
            let entry = entries.iter().find(|(text, _)| document.contains(text));
            entry.map_or(otherwise, |(_, logit)| *logit)
        })
    }

    /// The same with calibrations.
    #[must_use]
    pub fn calibrated(mut self, calibrations: Calibrations) -> Self {
        self.info.calibrations = calibrations;
        self
    }

    /// What it was asked, in order.
    pub fn calls(&self) -> Vec<PairScoring> {
        self.recorded().clone()
    }

    /// Pairs it was asked for, over all calls.
    pub fn pairs(&self) -> usize {
        self.recorded()
            .iter()
            .map(|call| call.documents.len())
            .sum()
    }

    fn recorded(&self) -> std::sync::MutexGuard<'_, Vec<PairScoring>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ScriptedCrossEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedCrossEncoder")
            .field("pairs", &self.pairs())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl CrossEncoder for ScriptedCrossEncoder {
    fn info(&self) -> &CrossEncoderInfo {
        &self.info
    }

    async fn score_pairs(&self, request: PairScoring) -> Result<Vec<Result<PairScore>>> {
        self.recorded().push(request.clone());
        Ok(score(&self.info, &request, |_, _, position| {
            (self.rule)(&request.query, &request.documents[position])
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spi::Priority;
    use crate::testing::contract::cross_encoder as contract;

    fn request(query: &str, documents: &[&str]) -> PairScoring {
        PairScoring {
            query: query.to_owned(),
            documents: documents.iter().map(|text| (*text).to_owned()).collect(),
            priority: Priority::Interactive,
            deadline: None,
        }
    }

    #[tokio::test]
    async fn the_fakes_keep_the_contract() {
        contract::cross_encoder(&HashCrossEncoder::new("fake", 64)).await;
        let by_length = |query: &str, document: &str| (query.len() + document.len()) as f32;
        contract::cross_encoder(&ScriptedCrossEncoder::new("fake", by_length)).await;
    }

    #[tokio::test]
    async fn shared_words_raise_the_logit() {
        let documents = ["the red fox ran", "a red hen", "prime numbers"];
        let encoder = HashCrossEncoder::new("fake", 64);
        let scores = encoder.score_pairs(request("red fox", &documents)).await;
        let logits: Vec<f32> = (scores.unwrap().into_iter())
            .map(|pair| pair.unwrap().logit)
            .collect();
        assert_eq!(logits, [4.0, 0.0, -4.0]);
    }

    #[tokio::test]
    async fn a_rule_is_followed_and_calls_are_recorded() {
        let entries = [("good", 3.0), ("broken", f32::NAN)];
        let encoder = ScriptedCrossEncoder::by_text("fake", &entries, -1.0);
        let documents = ["a good one", "a broken one", "another"];
        let scores = encoder.score_pairs(request("q", &documents)).await.unwrap();
        assert_eq!(scores[0].as_ref().unwrap().logit, 3.0);
        assert!(scores[1].is_err());
        assert_eq!(scores[2].as_ref().unwrap().logit, -1.0);
        encoder.score_pairs(request("r", &["x"])).await.unwrap();
        assert_eq!(encoder.pairs(), 4);
        assert_eq!(encoder.calls()[1].query, "r");
    }
}
