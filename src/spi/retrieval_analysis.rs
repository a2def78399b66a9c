//! What tracked retrievals of one corpus add up to in a window of time.
//!
//! Must not know what is made of the figures. Feedback counts for the window its retrieval is in, whenever it was given.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;
use crate::model::{
    CorpusRef, DocumentSelection, DocumentStats, LatencyStats, QueryDocuments, QuerySelection,
    QueryStats, TimeWindow, TrackingTotals,
};

/// Analysis over a tracker's rows; the tenant is the corpus'. Errors: `DependencyFailed` when SQL fails.
#[async_trait]
pub trait RetrievalAnalysis: Send + Sync + fmt::Debug {
    /// Up to `limit` documents of replies: those in most replies first, then by id.
    async fn document_stats(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        selection: DocumentSelection,
        limit: u32,
    ) -> Result<Vec<DocumentStats>>;

    /// Up to `limit` questions in the order of the selection, then by text.
    async fn query_stats(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        selection: QuerySelection,
        limit: u32,
    ) -> Result<Vec<QueryStats>>;

    /// The `limit` most frequent questions that found something, with every document their replies held: what clusters are
    /// made of.
    async fn query_documents(
        &self,
        corpus: &CorpusRef,
        window: TimeWindow,
        limit: u32,
    ) -> Result<Vec<QueryDocuments>>;

    /// The whole of the window.
    async fn totals(&self, corpus: &CorpusRef, window: TimeWindow) -> Result<TrackingTotals>;

    /// How long requests took, and their stages, outermost first; what never ran is absent.
    async fn latencies(&self, corpus: &CorpusRef, window: TimeWindow) -> Result<Vec<LatencyStats>>;
}
