//! Deterministic encoders without a model, and a wrapper that fails on demand.
//!
//! Must not know any real encoder. The fakes run the same contract suite as the real ones.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::{Semaphore, watch};

use crate::error::{Error, ErrorKind, Result};
use crate::model::SparseVector;
use crate::spi::{DenseEncoder, Encoded, EncoderInfo, SparseEncoder, TextEncoding, TokenCounter};

/// Special tokens the fakes pretend to add.
const SPECIAL_TOKENS: u32 = 2;

/// Size of the fakes' vocabulary.
const VOCABULARY: u32 = 1 << 16;

/// Words in lower case: what the fakes take for tokens.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// FNV-1a with a finishing mix: the same on every platform and in every version, unlike the standard hasher.
pub(super) fn hash(word: &str) -> u64 {
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(hash)
}

/// SplitMix64's finisher.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Cuts a text to the model's length and encodes what is left.
fn encode<V>(
    info: &EncoderInfo,
    request: &TextEncoding,
    vector: impl Fn(&[String]) -> V,
) -> Vec<Result<Encoded<V>>> {
    let encode_text = |text: &String| {
        let is_late = request
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now());
        if is_late {
            return Err(Error::timeout("inference"));
        }
        let mut tokens: Vec<String> = words(text).collect();
        let room = (info.max_tokens - info.special_tokens) as usize;
        let truncated = tokens.len().saturating_sub(room);
        tokens.truncate(room);
        Ok(Encoded {
            vector: vector(&tokens),
            tokens: count(tokens.len()) + info.special_tokens,
            truncated: count(truncated),
            unknown: 0,
        })
    };
    request.texts.iter().map(encode_text).collect()
}

pub(super) fn count(tokens: usize) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

/// Bag of hashed words as a dense vector: texts that share words are similar, others nearly orthogonal.
#[derive(Debug)]
pub struct HashDenseEncoder {
    info: EncoderInfo,
}

impl HashDenseEncoder {
    /// An encoder of that width (at least 2; 64 and more keep unrelated texts apart) and input length in words.
    ///
    /// # Panics
    /// When there is no room for a word.
    pub fn new(id: &str, dimension: u32, max_tokens: u32) -> Self {
        assert!(dimension >= 2 && max_tokens > SPECIAL_TOKENS);
        Self {
            info: info(id, dimension, max_tokens),
        }
    }

    fn vector(&self, words: &[String]) -> Vec<f32> {
        let mut sum = vec![0.0f64; self.info.dimension as usize];
        // A trace of a constant direction, so that a text without words has a vector too.
        sum[0] = 1e-3;
        for word in words {
            for (position, value) in (1u64..).zip(&mut sum) {
                let bits =
                    mix(hash(word).wrapping_add(position.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
                *value += (bits as f64 / u64::MAX as f64) * 2.0 - 1.0;
            }
        }
        let length = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
        sum.into_iter()
            .map(|value| (value / length) as f32)
            .collect()
    }
}

#[async_trait]
impl DenseEncoder for HashDenseEncoder {
    fn info(&self) -> &EncoderInfo {
        &self.info
    }

    async fn encode_dense(&self, request: TextEncoding) -> Result<Vec<Result<Encoded<Vec<f32>>>>> {
        Ok(encode(&self.info, &request, |words| self.vector(words)))
    }
}

/// Bag of hashed words as a sparse vector: a term's weight is log(1 + how often it occurs).
#[derive(Debug)]
pub struct HashSparseEncoder {
    info: EncoderInfo,
}

impl HashSparseEncoder {
    /// An encoder of that input length in words.
    ///
    /// # Panics
    /// When there is no room for a word.
    pub fn new(id: &str, max_tokens: u32) -> Self {
        assert!(max_tokens > SPECIAL_TOKENS);
        Self {
            info: info(id, VOCABULARY, max_tokens),
        }
    }
}

fn sparse_vector(words: &[String]) -> SparseVector {
    let mut counts = BTreeMap::<u32, f32>::new();
    for word in words {
        let index = hash(word) % u64::from(VOCABULARY);
        *counts.entry(index as u32).or_default() += 1.0;
    }
    SparseVector {
        indices: counts.keys().copied().collect(),
        values: counts.values().map(|count| count.ln_1p()).collect(),
    }
}

#[async_trait]
impl SparseEncoder for HashSparseEncoder {
    fn info(&self) -> &EncoderInfo {
        &self.info
    }

    async fn encode_sparse(
        &self,
        request: TextEncoding,
    ) -> Result<Vec<Result<Encoded<SparseVector>>>> {
        Ok(encode(&self.info, &request, sparse_vector))
    }
}

/// Counts words, as the fake encoders do.
#[derive(Debug, Clone, Copy, Default)]
pub struct WordCounter;

impl TokenCounter for WordCounter {
    fn count(&self, text: &str) -> usize {
        words(text).count()
    }
}

fn info(id: &str, dimension: u32, max_tokens: u32) -> EncoderInfo {
    EncoderInfo {
        id: id.to_owned(),
        dimension,
        max_tokens,
        special_tokens: SPECIAL_TOKENS,
    }
}

/// What a [`FaultyEncoder`] does with one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: the call goes through.
    Pass,
    /// The call fails.
    Call(ErrorKind),
    /// The text at this position fails, the others go through.
    Text(usize, ErrorKind),
    /// The call waits for [`FaultyEncoder::release`], then goes through.
    Hold,
}

/// An encoder that follows a script, one entry a call, then lets everything through. Counts calls and texts.
///
/// Wraps `Arc<dyn DenseEncoder>` or `Arc<dyn SparseEncoder>`.
pub struct FaultyEncoder<E: ?Sized> {
    inner: Arc<E>,
    script: Mutex<VecDeque<Fault>>,
    gate: Semaphore,
    held: watch::Sender<usize>,
    calls: AtomicUsize,
    texts: AtomicUsize,
}

impl<E: ?Sized> FaultyEncoder<E> {
    /// Wraps an encoder.
    pub fn new(inner: Arc<E>, script: impl IntoIterator<Item = Fault>) -> Self {
        Self {
            inner,
            script: Mutex::new(script.into_iter().collect()),
            gate: Semaphore::new(0),
            held: watch::Sender::new(0),
            calls: AtomicUsize::new(0),
            texts: AtomicUsize::new(0),
        }
    }

    /// Calls so far, failed ones too.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Texts of those calls.
    pub fn texts(&self) -> usize {
        self.texts.load(Ordering::SeqCst)
    }

    /// Adds to the script.
    pub fn then(&self, fault: Fault) {
        self.script().push_back(fault);
    }

    /// Waits until that many calls were held since the start.
    pub async fn held(&self, calls: usize) {
        let mut held = self.held.subscribe();
        // The sender lives as long as `self`, so this can't fail.
        let _ = held.wait_for(|held| *held >= calls).await;
    }

    /// Lets one held call, or the next one to be held, go on.
    pub fn release(&self) {
        self.gate.add_permits(1);
    }

    fn script(&self) -> std::sync::MutexGuard<'_, VecDeque<Fault>> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the script before the call; gives the text that shall fail.
    async fn before(&self, request: &TextEncoding) -> Result<Option<(usize, ErrorKind)>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.texts.fetch_add(request.texts.len(), Ordering::SeqCst);
        let fault = self.script().pop_front().unwrap_or(Fault::Pass);
        match fault {
            Fault::Pass => Ok(None),
            Fault::Call(kind) => Err(scripted(kind)),
            Fault::Text(position, kind) => Ok(Some((position, kind))),
            Fault::Hold => {
                self.held.send_modify(|held| *held += 1);
                if let Ok(permit) = self.gate.acquire().await {
                    permit.forget();
                }
                Ok(None)
            }
        }
    }
}

impl<E: ?Sized> fmt::Debug for FaultyEncoder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyEncoder")
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

fn scripted(kind: ErrorKind) -> Error {
    Error::new(kind, "a scripted fault")
}

fn spoil<V>(mut results: Vec<Result<V>>, fault: Option<(usize, ErrorKind)>) -> Vec<Result<V>> {
    if let Some((position, kind)) = fault
        && let Some(result) = results.get_mut(position)
    {
        *result = Err(scripted(kind));
    }
    results
}

#[async_trait]
impl DenseEncoder for FaultyEncoder<dyn DenseEncoder> {
    fn info(&self) -> &EncoderInfo {
        self.inner.info()
    }

    async fn encode_dense(&self, request: TextEncoding) -> Result<Vec<Result<Encoded<Vec<f32>>>>> {
        let fault = self.before(&request).await?;
        Ok(spoil(self.inner.encode_dense(request).await?, fault))
    }
}

#[async_trait]
impl SparseEncoder for FaultyEncoder<dyn SparseEncoder> {
    fn info(&self) -> &EncoderInfo {
        self.inner.info()
    }

    async fn encode_sparse(
        &self,
        request: TextEncoding,
    ) -> Result<Vec<Result<Encoded<SparseVector>>>> {
        let fault = self.before(&request).await?;
        Ok(spoil(self.inner.encode_sparse(request).await?, fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spi::{Priority, Role};
    use crate::testing::contract::encoders as contract;

    fn request(texts: &[&str]) -> TextEncoding {
        TextEncoding {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            role: Role::Document,
            priority: Priority::Interactive,
            deadline: None,
        }
    }

    fn faulty(script: impl IntoIterator<Item = Fault>) -> FaultyEncoder<dyn DenseEncoder> {
        FaultyEncoder::new(Arc::new(HashDenseEncoder::new("fake", 64, 32)), script)
    }

    #[tokio::test]
    async fn the_fakes_keep_the_contract() {
        contract::dense_encoder(&HashDenseEncoder::new("fake", 64, 32)).await;
        contract::sparse_encoder(&HashSparseEncoder::new("fake", 32)).await;
        contract::dense_encoder(&faulty([])).await;
    }

    #[tokio::test]
    async fn texts_that_share_words_are_similar() {
        let encoder = HashDenseEncoder::new("fake", 256, 32);
        let texts = ["the red fox", "a red fox", "prime numbers"];
        let encoded = encoder.encode_dense(request(&texts)).await.unwrap();
        let vectors: Vec<_> = encoded
            .into_iter()
            .map(|text| text.unwrap().vector)
            .collect();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        assert!(dot(&vectors[0], &vectors[1]) > 0.5);
        assert!(dot(&vectors[0], &vectors[2]).abs() < 0.3);
    }

    #[tokio::test]
    async fn a_script_is_followed_and_calls_are_counted() {
        let encoder = faulty([
            Fault::Call(ErrorKind::Overloaded),
            Fault::Text(1, ErrorKind::Internal),
        ]);
        let error = encoder.encode_dense(request(&["a"])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Overloaded);
        let results = encoder.encode_dense(request(&["a", "b"])).await.unwrap();
        assert!(results[0].is_ok() && results[1].is_err());
        assert!(encoder.encode_dense(request(&["a"])).await.unwrap()[0].is_ok());
        assert_eq!((encoder.calls(), encoder.texts()), (3, 4));
    }

    #[tokio::test]
    async fn a_held_call_waits_for_its_release() {
        let encoder = faulty([Fault::Hold]);
        let call = encoder.encode_dense(request(&["a"]));
        let release = async {
            encoder.held(1).await;
            encoder.release();
        };
        let (results, ()) = tokio::join!(call, release);
        assert!(results.unwrap()[0].is_ok());
    }
}
