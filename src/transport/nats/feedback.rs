//! `rag.feedback.<tenant>`: judgements on documents of replies. Workers with the tracker role answer: they are the ones that store
//! what is judged.
//!
//! An event takes a moment from the reply to the tables, so a retrieval that is unknown and only just made is waited for. Must not
//! tell a foreign retrieval from an unknown one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::responder::{Call, Endpoint};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Feedback, FeedbackReceipt, RetrievalId, TenantId, Timestamp};
use crate::spi::RetrievalTracker;
use crate::telemetry::Metrics;
use crate::wire::{decode_feedback, encode, v1};

/// A retrieval younger than this may still be on its way.
const YOUNG: i64 = 30_000_000;
/// How long it is waited for at most.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(100);
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What the endpoint is made of.
#[derive(Debug, Clone)]
pub struct FeedbackParts {
    /// Where retrievals are stored.
    pub tracker: Arc<dyn RetrievalTracker>,
    /// Default and largest time budget.
    pub budgets: (Duration, Duration),
    /// Instruments.
    pub metrics: Metrics,
}

/// The feedback endpoint.
#[derive(Debug)]
pub struct FeedbackEndpoint {
    parts: FeedbackParts,
}

impl FeedbackEndpoint {
    /// An endpoint over these parts.
    pub fn new(parts: FeedbackParts) -> Self {
        Self { parts }
    }

    async fn judged(&self, call: &Call) -> Result<Vec<u8>> {
        let tenant = call.tenant()?;
        let (id, document_id, outcome) = decode_feedback(&call.body, call.encoding)?;
        let (deadline, _place) = call.begun(self.parts.budgets.0, self.parts.budgets.1)?;
        let within = |work| tokio::time::timeout_at(deadline.into(), work);
        let late = |_| Error::timeout("feedback");
        let feedback = Feedback {
            retrieval_id: id,
            document_id,
            outcome,
            actor: call.actor().to_owned(),
            // The database's clock: a worker's may be wrong.
            at: within(self.parts.tracker.now()).await.map_err(late)??,
        };
        self.stored(tenant, &feedback, deadline).await?;
        let response = v1::FeedbackResponse {
            retrieval_id: id.to_string(),
        };
        Ok(encode(&response, call.encoding))
    }

    async fn stored(
        &self,
        tenant: &TenantId,
        feedback: &Feedback,
        deadline: Instant,
    ) -> Result<()> {
        let patience = deadline.min(Instant::now() + PATIENCE);
        loop {
            let stored = self.parts.tracker.feedback(tenant, feedback);
            let receipt = tokio::time::timeout_at(deadline.into(), stored)
                .await
                .map_err(|_| Error::timeout("feedback"))??;
            let unknown = receipt == FeedbackReceipt::NoSuchRetrieval;
            if !unknown || !is_young(feedback.retrieval_id) {
                return receipt.into_result();
            }
            if Instant::now() + LOOK >= patience {
                let message = "the retrieval is not recorded yet";
                return Err(Error::new(ErrorKind::Overloaded, message).retry_after(RETRY_AFTER));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Made within the last 30 seconds, or by a clock that is ahead of ours.
fn is_young(id: RetrievalId) -> bool {
    let now = Timestamp::now().as_micros();
    id.created_at()
        .is_some_and(|made| now.saturating_sub(made.as_micros()) < YOUNG)
}

#[async_trait]
impl Endpoint for FeedbackEndpoint {
    fn verb(&self) -> &'static str {
        "feedback"
    }

    async fn answer(&self, call: &Call) -> Result<Vec<u8>> {
        let judged = self.judged(call).await;
        let outcome = judged.as_ref().map_or_else(|e| e.kind().name(), |_| "ok");
        self.parts.metrics.tracking().feedback(outcome);
        judged
    }
}
