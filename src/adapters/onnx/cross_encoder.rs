//! The cross-encoder port over the pool's intake.
//!
//! Must not know threads or sessions.

use std::sync::Arc;

use async_trait::async_trait;

use super::call::LoadedModel;
use super::intake::Intake;
use super::output::{Output, wrong_task};
use crate::error::Result;
use crate::spi::{CrossEncoder, CrossEncoderInfo, Encoded, PairScore, PairScoring};

/// A cross-encoder of the pool. Fails with `Draining` once the pool is closed or dropped.
#[derive(Debug)]
pub struct OnnxCrossEncoder {
    info: CrossEncoderInfo,
    model: Arc<LoadedModel>,
    intake: Arc<Intake>,
}

impl OnnxCrossEncoder {
    pub(super) fn new(model: Arc<LoadedModel>, intake: Arc<Intake>) -> Self {
        let info = CrossEncoderInfo {
            id: model.folder.id().to_owned(),
            max_tokens: model.folder.max_tokens(),
            calibrations: model.folder.calibrations().clone(),
        };
        Self {
            info,
            model,
            intake,
        }
    }
}

#[async_trait]
impl CrossEncoder for OnnxCrossEncoder {
    fn info(&self) -> &CrossEncoderInfo {
        &self.info
    }

    async fn score_pairs(&self, request: PairScoring) -> Result<Vec<Result<PairScore>>> {
        let pairs = self.intake.run(&self.model, request.into()).await?;
        Ok(pairs.into_iter().map(|pair| score(pair?)).collect())
    }
}

fn score(pair: Encoded<Output>) -> Result<PairScore> {
    match pair.vector {
        Output::Logit(logit) => Ok(PairScore {
            logit,
            tokens: pair.tokens,
            truncated: pair.truncated,
        }),
        Output::Dense(_) | Output::Sparse(_) => Err(wrong_task()),
    }
}
