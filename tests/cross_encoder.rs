//! Cross-encoders through the inference pool: parity with the Python reference, order, limits, deadlines.
//!
//! Needs `make setup`; `RAGBUS_TEST_ROOT` names another folder than `.ragbus`.

mod pool_support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ragbus::adapters::onnx::{InferenceConfig, InferencePool, ModelFolder};
use ragbus::error::ErrorKind;
use ragbus::spi::{
    CrossEncoder, DenseEncoder, PairScore, PairScoring, Priority, Role, TextEncoding,
};
use ragbus::testing::contract::cross_encoder as contract;
use serde_json::Value;

use pool_support::{folder, runtime, start, threads};

/// Built from MiniLM's weights: the cosine of two texts.
const STAND_IN: &str = "minilm-pair";
/// BERT, pooler and classifier with random weights.
const TINY: &str = "tiny-cross-encoder";
const DENSE: &str = "minilm-l6-v2";

static SHARED: LazyLock<InferencePool> = LazyLock::new(|| {
    let folders = vec![folder(STAND_IN), folder(DENSE), tiny(&fixtures())];
    InferencePool::start(&runtime(), &threads(2), folders).expect("the pool starts")
});

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn tiny(models: &Path) -> ModelFolder {
    ModelFolder::open(models, TINY).unwrap()
}

fn cases(fixture: &str) -> Vec<Value> {
    let fixture = std::fs::read(fixtures().join(fixture)).unwrap();
    let fixture: Value = serde_json::from_slice(&fixture).unwrap();
    fixture["cases"].as_array().unwrap().clone()
}

fn request(query: &str, documents: &[&str], priority: Priority) -> PairScoring {
    PairScoring {
        query: query.to_owned(),
        documents: documents.iter().map(|text| (*text).to_owned()).collect(),
        priority,
        deadline: None,
    }
}

async fn scores(encoder: &dyn CrossEncoder, query: &str, documents: &[&str]) -> Vec<PairScore> {
    let request = request(query, documents, Priority::Interactive);
    let results = encoder.score_pairs(request).await.unwrap();
    results.into_iter().map(Result::unwrap).collect()
}

/// Every case alone, and among the documents of all the cases, which differ in length.
async fn check_parity(encoder: &dyn CrossEncoder, cases: &[Value]) {
    let text = |case: &Value, key: &str| case[key].as_str().unwrap().to_owned();
    let documents: Vec<String> = cases.iter().map(|case| text(case, "document")).collect();
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    for (position, case) in cases.iter().enumerate() {
        let query = text(case, "query");
        let alone = scores(encoder, &query, &documents[position..=position]).await;
        let among = scores(encoder, &query, &documents).await;
        for score in [alone[0], among[position]] {
            contract::assert_close(score.logit, case["logit"].as_f64().unwrap() as f32);
            let ids = case["ids"].as_array().unwrap().len();
            assert_eq!(score.tokens as usize, ids, "{}", case["name"]);
            let cut = case["truncated_tokens"].as_u64().unwrap();
            assert_eq!(u64::from(score.truncated), cut, "{}", case["name"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stand_in_agrees_with_the_reference_in_any_batch() {
    let encoder = SHARED.cross_encoder(STAND_IN).unwrap();
    check_parity(&*encoder, &cases("minilm-pair.json")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_architecture_agrees_with_the_reference_in_any_batch() {
    let encoder = SHARED.cross_encoder(TINY).unwrap();
    check_parity(&*encoder, &cases("tiny-cross-encoder/expected.json")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_cross_encoders_keep_the_contract() {
    contract::cross_encoder(&*SHARED.cross_encoder(STAND_IN).unwrap()).await;
    contract::cross_encoder(&*SHARED.cross_encoder(TINY).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stand_in_is_the_cosine_of_the_dense_model() {
    let (query, document) = (
        "how is lift measured",
        "a balance in a wind tunnel measures lift",
    );
    let texts = TextEncoding {
        texts: vec![query.to_owned(), document.to_owned()],
        role: Role::Document,
        priority: Priority::Interactive,
        deadline: None,
    };
    let vectors = SHARED.dense(DENSE).unwrap().encode_dense(texts).await;
    let vectors: Vec<Vec<f32>> = (vectors.unwrap().into_iter())
        .map(|text| text.unwrap().vector)
        .collect();
    let cosine: f32 = (vectors[0].iter().zip(&vectors[1]))
        .map(|(a, b)| a * b)
        .sum();
    let encoder = SHARED.cross_encoder(STAND_IN).unwrap();
    let scores = scores(&*encoder, query, &[document]).await;
    let difference = (scores[0].logit / 12.0 + 0.35 - cosine).abs();
    assert!(difference < 1e-6, "{difference}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_requests_of_three_hundred_pairs_wait_at_once() {
    let encoder = SHARED.cross_encoder(TINY).unwrap();
    let calls = (0..6).map(|number| {
        let encoder = Arc::clone(&encoder);
        tokio::spawn(async move {
            let documents = ["wing", "cake and butter", "lift"].repeat(100);
            let query = format!("how is {number} measured");
            let all = scores(&*encoder, &query, &documents).await;
            let each = scores(&*encoder, &query, &documents[..3]).await;
            for (position, score) in all.iter().enumerate() {
                contract::assert_close(score.logit, each[position % 3].logit);
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_keep_the_pools_limits_and_deadlines() {
    let config = InferenceConfig {
        interactive_capacity: 8,
        ..threads(1)
    };
    let pool = start(&config, &[STAND_IN]);
    let encoder = pool.cross_encoder(STAND_IN).unwrap();
    let nine = request("lift", &["wing"; 9], Priority::Interactive);
    let refused = encoder.score_pairs(nine).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Overloaded);
    // Refusal leaves the room as it was, and a bulk call may be larger than its queue.
    assert_eq!(scores(&*encoder, "lift", &["wing"; 8]).await.len(), 8);

    let long = "the lift of a slender wing ".repeat(50);
    let mut late = request("lift", &[long.as_str(); 400], Priority::Bulk);
    late.deadline = Some(Instant::now() + Duration::from_millis(400));
    let results = encoder.score_pairs(late).await.unwrap();
    assert_eq!(results.len(), 400);
    let late: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert!(!late.is_empty());
    assert!(late.iter().all(|error| error.kind() == ErrorKind::Timeout));

    pool.close().await;
    let refused = encoder
        .score_pairs(request("lift", &["wing"], Priority::Bulk))
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Draining);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_leaves_the_queue() {
    let pool = start(&threads(1), &[STAND_IN]);
    let encoder = pool.cross_encoder(STAND_IN).unwrap();
    let long = "the lift of a slender wing ".repeat(50);
    let gone = {
        let (encoder, long) = (Arc::clone(&encoder), long.clone());
        let documents = vec![long; 200];
        tokio::spawn(async move {
            let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
            scores(&*encoder, "lift", &documents).await
        })
    };
    while pool.stats().interactive_queued < 20 {
        tokio::task::yield_now().await;
    }
    gone.abort();
    scores(&*encoder, "lift", &["wing"]).await;
    let stats = pool.stats();
    assert_eq!(stats.interactive_queued, 0);
    assert!(stats.models[0].dropped >= 10, "{stats:?}");
    assert!(stats.models[0].texts < 100, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_gives_probabilities_is_read_as_log_odds() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (fixtures().join(TINY), dir.path().join(TINY));
    std::fs::create_dir(&to).unwrap();
    for file in ["model.onnx", "tokenizer.json"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let manifest = std::fs::read_to_string(from.join("model.toml")).unwrap();
    let manifest = manifest.replace("\"sigmoid\"", "\"in-graph\"");
    std::fs::write(to.join("model.toml"), manifest).unwrap();
    let pool = InferencePool::start(&runtime(), &threads(1), vec![tiny(dir.path())]).unwrap();
    let encoder = pool.cross_encoder(TINY).unwrap();
    // Some of this graph's numbers happen to lie within 0 and 1; the others must be refused, each alone.
    for case in cases("tiny-cross-encoder/expected.json") {
        let text = |key: &str| case[key].as_str().unwrap();
        let pair = request(text("query"), &[text("document")], Priority::Bulk);
        let score = encoder.score_pairs(pair).await.unwrap().remove(0);
        let p = case["logit"].as_f64().unwrap();
        match score {
            Ok(score) => contract::assert_close(score.logit, (p / (1.0 - p)).ln() as f32),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Internal);
                assert!(!(0.0..=1.0).contains(&p), "{}", case["name"]);
            }
        }
    }
}

#[test]
fn a_model_of_another_task_is_not_found() {
    let found = |result: ragbus::error::Result<()>| result.map_err(|error| error.kind());
    let missing = Err(ErrorKind::NotFound);
    assert_eq!(found(SHARED.cross_encoder(DENSE).map(drop)), missing);
    assert_eq!(found(SHARED.cross_encoder("absent").map(drop)), missing);
    assert_eq!(found(SHARED.dense(STAND_IN).map(drop)), missing);
    assert_eq!(found(SHARED.sparse(TINY).map(drop)), missing);
}
