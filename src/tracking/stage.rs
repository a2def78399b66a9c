//! The outermost stage: tells what the stages below found, whatever came of it.
//!
//! It leaves its finding in the request's trail, because a record needs more than a stage can know: who asked, under which id,
//! and what fitted into the reply. It must not know who takes the finding up, and it never changes an answer.

use std::sync::Arc;

use async_trait::async_trait;

use super::record::finding;
use crate::error::Result;
use crate::model::{Retrieval, RetrievalRequest, StageName};
use crate::spi::{CrossEncoder, Finding, RequestContext, Retriever};

/// Tells what was found.
#[derive(Debug)]
pub struct TrackingRetriever {
    inner: Arc<dyn Retriever>,
    /// Asked for the name of the calibration, when there is one.
    cross_encoder: Option<Arc<dyn CrossEncoder>>,
}

impl TrackingRetriever {
    /// The stage around `inner`; `cross_encoder` is the one that the stages below score with.
    pub fn new(inner: Arc<dyn Retriever>, cross_encoder: Option<Arc<dyn CrossEncoder>>) -> Self {
        Self {
            inner,
            cross_encoder,
        }
    }

    /// The calibration that read this request's scores.
    fn calibration(&self, request: &RetrievalRequest) -> String {
        let scores = [StageName::Corrective, StageName::Reranking];
        let scored = scores.iter().any(|stage| request.options.wants(*stage));
        match &self.cross_encoder {
            Some(encoder) if scored => {
                let calibrations = &encoder.info().calibrations;
                calibrations.of(&request.corpus).id.clone()
            }
            Some(_) | None => String::new(),
        }
    }
}

#[async_trait]
impl Retriever for TrackingRetriever {
    fn describe(&self) -> String {
        format!("{} > {}", StageName::Tracking.name(), self.inner.describe())
    }

    async fn retrieve(
        &self,
        request: &RetrievalRequest,
        context: &RequestContext,
    ) -> Result<Retrieval> {
        let answer = self.inner.retrieve(request, context).await;
        if let Some(trail) = context.trail() {
            let found = match &answer {
                Ok(retrieval) => finding(retrieval),
                Err(error) => Finding::failed(error.kind()),
            };
            trail.end(Finding {
                calibration: self.calibration(request),
                ..found
            });
        }
        answer
    }
}
