//! A batch of tracked retrievals as rows of the tracker's tables, ready to be bound.
//!
//! Must not know a database: each writes the same rows in its own way.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::adapters::tracker_json as json;
use crate::model::{
    ChunkFate, RetrievalId, RetrievalRecord, StageName, TrackedChunk, TrackedEnd, TrackedQuery,
};

/// A row of `retrievals`.
#[derive(Debug)]
pub(super) struct RetrievalRow<'a> {
    pub(super) tenant: &'a str,
    pub(super) retrieval_id: Uuid,
    pub(super) corpus: &'a str,
    pub(super) asked_at: i64,
    pub(super) request_id: &'a str,
    pub(super) worker: &'a str,
    pub(super) actor: &'a str,
    pub(super) purpose: &'a str,
    pub(super) query: &'a str,
    pub(super) query_hashed: i64,
    pub(super) queries: String,
    pub(super) result_limit: i64,
    pub(super) options: &'a str,
    pub(super) outcome: &'static str,
    pub(super) error: &'static str,
    pub(super) correct: i64,
    pub(super) ambiguous: i64,
    pub(super) incorrect: i64,
    pub(super) corrected: i64,
    pub(super) degraded: String,
    pub(super) warnings: String,
    pub(super) stages: String,
    pub(super) tracking_us: Option<i64>,
    pub(super) reranking_us: Option<i64>,
    pub(super) expansion_us: Option<i64>,
    pub(super) corrective_us: Option<i64>,
    pub(super) hybrid_us: Option<i64>,
    pub(super) models: String,
    pub(super) duration_us: i64,
    pub(super) returned: i64,
    pub(super) chunks: i64,
    pub(super) documents: i64,
    pub(super) first_score: Option<f64>,
    pub(super) first_kind: &'static str,
}

/// A row of `retrieved_chunks`.
#[derive(Debug)]
pub(super) struct ChunkRow<'a> {
    pub(super) tenant: &'a str,
    pub(super) retrieval_id: Uuid,
    pub(super) position: i64,
    pub(super) chunk_id: Uuid,
    pub(super) document_id: &'a str,
    pub(super) document_sequence: i64,
    pub(super) ordinal: i64,
    pub(super) content_hash: &'a str,
    pub(super) rank: i64,
    pub(super) score: Option<f64>,
    pub(super) score_kind: &'static str,
    pub(super) grade: &'static str,
    pub(super) fate: &'static str,
    pub(super) signals: String,
}

/// A row of `retrieved_documents`.
#[derive(Debug)]
pub(super) struct DocumentRow<'a> {
    pub(super) tenant: &'a str,
    pub(super) retrieval_id: Uuid,
    pub(super) document_id: &'a str,
    pub(super) rank: i64,
    pub(super) score: Option<f64>,
    pub(super) score_kind: &'static str,
}

/// Rows of a batch.
#[derive(Debug)]
pub(super) struct TrackerRows<'a> {
    pub(super) retrievals: Vec<RetrievalRow<'a>>,
    pub(super) chunks: Vec<ChunkRow<'a>>,
    pub(super) documents: Vec<DocumentRow<'a>>,
}

impl<'a> TrackerRows<'a> {
    /// The rows of storable records, each (tenant, id) once. Sorted by it, so that two workers that write the same records
    /// wait for each other in one order.
    pub(super) fn of(records: &'a [impl AsRef<RetrievalRecord>]) -> Self {
        let mut sorted = BTreeMap::new();
        for record in records.iter().map(AsRef::as_ref) {
            let key = (record.tenant().as_str(), record.id);
            sorted.entry(key).or_insert(record);
        }
        let mut rows = Self {
            retrievals: Vec::with_capacity(sorted.len()),
            chunks: Vec::new(),
            documents: Vec::new(),
        };
        for record in sorted.into_values() {
            let documents = record.documents();
            rows.retrievals.push(retrieval(record, documents.len()));
            let chunks = record.chunks.iter().enumerate();
            rows.chunks
                .extend(chunks.map(|(at, c)| chunk(record, at, c)));
            let documents = documents.into_iter();
            rows.documents
                .extend(documents.map(|c| document(record, c)));
        }
        rows
    }

    /// Keeps what hangs on retrievals that `is_new` accepts.
    #[cfg(feature = "sqlite")]
    pub(super) fn retain_children(&mut self, is_new: impl Fn(&str, Uuid) -> bool) {
        self.chunks.retain(|c| is_new(c.tenant, c.retrieval_id));
        self.documents.retain(|d| is_new(d.tenant, d.retrieval_id));
    }
}

/// A set of retrievals as both databases take it: a JSON list of hexadecimal digits.
pub(super) fn ids_json(ids: impl IntoIterator<Item = RetrievalId>) -> String {
    let quoted = |id: RetrievalId| format!("\"{:032x}\"", id.as_u128());
    format!(
        "[{}]",
        ids.into_iter().map(quoted).collect::<Vec<_>>().join(",")
    )
}

/// An id as both databases bind it.
pub(super) fn uuid(id: RetrievalId) -> Uuid {
    Uuid::from_u128(id.as_u128())
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn micros(duration: std::time::Duration) -> i64 {
    i64::try_from(json::micros(duration)).unwrap_or(i64::MAX)
}

fn score(chunk: &TrackedChunk) -> Option<f64> {
    let score = Some(f64::from(chunk.relevance));
    score.filter(|score| score.is_finite())
}

fn retrieval(record: &RetrievalRecord, documents: usize) -> RetrievalRow<'_> {
    let (outcome, error) = match record.end {
        TrackedEnd::Answered(outcome) => (outcome.name(), ""),
        TrackedEnd::Failed(kind) => (super::tracker_sql::FAILED, kind.name()),
    };
    let took = |stage| {
        let report = record.stages.iter().find(|report| report.stage == stage);
        report.map(|report| micros(report.duration))
    };
    let degraded: Vec<&str> = record.degraded.iter().map(|stage| stage.name()).collect();
    let returned = |chunk: &&TrackedChunk| chunk.fate == ChunkFate::Returned;
    let first = record.returned().next();
    RetrievalRow {
        tenant: record.tenant().as_str(),
        retrieval_id: uuid(record.id),
        corpus: record.corpus.corpus.as_str(),
        asked_at: record.at.as_micros(),
        request_id: &record.request_id,
        worker: &record.worker,
        actor: &record.actor,
        purpose: &record.purpose,
        query: record.query.as_str(),
        query_hashed: i64::from(matches!(record.query, TrackedQuery::Hash(_))),
        queries: json::queries_to_json(&record.queries),
        result_limit: i64::from(record.limit),
        options: &record.options,
        outcome,
        error,
        correct: i64::from(record.quality.correct),
        ambiguous: i64::from(record.quality.ambiguous),
        incorrect: i64::from(record.quality.incorrect),
        corrected: i64::from(record.quality.corrected),
        degraded: degraded.join(","),
        warnings: json::texts_to_json(&record.warnings),
        stages: json::stages_to_json(&record.stages),
        tracking_us: took(StageName::Tracking),
        reranking_us: took(StageName::Reranking),
        expansion_us: took(StageName::Expansion),
        corrective_us: took(StageName::Corrective),
        hybrid_us: took(StageName::Hybrid),
        models: json::models_to_json(record),
        duration_us: micros(record.duration),
        returned: count(record.chunks.iter().filter(returned).count()),
        chunks: count(record.chunks.len()),
        documents: count(documents),
        first_score: first.and_then(score),
        first_kind: first.map_or("", |chunk| chunk.score_kind.name()),
    }
}

fn chunk<'a>(record: &'a RetrievalRecord, at: usize, chunk: &'a TrackedChunk) -> ChunkRow<'a> {
    ChunkRow {
        tenant: record.tenant().as_str(),
        retrieval_id: uuid(record.id),
        position: count(at),
        chunk_id: Uuid::from_u128(chunk.chunk_id.0),
        document_id: chunk.document_id.as_str(),
        document_sequence: i64::try_from(chunk.document_sequence).unwrap_or(i64::MAX),
        ordinal: i64::from(chunk.ordinal),
        content_hash: &chunk.content_hash,
        rank: i64::from(chunk.rank),
        score: score(chunk),
        score_kind: chunk.score_kind.name(),
        grade: chunk.grade.name(),
        fate: chunk.fate.name(),
        signals: json::signals_to_json(&chunk.signals),
    }
}

fn document<'a>(record: &'a RetrievalRecord, best: &'a TrackedChunk) -> DocumentRow<'a> {
    DocumentRow {
        tenant: record.tenant().as_str(),
        retrieval_id: uuid(record.id),
        document_id: best.document_id.as_str(),
        rank: i64::from(best.rank),
        score: score(best),
        score_kind: best.score_kind.name(),
    }
}
