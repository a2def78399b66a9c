//! The lexical leg: identifiers and quoted phrases, and a corpus that was built before the leg was switched on.

use serde_json::{Value, json};

use crate::harness::*;

/// Texts that differ in little but an identifier.
fn reports() -> Vec<(String, String)> {
    let kinds = ["pump", "valve", "sensor", "motor"];
    let report = |number: usize| {
        let text = format!(
            "Incident report. The {} of line {} stopped with code ERR_{} during the night shift; lot LOT-2024/{} was put on \
             hold and account DE{:02}370400440532013{:03} was charged.",
            kinds[number % 4],
            number % 7,
            4700 + number,
            100 + number,
            10 + number,
            number
        );
        (format!("r{number}"), text)
    };
    (0..40).map(report).collect()
}

async fn first(t1: &Caller, query: &str, options: Value) -> Value {
    let request = json!({ "corpus": "c", "query": query, "options": options, "explain": true });
    t1.ask("retrieve", &request).await.ok()["results"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identifier_finds_its_own_document_in_any_spelling() {
    let service = Service::with(|s| s.env("RAGBUS__RETRIEVAL__LEGS", "dense,sparse,bm25")).await;
    let t1 = &service.t1;
    for (id, text) in reports() {
        t1.indexed(&put("c", &id, &text)).await;
    }
    let lexical = json!({ "fusion": { "denseWeight": 0, "sparseWeight": 0 } });
    for (query, expected) in [
        ("ERR_4711", "r11"),
        ("what happened at err-4733?", "r33"),
        ("ERR 4705", "r5"),
        ("lot LOT-2024/117", "r17"),
        ("\"LOT 2024 121\"", "r21"),
        ("DE31 3704 0044 0532 0130 21", "r21"),
    ] {
        let found = first(t1, query, lexical.clone()).await;
        assert_eq!(found["documentId"], expected, "{query}");
        assert_eq!(found["scoreKind"], "BM25");
        assert_eq!(found["signals"]["bm25"]["rank"], 1);
        let fused = first(t1, query, json!({})).await;
        assert_eq!(fused["scoreKind"], "RRF");
        assert!(fused["signals"]["bm25"].is_object(), "{query}");
    }
    let nothing = json!({ "corpus": "c", "query": "?!", "options": lexical });
    assert_eq!(
        t1.ask("retrieve", &nothing).await.ok()["outcome"],
        "NO_MATCH"
    );
    let info = t1.ask("catalog", &json!({ "getInfo": {} })).await.ok();
    assert_eq!(info["info"]["legs"], json!(["dense", "sparse", "bm25"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leg_can_be_switched_on_later_but_languages_belong_to_the_corpus() {
    let nats = Nats::start().await;
    let dir = tempfile::tempdir().expect("a folder");
    let setup = || WorkerSetup::new(&nats.url(), dir.path());
    let mut worker = setup().arg("--setup").start().await;
    let t1 = Caller::of(&nats, "t1").await;
    t1.indexed(&put("c", "owl", "The owl ERR_4711 hunts."))
        .await;
    worker.terminate();
    worker.ended(PATIENCE).await;
    let mut worker = setup().env("RAGBUS__RETRIEVAL__LEGS", "bm25").start().await;
    let found = t1.retrieve("c", "err4711").await;
    assert_eq!(found["results"][0]["documentId"], "owl");
    worker.terminate();
    worker.ended(PATIENCE).await;
    let _worker = setup()
        .env("RAGBUS__RETRIEVAL__LEGS", "dense,bm25")
        .env("RAGBUS__RETRIEVAL__LANGUAGES", "german")
        .start()
        .await;
    let request = |options: Value| json!({ "corpus": "c", "query": "owl", "options": options });
    let refused = t1.ask("retrieve", &request(json!({}))).await;
    assert_eq!(refused.code, 409);
    let message = refused.json()["message"].to_string();
    assert!(message.contains("bm25-1-english") && message.contains("bm25-1-german"));
    // The other legs don't care.
    let dense = request(json!({ "fusion": { "bm25Weight": 0 } }));
    assert_eq!(t1.ask("retrieve", &dense).await.ok()["outcome"], "OK");
    let put = t1.ingest(&put("c", "two", "another text")).await;
    assert_eq!(put["error"]["kind"], "schema_conflict");
}
