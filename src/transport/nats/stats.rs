//! `rag.stats.<tenant>`: what the tenant's tracked retrievals add up to. Decodes, asks the ports, encodes within the message limit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::responder::{Call, Endpoint};
use super::stats_views::Room;
use crate::error::{Error, Result};
use crate::model::CorpusRef;
use crate::spi::{DocumentRegistry, RetrievalAnalysis, RetrievalTracker};
use crate::wire::{StatsQuestion, StatsView, decode_stats};

/// What the endpoint is made of.
#[derive(Debug, Clone)]
pub struct StatsParts {
    /// The registry, for documents that were never retrieved.
    pub registry: Arc<dyn DocumentRegistry>,
    /// The tracker.
    pub tracker: Arc<dyn RetrievalTracker>,
    /// The analysis over its rows.
    pub analysis: Arc<dyn RetrievalAnalysis>,
    /// Default and largest time budget in milliseconds.
    pub timeouts_ms: (u32, u32),
}

/// The statistics endpoint.
#[derive(Debug)]
pub struct StatsEndpoint {
    parts: StatsParts,
}

impl StatsEndpoint {
    /// An endpoint over these parts.
    pub fn new(parts: StatsParts) -> Self {
        Self { parts }
    }

    async fn response(&self, call: &Call, question: StatsQuestion) -> Result<Vec<u8>> {
        let tenant = call.tenant()?;
        let room = Room {
            encoding: call.encoding,
            limit: call.max_reply,
        };
        let window = question.window;
        match (question.view, question.corpus) {
            (StatsView::Totals, corpus) => self.parts.totals(&room, tenant, corpus, window).await,
            (StatsView::Judgements(page), corpus) => {
                let corpus = corpus.as_ref();
                self.parts
                    .judgements(&room, tenant, corpus, window, page)
                    .await
            }
            (view, Some(corpus)) => {
                let corpus = CorpusRef::new(tenant.clone(), corpus);
                self.parts.of_corpus(&room, &corpus, window, view).await
            }
            (_, None) => Err(Error::invalid_field("corpus", "must be set for this view")),
        }
    }
}

#[async_trait]
impl Endpoint for StatsEndpoint {
    fn verb(&self) -> &'static str {
        "stats"
    }

    async fn answer(&self, call: &Call) -> Result<Vec<u8>> {
        let question = decode_stats(&call.body, call.encoding)?;
        let budgets = self.parts.timeouts_ms;
        let millis = |ms: u32| Duration::from_millis(ms.into());
        let (deadline, _place) = call.begun(millis(budgets.0), millis(budgets.1))?;
        match tokio::time::timeout_at(deadline.into(), self.response(call, question)).await {
            Ok(body) => body,
            Err(_) => Err(Error::timeout("stats")),
        }
    }
}
