//! The tracking stage around the others: what becomes of each chunk, and what a record holds of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ragbus::crossencoder::{
    CorrectiveConfig, CorrectiveRetriever, PairScorer, RerankingConfig, RerankingRetriever,
};
use ragbus::error::ErrorKind;
use ragbus::model::{
    ChunkFate, CorrectiveMode, ExpansionStrategy, ModelIds, Outcome, RetrievalId, RetrievalOptions,
    RetrievalRecord, RetrievalRequest, RetrievedChunk, StageName, TenantId, Timestamp, TrackedEnd,
    TrackedQuery,
};
use ragbus::retrieval::{Layer, RetrievalPipeline, StageFactories};
use ragbus::spi::{RequestContext, RetrievalTracker, Retriever, Trail};
use ragbus::testing::{InMemoryRetriever, MemoryTracker};
use ragbus::tracking::{
    Asked, MAX_DROPPED, QueryHasher, SHORTENED, TrackingRetriever, record, shortened,
};

use super::fakes::{PairModel, chunk, chunks, in_time, request};

fn pipeline(found: Vec<RetrievedChunk>, pool: u32) -> RetrievalPipeline {
    let model: Arc<PairModel> = Arc::new(PairModel::reading());
    let scorer = PairScorer::new(Arc::clone(&model) as _);
    let (grading, reranking) = (scorer.clone(), scorer);
    let factories = StageFactories {
        corrective: Some(Arc::new(move |options| -> Layer {
            let (scorer, mode) = (grading.clone(), options.corrective);
            let config = CorrectiveConfig {
                pool,
                min_correct: 0,
                depth_factor: 1,
            };
            Box::new(move |inner| Arc::new(CorrectiveRetriever::new(inner, scorer, config, mode)))
        })),
        expansion: None,
        reranking: Some(Arc::new(move |options| -> Layer {
            let (scorer, against) = (reranking.clone(), options.rerank_against);
            let config = RerankingConfig { pool };
            Box::new(move |inner| Arc::new(RerankingRetriever::new(inner, scorer, config, against)))
        })),
        tracking: Some(Arc::new(move |_| -> Layer {
            let model = Arc::clone(&model);
            Box::new(move |inner| Arc::new(TrackingRetriever::new(inner, Some(model))))
        })),
    };
    let hybrid = Arc::new(InMemoryRetriever::returning(found));
    RetrievalPipeline::new(hybrid, factories, 300, &RetrievalOptions::default())
}

fn asked() -> Asked {
    Asked {
        id: RetrievalId::from_u128(7),
        at: Timestamp::from_micros(1_000_000),
        request_id: "r1".into(),
        worker: "w1".into(),
        actor: "a".into(),
        purpose: "p".into(),
        options: "{}".into(),
        models: ModelIds::default(),
    }
}

async fn tracked(
    pipeline: &RetrievalPipeline,
    request: &RetrievalRequest,
    omitted: u32,
) -> RetrievalRecord {
    let trail = Arc::<Trail>::default();
    let context: RequestContext = in_time().traced(Arc::clone(&trail));
    let answer = pipeline.retrieve(request, &context).await;
    let end = match &answer {
        Ok(answer) => TrackedEnd::Answered(answer.outcome),
        Err(error) => TrackedEnd::Failed(error.kind()),
    };
    record(
        asked(),
        request,
        &trail,
        end,
        (omitted, Duration::from_millis(3)),
    )
}

fn fates(record: &RetrievalRecord) -> Vec<(ChunkFate, u32)> {
    record.chunks.iter().map(|c| (c.fate, c.rank)).collect()
}

#[tokio::test]
async fn a_stack_with_tracking_describes_it_outermost_in_every_combination() {
    let pipeline = pipeline(chunks(&[1.0]), 4);
    assert_eq!(pipeline.describe(), "tracking > hybrid");
    for corrective in [CorrectiveMode::Off, CorrectiveMode::Filter] {
        for rerank in [false, true] {
            let options = RetrievalOptions {
                corrective,
                rerank,
                ..RetrievalOptions::default()
            };
            let stack = pipeline.stack(&options).describe();
            let wanted = StageName::ORDER
                .into_iter()
                .filter(|stage| options.wants(*stage));
            let names: Vec<&str> = wanted.map(StageName::name).collect();
            assert_eq!(stack, format!("tracking > {}", names.join(" > ")));
        }
    }
}

#[tokio::test]
async fn every_found_chunk_has_its_fate_and_its_last_place() {
    use ChunkFate::{BelowMinRelevance, DocumentLimit, Incorrect, Limit, Returned};
    let logits = [5.0, 4.0, 3.0, 2.0, 0.0, -1.0, -9.0];
    let pipeline = pipeline(chunks(&logits), 10);
    let mut request = request(2);
    request.options.corrective = CorrectiveMode::Filter;
    request.options.rerank = true;
    request.options.min_relevance = Some(0.6);
    let record = tracked(&pipeline, &request, 0).await;
    assert_eq!(record.end, TrackedEnd::Answered(Outcome::Ok));
    let fates = fates(&record);
    assert_eq!(fates[..2], [(Returned, 1), (Returned, 2)]);
    let dropped: BTreeSet<ChunkFate> = fates[2..].iter().map(|(fate, _)| *fate).collect();
    assert!(
        dropped.contains(&Limit) && dropped.contains(&Incorrect),
        "{fates:?}"
    );
    let ids: BTreeSet<_> = record.chunks.iter().map(|c| c.chunk_id).collect();
    assert_eq!((ids.len(), record.chunks.len()), (7, 7), "each chunk once");
    assert!(!record.calibration.is_empty(), "the model's calibration");
    assert_eq!(record.stages.len(), 3);
    // Nothing is above this floor: the last cut drops what the limit left.
    request.options.min_relevance = Some(1.0);
    request.limit = 5;
    let none = tracked(&pipeline, &request, 0).await;
    assert_eq!(none.end, TrackedEnd::Answered(Outcome::NoRelevantContext));
    assert_eq!(none.returned().count(), 0);
    let floor = none.chunks.iter().filter(|c| c.fate == BelowMinRelevance);
    assert!(floor.count() > 0);
    let one = |number| RetrievedChunk {
        document_id: chunk(1, 0.0).document_id,
        ..chunk(number, 3.0 - f32::from(number))
    };
    let same = self::pipeline((1..=4).map(one).collect(), 10);
    let mut request = self::request(3);
    request.options.rerank = true;
    request.options.max_chunks_per_document = Some(1);
    let capped = tracked(&same, &request, 0).await;
    let fates = self::fates(&capped);
    assert_eq!(
        fates
            .iter()
            .filter(|(fate, _)| *fate == DocumentLimit)
            .count(),
        2
    );
    assert_eq!(fates.iter().filter(|(fate, _)| *fate == Limit).count(), 1);
}

#[tokio::test]
async fn what_did_not_fit_the_reply_is_marked_and_dropped_ones_are_bounded() {
    let all: Vec<RetrievedChunk> = (0..=250).map(|n| chunk(n, f32::from(n) / 100.0)).collect();
    let pipeline = pipeline(all, 251);
    let mut request = request(5);
    request.options.rerank = true;
    let record = tracked(&pipeline, &request, 2).await;
    let marked: Vec<ChunkFate> = record.chunks.iter().take(5).map(|c| c.fate).collect();
    assert_eq!(marked[..3], [ChunkFate::Returned; 3]);
    assert_eq!(marked[3..], [ChunkFate::MessageSize; 2]);
    assert_eq!(record.chunks.len(), 5 + MAX_DROPPED);
    assert_eq!(record.chunks[5].rank, 6, "those that came furthest");
}

#[tokio::test]
async fn failures_and_empty_answers_are_recorded_too() {
    let pipeline = pipeline(Vec::new(), 4);
    let request = request(3);
    let empty = tracked(&pipeline, &request, 0).await;
    assert!(matches!(empty.end, TrackedEnd::Answered(_)) && empty.chunks.is_empty());
    let trail = Trail::default();
    let end = TrackedEnd::Failed(ErrorKind::TenantLimit);
    let refused = record(asked(), &request, &trail, end, (0, Duration::ZERO));
    assert_eq!(refused.end, end);
    assert_eq!(
        refused.query,
        TrackedQuery::Text(request.query.text.clone())
    );
    assert_eq!(refused.queries, std::slice::from_ref(&request.query));
    // Both can be stored and found again.
    let tracker = MemoryTracker::new();
    let recorded = tracker.record(std::slice::from_ref(&refused)).await;
    recorded.expect("stored");
    let found = tracker.find(refused.tenant(), refused.id).await;
    assert_eq!(found.expect("answered"), Some(refused));
}

#[tokio::test]
async fn a_hash_tells_equal_questions_of_one_tenant_and_no_text() {
    let hasher = QueryHasher::new(b"key").expect("a key");
    let pipeline = pipeline(chunks(&[1.0]), 4);
    let mut request = request(3);
    request.query.expanded_text = Some("written by a model".into());
    let record = tracked(&pipeline, &request, 0).await;
    let hashed = hasher.hashed(record.clone());
    let told = format!("{hashed:?}");
    assert!(!told.contains(&request.query.text) && !told.contains("written by a model"));
    assert!(hashed.query.is_hash() && hashed.queries.is_empty());
    assert_eq!(hashed, hasher.hashed(record.clone()));
    let (t1, t2) = (
        record.tenant().clone(),
        TenantId::mint("t2").expect("valid"),
    );
    assert_ne!(hasher.hash(&t1, "q"), hasher.hash(&t2, "q"));
    let other = QueryHasher::new(b"other").expect("a key");
    assert_ne!(hasher.hash(&t1, "q"), other.hash(&t1, "q"));
    assert!(!format!("{hasher:?}").contains("key"));
}

#[tokio::test]
async fn too_large_records_lose_what_is_worth_least_first() {
    let pipeline = pipeline(chunks(&[3.0, 2.0, 1.0, 0.5]), 10);
    let mut request = request(2);
    request.options.rerank = true;
    request.options.expansion.strategy = ExpansionStrategy::None;
    let mut record = tracked(&pipeline, &request, 0).await;
    record.options = format!("\"{}\"", "x".repeat(10_000));
    let size = |record: &RetrievalRecord| {
        record.chunks.len() * 200 + record.options.len() + record.queries.len() * 100 + 500
    };
    let same = shortened(record.clone(), 100_000, size);
    assert_eq!(same, record);
    let mut limits: Vec<usize> = (510..=size(&record)).step_by(97).collect();
    limits.reverse();
    let mut before = usize::MAX;
    for limit in limits {
        let short = shortened(record.clone(), limit, size);
        assert!(size(&short) <= limit && size(&short) <= before);
        before = size(&short);
        if size(&short) < size(&record) {
            assert_eq!(short.warnings.last().map(String::as_str), Some(SHORTENED));
        }
        assert_eq!(
            (short.id, &short.query, short.end),
            (record.id, &record.query, record.end)
        );
        let all_dropped = short.chunks.iter().all(|c| c.fate == ChunkFate::Returned);
        assert!(
            all_dropped || short.options == record.options,
            "dropped chunks first"
        );
    }
}
