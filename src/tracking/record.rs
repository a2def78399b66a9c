//! The record of one request, out of what was asked and what was found. Pure.

use std::time::Duration;

use crate::model::{
    ChunkFate, ModelIds, Retrieval, RetrievalId, RetrievalRecord, RetrievalRequest, Timestamp,
    TrackedChunk, TrackedEnd, TrackedQuery,
};
use crate::spi::{Finding, Trail, tracked_chunk};

/// The most dropped chunks a record keeps, those that came furthest.
pub const MAX_DROPPED: usize = 100;

/// What is known of a request beside its question and its answer.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The retrieval's name.
    pub id: RetrievalId,
    /// When it was asked.
    pub at: Timestamp,
    /// The caller's name for the request.
    pub request_id: String,
    /// The worker that answers.
    pub worker: String,
    /// Who asks; empty when not told.
    pub actor: String,
    /// Why; empty when not told.
    pub purpose: String,
    /// The resolved options as text.
    pub options: String,
    /// The models.
    pub models: ModelIds,
}

/// What a retrieval found; its calibration is not known from the answer.
pub(super) fn finding(retrieval: &Retrieval) -> Finding {
    let returned = (1..).zip(&retrieval.results);
    Finding {
        end: TrackedEnd::Answered(retrieval.outcome),
        quality: retrieval.gradings.quality(),
        stages: retrieval.stages.clone(),
        degraded: retrieval.degraded.clone(),
        warnings: retrieval.warnings.clone(),
        queries: retrieval.queries.clone(),
        calibration: String::new(),
        returned: returned
            .map(|(rank, chunk)| tracked_chunk(chunk, rank, ChunkFate::Returned))
            .collect(),
    }
}

/// The record. `end` is how the request ended for its caller, which the stages need not have been asked for; `omitted` of the
/// chunks they gave did not fit into the reply.
pub fn record(
    asked: Asked,
    request: &RetrievalRequest,
    trail: &Trail,
    end: TrackedEnd,
    (omitted, duration): (u32, Duration),
) -> RetrievalRecord {
    let found = trail.finding().unwrap_or_else(|| unasked(end));
    let mut chunks = match end {
        TrackedEnd::Answered(_) => found.returned,
        // An error gives nothing out, whatever was found before.
        TrackedEnd::Failed(_) => Vec::new(),
    };
    omit(&mut chunks, omitted);
    let dropped = trail.dropped(&chunks, MAX_DROPPED);
    chunks.extend(dropped);
    let queries = match found.queries.is_empty() {
        true => vec![request.query.clone()],
        false => found.queries,
    };
    RetrievalRecord {
        id: asked.id,
        corpus: request.corpus.clone(),
        at: asked.at,
        request_id: asked.request_id,
        worker: asked.worker,
        actor: asked.actor,
        purpose: asked.purpose,
        query: TrackedQuery::Text(request.query.text.clone()),
        queries,
        limit: request.limit,
        options: asked.options,
        end,
        quality: found.quality,
        stages: found.stages,
        degraded: found.degraded,
        warnings: found.warnings,
        models: asked.models,
        calibration: found.calibration,
        duration,
        chunks,
    }
}

fn unasked(end: TrackedEnd) -> Finding {
    let mut finding = Finding::failed(crate::error::ErrorKind::Internal);
    finding.end = end;
    finding
}

/// The reply was cut from its end.
fn omit(chunks: &mut [TrackedChunk], omitted: u32) {
    let cut = usize::try_from(omitted).unwrap_or(usize::MAX);
    let kept = chunks.len().saturating_sub(cut);
    for chunk in &mut chunks[kept..] {
        chunk.fate = ChunkFate::MessageSize;
    }
}
