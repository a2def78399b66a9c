//! The encoder ports over the pool's intake.
//!
//! Must not know threads or sessions.

use std::sync::Arc;

use async_trait::async_trait;

use super::call::LoadedModel;
use super::intake::Intake;
use super::output::{Output, wrong_task};
use super::tokenize::TextTokenizer;
use crate::error::Result;
use crate::model::SparseVector;
use crate::spi::{DenseEncoder, Encoded, EncoderInfo, SparseEncoder, TextEncoding, TokenCounter};

/// A dense model of the pool. Fails with `Draining` once the pool is closed or dropped.
#[derive(Debug)]
pub struct OnnxDenseEncoder {
    info: EncoderInfo,
    model: Arc<LoadedModel>,
    intake: Arc<Intake>,
}

impl OnnxDenseEncoder {
    pub(super) fn new(model: Arc<LoadedModel>, intake: Arc<Intake>) -> Self {
        Self {
            info: info(&model),
            model,
            intake,
        }
    }
}

#[async_trait]
impl DenseEncoder for OnnxDenseEncoder {
    fn info(&self) -> &EncoderInfo {
        &self.info
    }

    async fn encode_dense(&self, request: TextEncoding) -> Result<Vec<Result<Encoded<Vec<f32>>>>> {
        let encoded = self.intake.run(&self.model, request.into()).await?;
        Ok(each(encoded, |output| match output {
            Output::Dense(vector) => Ok(vector),
            Output::Sparse(_) | Output::Logit(_) => Err(wrong_task()),
        }))
    }
}

/// A sparse model of the pool. Fails with `Draining` once the pool is closed or dropped.
#[derive(Debug)]
pub struct OnnxSparseEncoder {
    info: EncoderInfo,
    model: Arc<LoadedModel>,
    intake: Arc<Intake>,
}

impl OnnxSparseEncoder {
    pub(super) fn new(model: Arc<LoadedModel>, intake: Arc<Intake>) -> Self {
        Self {
            info: info(&model),
            model,
            intake,
        }
    }
}

#[async_trait]
impl SparseEncoder for OnnxSparseEncoder {
    fn info(&self) -> &EncoderInfo {
        &self.info
    }

    async fn encode_sparse(
        &self,
        request: TextEncoding,
    ) -> Result<Vec<Result<Encoded<SparseVector>>>> {
        let encoded = self.intake.run(&self.model, request.into()).await?;
        Ok(each(encoded, |output| match output {
            Output::Sparse(vector) => Ok(vector),
            Output::Dense(_) | Output::Logit(_) => Err(wrong_task()),
        }))
    }
}

/// Counts as a model's tokenizer does. Needs no thread of the pool and works after it is closed.
#[derive(Debug)]
pub struct OnnxTokenCounter {
    tokenizer: Arc<TextTokenizer>,
}

impl OnnxTokenCounter {
    pub(super) fn new(tokenizer: Arc<TextTokenizer>) -> Self {
        Self { tokenizer }
    }
}

impl TokenCounter for OnnxTokenCounter {
    fn count(&self, text: &str) -> usize {
        self.tokenizer.count(text).unwrap_or(0)
    }
}

fn info(model: &LoadedModel) -> EncoderInfo {
    EncoderInfo {
        id: model.folder.id().to_owned(),
        dimension: model.folder.dimension(),
        max_tokens: model.folder.max_tokens(),
        special_tokens: u32::try_from(model.tokenizer.special_tokens()).unwrap_or(u32::MAX),
    }
}

fn each<V>(
    encoded: Vec<Result<Encoded<Output>>>,
    vector: impl Fn(Output) -> Result<V>,
) -> Vec<Result<Encoded<V>>> {
    let convert = |encoded: Encoded<Output>| {
        Ok(Encoded {
            vector: vector(encoded.vector)?,
            tokens: encoded.tokens,
            truncated: encoded.truncated,
            unknown: encoded.unknown,
        })
    };
    encoded
        .into_iter()
        .map(|text| text.and_then(convert))
        .collect()
}
