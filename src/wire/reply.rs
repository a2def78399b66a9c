//! Retrieval replies to the wire, within the message limit.

use pbjson_types::value::Kind;

use super::encoding::{Encoding, encode};
use super::metadata::struct_of;
use super::v1;
use crate::model::{
    Grade, Include, LegSignal, ModelIds, Origin, Outcome, QueryText, Retrieval, RetrievalQuality,
    RetrievalRequest, RetrievedChunk, ScoreKind, Signals, StageReport,
};

/// Encodes a reply.
pub fn retrieve_response(
    request: &RetrievalRequest,
    retrieval: &Retrieval,
    retrieval_id: &str,
    request_id: &str,
    models: &ModelIds,
) -> v1::RetrieveResponse {
    let corpus = request.corpus.corpus.as_str();
    let include = request.options.include;
    v1::RetrieveResponse {
        retrieval_id: retrieval_id.to_owned(),
        request_id: request_id.to_owned(),
        outcome: outcome(retrieval.outcome).into(),
        results: retrieval
            .results
            .iter()
            .map(|c| chunk(corpus, c, include))
            .collect(),
        quality: Some(quality(&retrieval.gradings.quality())),
        queries: retrieval.queries.iter().map(query).collect(),
        stages: retrieval.stages.iter().map(stage).collect(),
        degraded: retrieval
            .degraded
            .iter()
            .map(|s| s.name().to_owned())
            .collect(),
        warnings: retrieval.warnings.clone(),
        models: Some(models_of(models)),
        truncated: false,
        omitted: 0,
    }
}

/// Encodes model ids.
pub fn models_of(models: &ModelIds) -> v1::Models {
    v1::Models {
        dense: models.dense.clone(),
        sparse: models.sparse.clone(),
        cross_encoder: models.cross_encoder.clone(),
    }
}

pub(super) fn outcome(outcome: Outcome) -> v1::outcome::Kind {
    match outcome {
        Outcome::Ok => v1::outcome::Kind::Ok,
        Outcome::NoCorpus => v1::outcome::Kind::NoCorpus,
        Outcome::NoMatch => v1::outcome::Kind::NoMatch,
        Outcome::NoRelevantContext => v1::outcome::Kind::NoRelevantContext,
    }
}

fn chunk(corpus: &str, chunk: &RetrievedChunk, include: Include) -> v1::RetrievedChunk {
    v1::RetrievedChunk {
        chunk_id: chunk.chunk_id.to_string(),
        corpus: corpus.to_owned(),
        document_id: chunk.document_id.as_str().to_owned(),
        document_sequence: chunk.document_sequence,
        ordinal: chunk.ordinal,
        span: chunk.span.map(|s| v1::Span {
            start: s.start,
            end: s.end,
        }),
        content: if include.content {
            chunk.content.clone()
        } else {
            String::new()
        },
        content_hash: chunk.content_hash.clone(),
        metadata: include.metadata.then(|| metadata(chunk)),
        relevance_score: f64::from(chunk.relevance),
        score_kind: score_kind(chunk.score_kind).into(),
        grade: grade(chunk.grade).into(),
        signals: Some(signals(&chunk.signals)),
    }
}

/// The caller's metadata, and beside it what the stages have to say; callers' keys never begin with `_`.
fn metadata(chunk: &RetrievedChunk) -> pbjson_types::Struct {
    let mut metadata = struct_of(&chunk.metadata);
    let number = |value: f32| Kind::NumberValue(f64::from(value));
    let own = [
        ("_vectorSimilarity", chunk.vector_similarity.map(number)),
        (
            "_crossEncoderScore",
            chunk.scored.as_ref().map(|scored| number(scored.value)),
        ),
        ("_reranked", chunk.reranked.then_some(Kind::BoolValue(true))),
    ];
    for (key, kind) in own {
        let value = kind.map(|kind| pbjson_types::Value { kind: Some(kind) });
        metadata
            .fields
            .extend(value.map(|value| (key.to_owned(), value)));
    }
    metadata
}

pub(super) fn score_kind(kind: ScoreKind) -> v1::score::Kind {
    match kind {
        ScoreKind::Cosine => v1::score::Kind::Cosine,
        ScoreKind::SparseDot => v1::score::Kind::SparseDot,
        ScoreKind::Bm25 => v1::score::Kind::Bm25,
        ScoreKind::Rrf => v1::score::Kind::Rrf,
        ScoreKind::Dbsf => v1::score::Kind::Dbsf,
        ScoreKind::CrossEncoder => v1::score::Kind::CrossEncoder,
    }
}

pub(super) fn grade(grade: Grade) -> v1::grade::Kind {
    match grade {
        Grade::Correct => v1::grade::Kind::Correct,
        Grade::Ambiguous => v1::grade::Kind::Ambiguous,
        Grade::Incorrect => v1::grade::Kind::Incorrect,
        Grade::Ungraded => v1::grade::Kind::Ungraded,
    }
}

pub(super) fn signals(signals: &Signals) -> v1::Signals {
    let leg = |signal: Option<LegSignal>| {
        signal.map(|s| v1::LegSignal {
            score: f64::from(s.score),
            rank: s.rank,
        })
    };
    v1::Signals {
        dense: leg(signals.dense),
        sparse: leg(signals.sparse),
        bm25: leg(signals.bm25),
        fused: signals.fused.map(f64::from),
        cross_encoder_logit: signals.cross_encoder_logit.map(f64::from),
    }
}

pub(super) fn quality(quality: &RetrievalQuality) -> v1::Quality {
    v1::Quality {
        retrieved: quality.correct + quality.ambiguous + quality.incorrect,
        correct: quality.correct,
        ambiguous: quality.ambiguous,
        incorrect: quality.incorrect,
        corrected: quality.corrected,
    }
}

pub(super) fn query(query: &QueryText) -> v1::Query {
    v1::Query {
        text: query.text.clone(),
        expanded_text: query.expanded_text.clone().unwrap_or_default(),
        origin: origin(query.origin).into(),
    }
}

pub(super) fn origin(origin: Origin) -> v1::query::Origin {
    match origin {
        Origin::Original => v1::query::Origin::Original,
        Origin::Template => v1::query::Origin::Template,
        Origin::Hyde => v1::query::Origin::Hyde,
        Origin::StepBack => v1::query::Origin::StepBack,
    }
}

pub(super) fn stage(report: &StageReport) -> v1::StageReport {
    v1::StageReport {
        name: report.stage.name().to_owned(),
        duration_ms: report.duration.as_secs_f64() * 1_000.0,
        inputs: report.inputs,
        outputs: report.outputs,
        model_calls: report.model_calls,
    }
}

/// Encodes a reply that fits into `limit` bytes: results are dropped from the end until it does. With it, how many.
pub fn encode_within(
    mut response: v1::RetrieveResponse,
    encoding: Encoding,
    limit: usize,
) -> (Vec<u8>, u32) {
    loop {
        let body = encode(&response, encoding);
        if body.len() <= limit || response.results.is_empty() {
            return (body, response.omitted);
        }
        // Results are of like size: drop about as many as are too much, at least one.
        let results = response.results.len();
        let fitting = (results * limit / body.len()).min(results - 1);
        response.results.truncate(fitting);
        response.truncated = true;
        response.omitted += u32::try_from(results - fitting).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode;

    #[test]
    fn a_reply_is_cut_to_the_limit_and_says_so() {
        let result = v1::RetrievedChunk {
            content: "x".repeat(1000),
            ..v1::RetrievedChunk::default()
        };
        let response = v1::RetrieveResponse {
            results: vec![result; 50],
            ..v1::RetrieveResponse::default()
        };
        let (body, omitted) = encode_within(response, Encoding::Json, 10_000);
        assert!(body.len() <= 10_000);
        let back: v1::RetrieveResponse = decode(&body, Encoding::Json).expect("valid");
        assert!(back.truncated && !back.results.is_empty());
        assert_eq!(back.omitted, omitted);
        assert_eq!(back.omitted as usize + back.results.len(), 50);
    }
}
