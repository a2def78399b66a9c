//! The values inside an event of a tracked retrieval to and from the wire. Must not know the event around them.

use super::{reply, v1};
use crate::model::{
    ChunkFate, ChunkId, DocumentId, Grade, LegSignal, ModelIds, Origin, Outcome, QueryText,
    RetrievalQuality, ScoreKind, Signals, TrackedChunk,
};

pub(super) fn tracked_query(query: &QueryText) -> v1::TrackedQuery {
    v1::TrackedQuery {
        text: query.text.clone(),
        expanded_text: query.expanded_text.clone(),
        origin: reply::origin(query.origin).into(),
    }
}

/// Queries of an origin that this version doesn't know are passed over.
pub(super) fn queries_of(queries: Vec<v1::TrackedQuery>) -> Vec<QueryText> {
    let known = queries.into_iter().filter_map(|query| {
        use v1::query::Origin as Wire;
        let origin = match Wire::try_from(query.origin).ok()? {
            Wire::Original => Origin::Original,
            Wire::Template => Origin::Template,
            Wire::Hyde => Origin::Hyde,
            Wire::StepBack => Origin::StepBack,
            Wire::Unspecified => return None,
        };
        Some(QueryText {
            text: query.text,
            expanded_text: query.expanded_text,
            origin,
        })
    });
    known.collect()
}

pub(super) fn outcome_of(outcome: i32) -> Option<Outcome> {
    use v1::outcome::Kind;
    match Kind::try_from(outcome).ok()? {
        Kind::Ok => Some(Outcome::Ok),
        Kind::NoCorpus => Some(Outcome::NoCorpus),
        Kind::NoMatch => Some(Outcome::NoMatch),
        Kind::NoRelevantContext => Some(Outcome::NoRelevantContext),
        Kind::Unspecified => None,
    }
}

pub(super) fn model_quality(quality: v1::Quality) -> RetrievalQuality {
    RetrievalQuality {
        correct: quality.correct,
        ambiguous: quality.ambiguous,
        incorrect: quality.incorrect,
        corrected: quality.corrected,
    }
}

pub(super) fn models(models: v1::Models) -> ModelIds {
    ModelIds {
        dense: models.dense,
        sparse: models.sparse,
        cross_encoder: models.cross_encoder,
    }
}

pub(super) fn tracked_chunk(chunk: &TrackedChunk) -> v1::TrackedChunk {
    v1::TrackedChunk {
        chunk_id: chunk.chunk_id.0.to_be_bytes().to_vec(),
        content_hash: chunk.content_hash.clone(),
        document_id: chunk.document_id.as_str().to_owned(),
        document_sequence: chunk.document_sequence,
        ordinal: chunk.ordinal,
        rank: chunk.rank,
        relevance: chunk.relevance,
        score_kind: reply::score_kind(chunk.score_kind).into(),
        grade: reply::grade(chunk.grade).into(),
        signals: Some(reply::signals(&chunk.signals)),
        fate: fate(chunk.fate).into(),
    }
}

/// `None` for a chunk that this version can't keep.
pub(super) fn chunk_of(chunk: v1::TrackedChunk) -> Option<TrackedChunk> {
    let (score_kind, grade, fate) = (chunk.score_kind(), chunk.grade(), chunk.fate());
    let id: [u8; 16] = chunk.chunk_id.as_slice().try_into().ok()?;
    Some(TrackedChunk {
        chunk_id: ChunkId(u128::from_be_bytes(id)),
        content_hash: chunk.content_hash,
        document_id: DocumentId::new(&chunk.document_id).ok()?,
        document_sequence: chunk.document_sequence,
        ordinal: chunk.ordinal,
        rank: chunk.rank,
        relevance: chunk.relevance,
        score_kind: score_kind_of(score_kind)?,
        grade: grade_of(grade)?,
        signals: signals_of(chunk.signals.unwrap_or_default()),
        fate: fate_of(fate)?,
    })
}

fn score_kind_of(kind: v1::score::Kind) -> Option<ScoreKind> {
    match kind {
        v1::score::Kind::Cosine => Some(ScoreKind::Cosine),
        v1::score::Kind::SparseDot => Some(ScoreKind::SparseDot),
        v1::score::Kind::Bm25 => Some(ScoreKind::Bm25),
        v1::score::Kind::Rrf => Some(ScoreKind::Rrf),
        v1::score::Kind::Dbsf => Some(ScoreKind::Dbsf),
        v1::score::Kind::CrossEncoder => Some(ScoreKind::CrossEncoder),
        v1::score::Kind::Unspecified => None,
    }
}

fn grade_of(grade: v1::grade::Kind) -> Option<Grade> {
    match grade {
        v1::grade::Kind::Correct => Some(Grade::Correct),
        v1::grade::Kind::Ambiguous => Some(Grade::Ambiguous),
        v1::grade::Kind::Incorrect => Some(Grade::Incorrect),
        v1::grade::Kind::Ungraded => Some(Grade::Ungraded),
        v1::grade::Kind::Unspecified => None,
    }
}

/// The wire's doubles hold single precision exactly.
fn signals_of(signals: v1::Signals) -> Signals {
    let leg = |signal: Option<v1::LegSignal>| {
        signal.map(|signal| LegSignal {
            score: signal.score as f32,
            rank: signal.rank,
        })
    };
    Signals {
        dense: leg(signals.dense),
        sparse: leg(signals.sparse),
        bm25: leg(signals.bm25),
        fused: signals.fused.map(|n| n as f32),
        cross_encoder_logit: signals.cross_encoder_logit.map(|n| n as f32),
    }
}

fn fate(fate: ChunkFate) -> v1::chunk_fate::Kind {
    use v1::chunk_fate::Kind;
    match fate {
        ChunkFate::Returned => Kind::Returned,
        ChunkFate::Incorrect => Kind::Incorrect,
        ChunkFate::BelowMinRelevance => Kind::BelowMinRelevance,
        ChunkFate::DocumentLimit => Kind::DocumentLimit,
        ChunkFate::Limit => Kind::Limit,
        ChunkFate::MessageSize => Kind::MessageSize,
    }
}

fn fate_of(fate: v1::chunk_fate::Kind) -> Option<ChunkFate> {
    use v1::chunk_fate::Kind;
    match fate {
        Kind::Returned => Some(ChunkFate::Returned),
        Kind::Incorrect => Some(ChunkFate::Incorrect),
        Kind::BelowMinRelevance => Some(ChunkFate::BelowMinRelevance),
        Kind::DocumentLimit => Some(ChunkFate::DocumentLimit),
        Kind::Limit => Some(ChunkFate::Limit),
        Kind::MessageSize => Some(ChunkFate::MessageSize),
        Kind::Unspecified => None,
    }
}
