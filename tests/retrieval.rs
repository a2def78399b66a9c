//! Hybrid retrieval over the memory and the embedded store, with encoders that hash words.

#[path = "support/word_corpus.rs"]
mod word_corpus;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ragbus::adapters::edge::{EdgeConfig, EdgeVectorStore};
use ragbus::adapters::parse::TextParser;
use ragbus::error::ErrorKind;
use ragbus::ingest::{IngestParts, IngestProcessor, NoObserver};
use ragbus::model::{
    CorpusName, CorpusRef, FusionWeights, Leg, Outcome, QueryText, Retrieval, RetrievalOptions,
    RetrievalRequest, RetrievedChunk, ScoreKind, TenantId,
};
use ragbus::retrieval::{
    HybridConfig, HybridParts, HybridRetriever, RetrievalPipeline, StageFactories,
};
use ragbus::spi::{FusionMethod, ModelSets, RequestContext, Retriever, VectorStore};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::encoders::{Fault, FaultyEncoder, HashDenseEncoder};
use ragbus::testing::{
    InMemoryRetriever, MemoryBlobStore, MemoryRegistry, MemoryVectorStore, hash_models, hash_set,
    hash_set_over,
};

struct Desk {
    store: Arc<dyn VectorStore>,
    processor: IngestProcessor,
    corpus: CorpusRef,
    _dir: Option<tempfile::TempDir>,
}

fn corpus(tenant: &str) -> CorpusRef {
    CorpusRef::new(
        TenantId::mint(tenant).expect("valid"),
        CorpusName::new("docs").expect("valid"),
    )
}

fn desk(store: Arc<dyn VectorStore>, dir: Option<tempfile::TempDir>) -> Desk {
    let processor = IngestProcessor::new(IngestParts {
        registry: Arc::new(MemoryRegistry::new()),
        store: Arc::clone(&store),
        models: hash_models(64),
        parser: Arc::new(TextParser),
        blobs: Arc::new(MemoryBlobStore::default()),
        tenancy: TenancyStrategy::Separate,
        observer: Arc::new(NoObserver),
    });
    Desk {
        store,
        processor,
        corpus: corpus("acme"),
        _dir: dir,
    }
}

fn desks() -> Vec<Desk> {
    let dir = tempfile::tempdir().expect("a folder");
    let edge = EdgeVectorStore::open(EdgeConfig::new(dir.path())).expect("opened");
    vec![
        desk(Arc::new(MemoryVectorStore::new()), None),
        desk(Arc::new(edge), Some(dir)),
    ]
}

async fn fill(desk: &Desk) {
    word_corpus::fill(&desk.processor, &desk.corpus).await;
}

fn parts(desk: &Desk, legs: &[Leg]) -> HybridParts {
    HybridParts {
        store: Arc::clone(&desk.store),
        models: hash_models(64),
        tenancy: TenancyStrategy::Separate,
        config: HybridConfig {
            legs: legs.to_vec(),
            depth: 100,
            fusion: FusionMethod::Rrf { k: 60 },
        },
    }
}

fn hybrid(desk: &Desk) -> HybridRetriever {
    HybridRetriever::new(parts(desk, &[Leg::Dense, Leg::Sparse]))
}

/// Without any stage around it.
fn pipeline(desk: &Desk) -> RetrievalPipeline {
    let options = RetrievalOptions::default();
    let hybrid = Arc::new(hybrid(desk));
    RetrievalPipeline::new(hybrid, StageFactories::default(), 300, &options)
}

fn request(desk: &Desk, limit: u32) -> RetrievalRequest {
    RetrievalRequest {
        corpus: desk.corpus.clone(),
        query: QueryText::original("money loan river"),
        limit,
        filter: None,
        options: RetrievalOptions::default(),
        explain: false,
        depth_factor: 1,
    }
}

fn in_time() -> RequestContext {
    RequestContext::until(Instant::now() + Duration::from_secs(20))
}

async fn ask(retriever: &HybridRetriever, request: &RetrievalRequest) -> Retrieval {
    retriever
        .retrieve(request, &in_time())
        .await
        .expect("answered")
}

fn ids(retrieval: &Retrieval) -> Vec<String> {
    retrieval
        .results
        .iter()
        .map(|c| c.chunk_id.to_string())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fusing_here_and_in_the_store_agree_at_equal_weights() {
    for desk in desks() {
        fill(&desk).await;
        let in_store = request(&desk, 20);
        let mut here = in_store.clone();
        // Twice the weight of every leg: twice the score, and the store can't do that.
        here.options.fusion = FusionWeights {
            dense: Some(2.0),
            sparse: Some(2.0),
            ..FusionWeights::default()
        };
        let (stored, own) = (
            ask(&hybrid(&desk), &in_store).await,
            ask(&hybrid(&desk), &here).await,
        );
        assert_eq!(stored.results[0].score_kind, ScoreKind::Rrf);
        let score_of = |chunk: &RetrievedChunk| chunk.relevance;
        for (a, b) in stored.results.iter().zip(&own.results) {
            assert!(
                (2.0 * score_of(a) - score_of(b)).abs() < 1e-5,
                "{} {}",
                score_of(a),
                score_of(b)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_requests_give_equal_lists_and_a_smaller_limit_a_prefix() {
    for desk in desks() {
        fill(&desk).await;
        let ten = ids(&ask(&hybrid(&desk), &request(&desk, 10)).await);
        assert_eq!(ten.len(), 10);
        for _ in 0..10 {
            assert_eq!(ids(&ask(&hybrid(&desk), &request(&desk, 10)).await), ten);
        }
        assert_eq!(
            ids(&ask(&hybrid(&desk), &request(&desk, 5)).await),
            ten[..5]
        );
        let mut explained = request(&desk, 10);
        explained.explain = true;
        assert_eq!(ids(&ask(&hybrid(&desk), &explained).await), ten);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_add_up_to_the_fused_score() {
    for desk in desks() {
        fill(&desk).await;
        let mut explained = request(&desk, 100);
        explained.explain = true;
        let answer = ask(&hybrid(&desk), &explained).await;
        let mut both = 0;
        for chunk in &answer.results {
            let ranks = [chunk.signals.dense, chunk.signals.sparse]
                .into_iter()
                .flatten();
            let sum: f32 = ranks.clone().map(|s| 1.0 / (60 + s.rank) as f32).sum();
            assert_eq!(chunk.signals.fused, Some(chunk.relevance));
            assert!((sum - chunk.relevance).abs() < 1e-5);
            both += usize::from(ranks.count() == 2);
        }
        assert!(both > 10, "both legs found chunks");
        let plain = ask(&hybrid(&desk), &request(&desk, 100)).await;
        assert!(plain.results.iter().all(|c| c.signals.dense.is_none()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leg_keeps_its_own_kind_and_floors_apply_to_it() {
    for desk in desks() {
        fill(&desk).await;
        let mut dense = request(&desk, 100);
        dense.options.fusion.sparse = Some(0.0);
        let all = ask(&hybrid(&desk), &dense).await;
        assert!(
            all.results
                .iter()
                .all(|c| c.score_kind == ScoreKind::Cosine && c.signals.fused.is_none())
        );
        let floor = all.results[4].relevance;
        dense.options.min_relevance = Some(floor);
        let pipeline = pipeline(&desk);
        let above = pipeline
            .retrieve(&dense, &in_time())
            .await
            .expect("answered");
        assert!(above.results.len() >= 5 && above.results.len() < all.results.len());
        dense.options.min_relevance = Some(1.0);
        let none = pipeline
            .retrieve(&dense, &in_time())
            .await
            .expect("answered");
        assert_eq!(
            (none.outcome, none.results.len()),
            (Outcome::NoRelevantContext, 0)
        );
        let sparse = HybridRetriever::new(parts(&desk, &[Leg::Sparse]));
        let kinds = ask(&sparse, &request(&desk, 5)).await;
        assert!(
            kinds
                .results
                .iter()
                .all(|c| c.score_kind == ScoreKind::SparseDot)
        );
        assert_eq!(kinds.stages[0].model_calls, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_are_told_apart() {
    for desk in desks() {
        let empty = ask(&hybrid(&desk), &request(&desk, 5)).await;
        assert_eq!(
            (empty.outcome, empty.stages[0].model_calls),
            (Outcome::NoCorpus, 0)
        );
        fill(&desk).await;
        let mut wordless = request(&desk, 5);
        wordless.query.text = "...".into();
        let sparse = HybridRetriever::new(parts(&desk, &[Leg::Sparse]));
        assert_eq!(ask(&sparse, &wordless).await.outcome, Outcome::NoMatch);
        let mut foreign = request(&desk, 5);
        foreign.corpus = corpus("other");
        assert_eq!(
            ask(&hybrid(&desk), &foreign).await.outcome,
            Outcome::NoCorpus
        );
        let mut one_each = request(&desk, 100);
        one_each.options.max_chunks_per_document = Some(1);
        let documents = ask(&hybrid(&desk), &one_each).await;
        let mut seen = std::collections::HashSet::new();
        assert!(
            documents
                .results
                .iter()
                .all(|c| seen.insert(c.document_id.clone()))
        );
        assert_eq!(documents.outcome, Outcome::Ok);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_model_is_a_conflict_with_both_names() {
    for desk in desks() {
        fill(&desk).await;
        let mut parts = parts(&desk, &[Leg::Dense]);
        parts.models = ModelSets::of(hash_set("dense-other", 64));
        let error = HybridRetriever::new(parts)
            .retrieve(&request(&desk, 5), &in_time())
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::SchemaConflict);
        assert!(error.message().contains("dense-hash") && error.message().contains("dense-other"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_model_ends_in_a_timeout_in_time() {
    let desk = desk(Arc::new(MemoryVectorStore::new()), None);
    fill(&desk).await;
    let inner: Arc<dyn ragbus::spi::DenseEncoder> =
        Arc::new(HashDenseEncoder::new("dense-hash", 64, 256));
    let slow = Arc::new(FaultyEncoder::new(inner, [Fault::Hold]));
    let mut parts = parts(&desk, &[Leg::Dense]);
    parts.models = ModelSets::of(hash_set_over(slow));
    let started = Instant::now();
    let context = RequestContext::until(started + Duration::from_millis(100));
    let error = HybridRetriever::new(parts)
        .retrieve(&request(&desk, 5), &context)
        .await
        .expect_err("late");
    assert_eq!(
        (error.kind(), error.stage()),
        (ErrorKind::Timeout, Some("hybrid"))
    );
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_memory_retriever_has_two_modes() {
    let store = Arc::new(MemoryVectorStore::new());
    let desk = desk(Arc::clone(&store) as Arc<dyn VectorStore>, None);
    fill(&desk).await;
    let over = InMemoryRetriever::over(store, TenancyStrategy::Separate);
    let answer = over
        .retrieve(&request(&desk, 3), &in_time())
        .await
        .expect("answered");
    assert_eq!(
        (
            answer.results.len(),
            over.asked().len(),
            over.describe().as_str()
        ),
        (3, 1, "hybrid")
    );
    let fixed = InMemoryRetriever::returning(answer.results.clone());
    let again = fixed
        .retrieve(&request(&desk, 2), &in_time())
        .await
        .expect("answered");
    assert_eq!(again.results, answer.results[..2]);
    let nothing = InMemoryRetriever::returning(Vec::new());
    let none = nothing
        .retrieve(&request(&desk, 2), &in_time())
        .await
        .expect("answered");
    assert_eq!(none.outcome, Outcome::NoMatch);
}
