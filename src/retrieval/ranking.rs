//! From the store's answer to a ranked list: fusion, signals, order, cuts. Pure.

use std::collections::HashMap;

use crate::fusion::{rrf, rrf_share};
use crate::model::{
    ChunkFate, ChunkId, DocumentId, Grade, Leg, LegSignal, RetrievalRequest, RetrievedChunk,
    ScoreKind, Signals,
};
use crate::spi::{Hit, RequestContext, StoreAnswer};

/// How far a fused score may be off its legs' ranks before they count as inconsistent: single precision.
const EPSILON: f32 = 1e-5;

/// The hits of the one leg that was asked: its own score and kind.
pub(super) fn of_one_leg(leg: Leg, hits: Vec<Hit>, explain: bool) -> Vec<RetrievedChunk> {
    let ranked = (1u32..).zip(hits).map(|(rank, hit)| {
        let score = hit.score;
        let mut chunk = chunk_of(hit, leg.score_kind());
        if explain {
            chunk.signals.set_leg(leg, LegSignal { score, rank });
        }
        chunk
    });
    sorted(ranked.collect())
}

/// Hits that the store fused.
pub(super) fn of_store_fusion(
    answer: StoreAnswer,
    legs: &[Leg],
    kind: ScoreKind,
    rrf_k: Option<u32>,
) -> Vec<RetrievedChunk> {
    let by_leg = signals_by_leg(legs, &answer.legs);
    let chunks = answer.fused.into_iter().map(|hit| {
        let fused = hit.score;
        let mut chunk = chunk_of(hit, kind);
        chunk.signals.fused = Some(fused);
        let signals = signals_of(&chunk, &by_leg);
        let consistent = rrf_k.is_none_or(|k| {
            let sum: f32 = signals.iter().map(|(_, s)| rrf_share(1.0, k, s.rank)).sum();
            (sum - fused).abs() <= EPSILON
        });
        if consistent {
            set_signals(&mut chunk.signals, signals);
        }
        chunk
    });
    sorted(chunks.collect())
}

/// Legs fused here, by weighted RRF: what the store can't do linearly.
pub(super) fn of_own_fusion(
    legs: Vec<(Leg, f32, Vec<Hit>)>,
    k: u32,
    explain: bool,
) -> Vec<RetrievedChunk> {
    let lists: Vec<(f32, Vec<ChunkId>)> = legs
        .iter()
        .map(|(_, weight, hits)| (*weight, hits.iter().map(|h| h.stored.id).collect()))
        .collect();
    let names: Vec<Leg> = legs.iter().map(|leg| leg.0).collect();
    let rankings: Vec<Vec<Hit>> = legs.into_iter().map(|leg| leg.2).collect();
    let by_leg = signals_by_leg(&names, &rankings);
    let mut hits: HashMap<ChunkId, Hit> = HashMap::new();
    for hit in rankings.into_iter().flatten() {
        // Two legs may have met two versions of a chunk; the newer one is what is being served.
        match hits.get(&hit.stored.id) {
            Some(other) if other.stored.sequence >= hit.stored.sequence => {}
            Some(_) | None => {
                hits.insert(hit.stored.id, hit);
            }
        }
    }
    let fused = rrf(&lists, k).into_iter().filter_map(|(id, score)| {
        let mut hit = hits.remove(&id)?;
        hit.score = score;
        let mut chunk = chunk_of(hit, ScoreKind::Rrf);
        chunk.signals.fused = Some(score);
        if explain {
            let signals = signals_of(&chunk, &by_leg);
            set_signals(&mut chunk.signals, signals);
        }
        Some(chunk)
    });
    fused.collect()
}

type LegSignals = Vec<(Leg, HashMap<(ChunkId, u64), LegSignal>)>;

fn signals_by_leg(legs: &[Leg], rankings: &[Vec<Hit>]) -> LegSignals {
    let of_leg = |hits: &Vec<Hit>| {
        let ranked = (1u32..).zip(hits);
        ranked
            .map(|(rank, hit)| {
                let key = (hit.stored.id, hit.stored.sequence);
                (
                    key,
                    LegSignal {
                        score: hit.score,
                        rank,
                    },
                )
            })
            .collect()
    };
    legs.iter()
        .copied()
        .zip(rankings.iter().map(of_leg))
        .collect()
}

/// The signals of exactly this version of the chunk.
fn signals_of(chunk: &RetrievedChunk, by_leg: &LegSignals) -> Vec<(Leg, LegSignal)> {
    let key = (chunk.chunk_id, chunk.document_sequence);
    by_leg
        .iter()
        .filter_map(|(leg, signals)| signals.get(&key).map(|signal| (*leg, *signal)))
        .collect()
}

fn set_signals(target: &mut Signals, signals: Vec<(Leg, LegSignal)>) {
    for (leg, signal) in signals {
        target.set_leg(leg, signal);
    }
}

fn chunk_of(hit: Hit, score_kind: ScoreKind) -> RetrievedChunk {
    let stored = hit.stored;
    RetrievedChunk {
        chunk_id: stored.id,
        document_id: stored.document_id,
        document_sequence: stored.sequence,
        ordinal: stored.chunk.ordinal,
        span: stored.chunk.span,
        content: stored.chunk.content,
        content_hash: stored.content_hash,
        metadata: stored.chunk.metadata,
        relevance: hit.score,
        score_kind,
        grade: Grade::Ungraded,
        signals: Signals::default(),
        scored: None,
        vector_similarity: None,
        reranked: false,
        found_by: Vec::new(),
    }
}

/// Score descending, then chunk id: a total order, so that equal calls give equal lists.
fn sorted(mut chunks: Vec<RetrievedChunk>) -> Vec<RetrievedChunk> {
    chunks.sort_by(|a, b| {
        b.relevance
            .total_cmp(&a.relevance)
            .then(a.chunk_id.cmp(&b.chunk_id))
    });
    chunks
}

/// The best chunks within the limits of a document and of the request, and whether there are more of them. What lies behind the
/// last place has no fate: nobody asked for it.
pub(super) fn best(
    mut chunks: Vec<RetrievedChunk>,
    request: &RetrievalRequest,
    context: &RequestContext,
) -> (Vec<RetrievedChunk>, bool) {
    let most = request.options.max_chunks_per_document;
    let mut seen = HashMap::new();
    let fit = chunks.iter().enumerate();
    let mut fit = fit.filter(|(_, chunk)| within(chunk, most, &mut seen));
    let last = (fit.by_ref().map(|(at, _)| at)).nth((request.limit as usize).saturating_sub(1));
    let beyond = fit.next().is_some();
    if let Some(last) = last {
        chunks.truncate(last + 1);
    }
    let mut seen = HashMap::new();
    context.sift(&mut chunks, ChunkFate::DocumentLimit, |chunk| {
        within(chunk, most, &mut seen)
    });
    (chunks, beyond)
}

/// Whether a chunk is among the first `most` of its document; unset = always.
pub(super) fn within(
    chunk: &RetrievedChunk,
    most: Option<u32>,
    seen: &mut HashMap<DocumentId, u32>,
) -> bool {
    let Some(most) = most else {
        return true;
    };
    let count = seen.entry(chunk.document_id.clone()).or_default();
    *count += 1;
    *count <= most
}
