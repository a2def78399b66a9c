//! From raw scores to a ranked list: promotion of the probability and the order. Pure.

use crate::model::{Calibration, RetrievedChunk, ScoreKind, Scored};

/// Makes the cross-encoder's score the relevance of a chunk. What the relevance was is preserved, unless it was a
/// cross-encoder's already.
pub(super) fn promote(chunk: &mut RetrievedChunk, scored: Scored, calibration: &Calibration) {
    if chunk.score_kind != ScoreKind::CrossEncoder && chunk.vector_similarity.is_none() {
        chunk.vector_similarity = Some(chunk.relevance);
    }
    chunk.relevance = calibration.probability(scored.value);
    chunk.score_kind = ScoreKind::CrossEncoder;
    chunk.signals.cross_encoder_logit = Some(scored.value);
    chunk.scored = Some(scored);
}

/// Logit descending, then chunk id: a total order, whatever the probabilities round to. What has no score stays behind, in
/// the order it came in.
pub(super) fn order(mut chunks: Vec<(Option<f32>, RetrievedChunk)>) -> Vec<RetrievedChunk> {
    let place = |(logit, chunk): &(Option<f32>, RetrievedChunk)| (*logit, chunk.chunk_id);
    chunks.sort_by(|a, b| match (place(a), place(b)) {
        ((Some(x), i), (Some(y), j)) => y.total_cmp(&x).then(i.cmp(&j)),
        ((Some(_), _), (None, _)) => std::cmp::Ordering::Less,
        ((None, _), (Some(_), _)) => std::cmp::Ordering::Greater,
        // The sort is stable.
        ((None, _), (None, _)) => std::cmp::Ordering::Equal,
    });
    chunks.into_iter().map(|(_, chunk)| chunk).collect()
}
