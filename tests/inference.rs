//! The real models through the inference pool: parity with the Python reference, order, limits, shutdown.
//!
//! Needs `make setup`; `RAGBUS_TEST_ROOT` names another folder than `.ragbus`.

mod pool_support;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use ragbus::adapters::onnx::{InferenceConfig, InferencePool, ModelFolder, OnnxRuntime};
use ragbus::error::ErrorKind;
use ragbus::model::SparseVector;
use ragbus::spi::{DenseEncoder, Encoded, Priority, Role, SparseEncoder, TextEncoding};
use ragbus::testing::contract::encoders as contract;
use serde_json::Value;
use tokio::task::JoinSet;

use pool_support::{root, runtime, start, threads};

const DENSE: &str = "minilm-l6-v2";
const INT8: &str = "minilm-l6-v2-int8";
const SPARSE: &str = "splade-tiny";
const UNKNOWN: u64 = 100;

/// The pool of the tests that only encode.
static SHARED: LazyLock<InferencePool> =
    LazyLock::new(|| start(&threads(2), &[DENSE, INT8, SPARSE]));

fn request(texts: &[&str], priority: Priority) -> TextEncoding {
    TextEncoding {
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        role: Role::Document,
        priority,
        deadline: None,
    }
}

async fn dense(
    encoder: &dyn DenseEncoder,
    texts: &[&str],
    priority: Priority,
) -> Vec<Encoded<Vec<f32>>> {
    let results = encoder
        .encode_dense(request(texts, priority))
        .await
        .unwrap();
    results.into_iter().map(Result::unwrap).collect()
}

async fn sparse(encoder: &dyn SparseEncoder, texts: &[&str]) -> Vec<Encoded<SparseVector>> {
    let results = encoder
        .encode_sparse(request(texts, Priority::Bulk))
        .await
        .unwrap();
    results.into_iter().map(Result::unwrap).collect()
}

fn fixture(model: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{model}.json"));
    let fixture: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    fixture["cases"].as_array().unwrap().clone()
}

fn texts(cases: &[Value]) -> Vec<&str> {
    cases
        .iter()
        .map(|case| case["text"].as_str().unwrap())
        .collect()
}

fn check_tokens<V>(encoded: &Encoded<V>, case: &Value) {
    let ids = case["ids"].as_array().unwrap();
    let unknown = ids.iter().filter(|id| id.as_u64() == Some(UNKNOWN)).count();
    let name = &case["name"];
    assert_eq!(encoded.tokens as usize, ids.len(), "{name}");
    assert_eq!(
        u64::from(encoded.truncated),
        case["truncated_tokens"].as_u64().unwrap(),
        "{name}"
    );
    assert_eq!(encoded.unknown as usize, unknown, "{name}");
}

fn expected_dense(case: &Value) -> Vec<f32> {
    let values = case["embedding"].as_array().unwrap();
    values
        .iter()
        .map(|value| value.as_f64().unwrap() as f32)
        .collect()
}

fn expected_sparse(case: &Value) -> SparseVector {
    let weights = case["weights"].as_object().unwrap();
    let mut terms: Vec<(u32, f32)> = (weights.iter())
        .map(|(term, weight)| (term.parse().unwrap(), weight.as_f64().unwrap() as f32))
        .collect();
    terms.sort_unstable_by_key(|(term, _)| *term);
    let (indices, values) = terms.into_iter().unzip();
    SparseVector { indices, values }
}

#[tokio::test(flavor = "multi_thread")]
async fn dense_vectors_agree_with_the_reference_in_any_batch() {
    let encoder = SHARED.dense(DENSE).unwrap();
    let cases = fixture(DENSE);
    let texts = texts(&cases);
    let together = dense(&*encoder, &texts, Priority::Bulk).await;
    for (case, encoded) in cases.iter().zip(&together) {
        contract::assert_close(&encoded.vector, &expected_dense(case));
        check_tokens(encoded, case);
        let text = [case["text"].as_str().unwrap()];
        let alone = dense(&*encoder, &text, Priority::Interactive).await;
        contract::assert_close(&alone[0].vector, &expected_dense(case));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sparse_weights_agree_with_the_reference_in_any_batch() {
    let encoder = SHARED.sparse(SPARSE).unwrap();
    let cases = fixture(SPARSE);
    let together = sparse(&*encoder, &texts(&cases)).await;
    for (case, encoded) in cases.iter().zip(&together) {
        contract::assert_close_sparse(&encoded.vector, &expected_sparse(case));
        check_tokens(encoded, case);
        let alone = sparse(&*encoder, &[case["text"].as_str().unwrap()]).await;
        contract::assert_close_sparse(&alone[0].vector, &expected_sparse(case));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_encoders_keep_the_contract() {
    contract::dense_encoder(&*SHARED.dense(DENSE).unwrap()).await;
    contract::dense_encoder(&*SHARED.dense(INT8).unwrap()).await;
    contract::sparse_encoder(&*SHARED.sparse(SPARSE).unwrap()).await;
}

/// The chunker counts each word once and adds up.
#[test]
fn counts_add_up_over_words() {
    let counter = SHARED.token_counter(DENSE).unwrap();
    for case in fixture(DENSE) {
        let text = case["text"].as_str().unwrap();
        let words: usize = text
            .split_whitespace()
            .map(|word| counter.count(word))
            .sum();
        assert_eq!(counter.count(text), words, "{}", case["name"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_counted_as_the_model_does() {
    let counter = SHARED.token_counter(DENSE).unwrap();
    for case in fixture(DENSE) {
        let ids = case["ids"].as_array().unwrap().len();
        let cut = case["truncated_tokens"].as_u64().unwrap() as usize;
        assert_eq!(
            counter.count(case["text"].as_str().unwrap()),
            ids + cut - 2,
            "{}",
            case["name"]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_text_is_cut_and_counted() {
    let encoder = SHARED.dense(DENSE).unwrap();
    let counter = SHARED.token_counter(DENSE).unwrap();
    let huge = "wind tunnel ".repeat(90_000);
    let start = Instant::now();
    let encoded = dense(
        &*encoder,
        &[&huge, &"検".repeat(20_000), &"x".repeat(1_000_000)],
        Priority::Bulk,
    )
    .await;
    assert_eq!(encoded[0].tokens, 256);
    assert_eq!(encoded[0].truncated, 180_000 - 254);
    assert_eq!(encoded[1].truncated, 20_000 - 254);
    assert_eq!((encoded[2].tokens, encoded[2].unknown), (3, 1));
    assert_eq!(counter.count(&huge), 180_000);
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_int8_model_runs_one_text_per_call() {
    let pool = start(&threads(1), &[INT8]);
    let encoder = pool.dense(INT8).unwrap();
    let texts = ["short", "a text of some more words than the other", "short"];
    let together = dense(&*encoder, &texts, Priority::Bulk).await;
    let stats = pool.stats();
    let stats = stats.model(INT8).unwrap();
    // The trial runs at the start are no work.
    assert_eq!((stats.texts, stats.batches), (3, 3));
    assert_eq!(stats.tokens, stats.padded_tokens);
    let alone = dense(&*encoder, &texts[..1], Priority::Interactive).await;
    assert_eq!(together[0].vector, alone[0].vector);
    assert_eq!(together[0].vector, together[2].vector);
    let exact = dense(&*SHARED.dense(DENSE).unwrap(), &texts[1..2], Priority::Bulk).await;
    let cosine: f32 = (exact[0].vector.iter().zip(&together[1].vector))
        .map(|(a, b)| a * b)
        .sum();
    assert!(cosine > 0.95, "{cosine}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_thread_and_two_give_the_same() {
    let single = start(&threads(1), &[DENSE]);
    let cases = fixture(DENSE);
    let texts = texts(&cases);
    let one = dense(&*single.dense(DENSE).unwrap(), &texts, Priority::Bulk).await;
    let two = dense(&*SHARED.dense(DENSE).unwrap(), &texts, Priority::Bulk).await;
    for (one, two) in one.iter().zip(&two) {
        contract::assert_close(&one.vector, &two.vector);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_at_once_each_get_their_own() {
    let encoder = SHARED.dense(DENSE).unwrap();
    let mut calls = JoinSet::new();
    for number in 0..64 {
        let encoder = Arc::clone(&encoder);
        calls.spawn(async move {
            let text = format!("report number {number}");
            let priority = [Priority::Interactive, Priority::Bulk][number % 2];
            (
                text.clone(),
                dense(&*encoder, &[&text], priority).await.remove(0),
            )
        });
    }
    for (text, concurrent) in calls.join_all().await {
        let alone = dense(&*encoder, &[&text], Priority::Bulk).await;
        contract::assert_close(&concurrent.vector, &alone[0].vector);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interactive_work_overtakes_bulk_work() {
    let pool = start(&threads(1), &[DENSE]);
    let encoder = pool.dense(DENSE).unwrap();
    let text = "lift and drag of a slender wing ".repeat(8);
    let finished = Arc::new(AtomicUsize::new(0));
    let mut bulk = JoinSet::new();
    for _ in 0..200 {
        let (encoder, text, finished) = (Arc::clone(&encoder), text.clone(), Arc::clone(&finished));
        bulk.spawn(async move {
            dense(&*encoder, &[&text], Priority::Bulk).await;
            finished.fetch_add(1, Ordering::SeqCst);
        });
    }
    while pool.stats().bulk_queued < 150 {
        tokio::task::yield_now().await;
    }
    let before = finished.load(Ordering::SeqCst);
    dense(&*encoder, &["now"], Priority::Interactive).await;
    let overtaken = 200 - finished.load(Ordering::SeqCst);
    // At most the batch that ran when it came (256 / 64 texts), and one that had been taken.
    assert!(
        before + overtaken >= 180,
        "{before} before, {overtaken} after"
    );
    assert!(overtaken >= 150 - 20, "only {overtaken} were left");
    bulk.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_interactive_queue_refuses_at_once_and_a_full_bulk_queue_waits() {
    let config = InferenceConfig {
        interactive_capacity: 4,
        bulk_capacity: 4,
        ..threads(1)
    };
    let pool = start(&config, &[DENSE]);
    let encoder = pool.dense(DENSE).unwrap();
    let error = encoder
        .encode_dense(request(&["a"; 5], Priority::Interactive))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    // Refusal leaves the room as it was.
    assert_eq!(
        dense(&*encoder, &["a"; 4], Priority::Interactive)
            .await
            .len(),
        4
    );
    // A bulk call may be larger than its queue.
    assert_eq!(dense(&*encoder, &["a"; 50], Priority::Bulk).await.len(), 50);
    assert_eq!(pool.stats().model(DENSE).unwrap().texts, 54);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_past_its_deadline_or_without_a_caller_is_not_run() {
    let config = InferenceConfig {
        bulk_capacity: 8,
        ..threads(1)
    };
    let pool = start(&config, &[DENSE]);
    let encoder = pool.dense(DENSE).unwrap();
    let text = "lift and drag of a slender wing ".repeat(30);
    let mut late = request(&[text.as_str(); 400], Priority::Bulk);
    late.deadline = Some(Instant::now() + Duration::from_millis(400));
    let start = Instant::now();
    let results = encoder.encode_dense(late).await.unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "the call ends with its deadline"
    );
    assert_eq!(results.len(), 400);
    let (done, late): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert!(!late.is_empty());
    assert!(
        late.into_iter()
            .all(|text| text.unwrap_err().kind() == ErrorKind::Timeout)
    );

    let run_before = pool.stats().models[0].texts;
    let dropped_before = pool.stats().models[0].dropped;
    let gone = {
        let (encoder, text) = (Arc::clone(&encoder), text.clone());
        tokio::spawn(async move { dense(&*encoder, &[text.as_str(); 8], Priority::Bulk).await })
    };
    while pool.stats().bulk_queued < 6 {
        tokio::task::yield_now().await;
    }
    gone.abort();
    dense(&*encoder, &["after"], Priority::Bulk).await;
    let stats = &pool.stats().models[0];
    // One batch may run when the caller goes, another be taken before that is noticed.
    assert!(stats.dropped - dropped_before >= 4, "{stats:?}");
    assert!(stats.texts - run_before <= 5, "{stats:?}");
    assert!(run_before < done.len() as u64 + 8, "{stats:?}");
    assert_eq!(pool.stats().bulk_queued, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_in_flight_ends_every_call() {
    for round in 0..20 {
        let pool = start(&threads(2), &[SPARSE]);
        let encoder = pool.sparse(SPARSE).unwrap();
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let mut calls = JoinSet::new();
        for _ in 0..8 {
            let (encoder, outcomes) = (Arc::clone(&encoder), Arc::clone(&outcomes));
            calls.spawn(async move {
                loop {
                    let call =
                        encoder.encode_sparse(request(&["closing time"; 20], Priority::Bulk));
                    let outcome = call.await;
                    let texts =
                        outcome.map(|texts| texts.into_iter().collect::<Result<Vec<_>, _>>());
                    match texts {
                        Ok(Ok(_)) => outcomes.lock().unwrap().push(None),
                        Ok(Err(error)) | Err(error) => {
                            outcomes.lock().unwrap().push(Some(error.kind()));
                            return;
                        }
                    }
                }
            });
        }
        while pool.stats().bulk_queued < 8 {
            tokio::task::yield_now().await;
        }
        if round % 2 == 0 {
            pool.close().await;
            pool.close().await;
        } else {
            tokio::task::spawn_blocking(move || drop(pool))
                .await
                .unwrap();
        }
        let ended = tokio::time::timeout(Duration::from_secs(10), calls.join_all());
        ended.await.expect("no call hangs");
        let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
        let is_end = |outcome: &&Option<ErrorKind>| outcome.is_some();
        assert_eq!(outcomes.iter().filter(is_end).count(), 8);
        for kind in outcomes.iter().flatten() {
            assert_eq!(*kind, ErrorKind::Draining);
        }
        let refused = encoder
            .encode_sparse(request(&["late"], Priority::Interactive))
            .await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Draining);
    }
}

#[test]
fn a_wrong_library_is_refused_and_says_what_to_do() {
    let absent = OnnxRuntime::load(Path::new("/absent/libonnxruntime.so")).unwrap_err();
    assert!(
        absent.message().contains("make setup"),
        "{}",
        absent.message()
    );
    assert_eq!(absent.field(), Some("onnx.library"));
    let library = runtime().library().to_owned();
    OnnxRuntime::load(&library).expect("the same again is fine");
    let other = OnnxRuntime::load(&root().join("models/splade-tiny/model.onnx")).unwrap_err();
    assert!(
        other.message().contains("already loaded"),
        "{}",
        other.message()
    );
}

#[test]
fn a_graph_that_is_not_what_the_manifest_says_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (root().join("models").join(SPARSE), dir.path().join(SPARSE));
    std::fs::create_dir(&to).unwrap();
    for file in ["model.onnx", "tokenizer.json"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let manifest = std::fs::read_to_string(from.join("model.toml")).unwrap();
    let cases = [
        ("dimension = 30522", "dimension = 30521", "30521"),
        ("\"weights\"", "\"scores\"", "no output \"scores\""),
        ("max_tokens = 256", "max_tokens = 2", "special tokens"),
    ];
    for (good, bad, expected) in cases {
        std::fs::write(to.join("model.toml"), manifest.replace(good, bad)).unwrap();
        let folder = ModelFolder::open(dir.path(), SPARSE).unwrap();
        let error = InferencePool::start(&runtime(), &threads(1), vec![folder]).unwrap_err();
        assert!(error.message().contains(expected), "{}", error.message());
    }
    std::fs::write(to.join("model.toml"), &manifest).unwrap();
    std::fs::write(to.join("model.onnx"), "no graph").unwrap();
    let folder = ModelFolder::open(dir.path(), SPARSE).unwrap();
    let error = InferencePool::start(&runtime(), &threads(1), vec![folder]).unwrap_err();
    assert!(
        error.message().contains("make setup"),
        "{}",
        error.message()
    );
}

#[test]
fn a_model_of_another_task_or_name_is_not_found() {
    assert_eq!(
        SHARED.dense(SPARSE).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        SHARED.sparse(DENSE).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        SHARED.dense("absent").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}
