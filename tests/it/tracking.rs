//! One record per retrieval, in the tables of a real database, whatever came of the request.

use ragbus::adapters::sqlite::SqliteRegistry;
use ragbus::model::{
    ChunkFate, Outcome, RetrievalId, RetrievalRecord, TenantId, TimeWindow, TrackedEnd,
    TrackedQuery,
};
use ragbus::spi::RetrievalTracker;
use serde_json::{Value, json};

use crate::harness::*;

/// The tracker over a worker's SQLite file.
pub async fn sqlite(service: &Service) -> impl RetrievalTracker + use<> {
    let file = service.dir.path().join("data/ragbus.db");
    SqliteRegistry::open(&file).await.expect("opens").tracker()
}

pub fn tenant(name: &str) -> TenantId {
    TenantId::mint(name).expect("valid")
}

pub fn id_of(reply: &Value) -> RetrievalId {
    let text = reply["retrievalId"].as_str().expect("an id");
    let id = RetrievalId::parse(text).expect("a UUID");
    assert!(id.created_at().is_some(), "version 7: {text}");
    id
}

/// All records of a tenant, by time.
pub async fn records(tracker: &impl RetrievalTracker, name: &str) -> Vec<RetrievalRecord> {
    let window = TimeWindow {
        since: None,
        until: None,
    };
    let tenant = tenant(name);
    let read = tracker.records(&tenant, None, window, None, 100_000);
    read.await.expect("read")
}

/// The same once there are so many.
pub async fn so_many(
    tracker: &impl RetrievalTracker,
    name: &str,
    wanted: usize,
) -> Vec<RetrievalRecord> {
    eventually("the records", REDELIVERY, || async {
        let found = records(tracker, name).await;
        assert!(found.len() <= wanted, "{} records", found.len());
        (found.len() == wanted).then_some(found)
    })
    .await
}

fn question(corpus: &str, options: Value) -> Value {
    json!({ "corpus": corpus, "query": "which owl hunts at night?", "limit": 2, "options": options })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_end_leaves_one_record() {
    let service = crate::stages::service(|s| {
        s.env(
            "RAGBUS__LIMITS__TENANTS__SMALL__REQUESTS_PER_SECOND",
            "0.001",
        )
    })
    .await;
    assert!(service.worker.log().contains("tracking > hybrid"));
    let t1 = &service.t1;
    let asks = [
        question("c", json!({})),
        question("nowhere", json!({})),
        question("c", json!({ "rerank": true, "minRelevance": 1.0 })),
        question(
            "c",
            json!({ "corrective": "FILTER", "rerank": true, "maxChunksPerDocument": 1 }),
        ),
    ];
    let mut replies = Vec::new();
    let told = [
        ("Rag-Actor", "clerk"),
        ("Rag-Purpose", "claim"),
        ("Rag-Request-Id", "r-1"),
    ];
    for ask in &asks {
        replies.push(t1.ask_with("retrieve", &told, ask).await.ok());
    }
    // Decoded, and then refused: a header, no time at all.
    let long = "x".repeat(129);
    let refused = t1
        .ask_with("retrieve", &[("Rag-Actor", &long)], &asks[0])
        .await;
    assert_eq!(refused.code, 422);
    // Not decoded: no record.
    assert_eq!(
        t1.ask("retrieve", &question("c", json!({ "rerank": 7 })))
            .await
            .code,
        400
    );
    assert_eq!(
        t1.ask("retrieve", &question("C!", json!({}))).await.code,
        422
    );
    let small = Caller::of(&service.nats, "small").await;
    assert_eq!(small.ask("retrieve", &asks[0]).await.code, 0);
    assert_eq!(small.ask("retrieve", &asks[0]).await.code, 429);
    let tracker = sqlite(&service).await;
    let all = so_many(&tracker, "t1", 5).await;
    let mut named = Vec::new();
    for reply in &replies {
        let own = all.iter().find(|record| record.id == id_of(reply));
        let own = own.expect("the reply's record");
        whole(own, reply);
        named.push(own);
    }
    let ends: Vec<TrackedEnd> = named.iter().map(|record| record.end).collect();
    assert_eq!(ends[0], TrackedEnd::Answered(Outcome::Ok));
    assert_eq!(ends[1], TrackedEnd::Answered(Outcome::NoCorpus));
    assert_eq!(ends[2], TrackedEnd::Answered(Outcome::NoRelevantContext));
    assert!(
        named[2]
            .chunks
            .iter()
            .any(|c| c.fate == ChunkFate::BelowMinRelevance)
    );
    let fates: Vec<ChunkFate> = named[3].chunks.iter().map(|c| c.fate).collect();
    let cut = |fate: &ChunkFate| matches!(fate, ChunkFate::Incorrect | ChunkFate::Limit);
    assert!(fates.iter().any(cut), "{fates:?}");
    let failed = all.iter().filter_map(|record| match record.end {
        TrackedEnd::Failed(kind) => Some((kind.name(), record.actor.as_str())),
        TrackedEnd::Answered(_) => None,
    });
    assert_eq!(failed.collect::<Vec<_>>(), [("invalid_field", "")]);
    let small = so_many(&tracker, "small", 2).await;
    let limited = small
        .iter()
        .filter(|r| matches!(r.end, TrackedEnd::Failed(k) if k.code() == 429));
    assert_eq!(limited.count(), 1);
}

/// The record says what the reply says.
fn whole(record: &RetrievalRecord, reply: &Value) {
    assert_eq!(
        (record.actor.as_str(), record.purpose.as_str()),
        ("clerk", "claim")
    );
    assert_eq!(record.request_id, "r-1");
    assert!(record.worker.starts_with("ragbus-"));
    assert_eq!(
        record.query,
        TrackedQuery::Text("which owl hunts at night?".into())
    );
    assert_eq!(record.limit, 2);
    let options: Value = serde_json::from_str(&record.options).expect("JSON");
    assert!(options["corrective"].is_string() && options["rerank"].is_boolean());
    let stages = reply["stages"].as_array().expect("stages");
    let names: Vec<&str> = record.stages.iter().map(|s| s.stage.name()).collect();
    assert_eq!(
        names,
        stages
            .iter()
            .map(|s| s["name"].as_str().expect("a name"))
            .collect::<Vec<_>>()
    );
    for (own, told) in record.stages.iter().zip(stages) {
        assert_eq!(json!(own.model_calls), told["modelCalls"]);
    }
    assert_eq!(
        json!(record.quality.incorrect),
        reply["quality"]["incorrect"]
    );
    assert_eq!(
        json!(record.models.cross_encoder),
        reply["models"]["crossEncoder"]
    );
    let results = reply["results"].as_array().expect("results");
    let returned: Vec<_> = record.returned().collect();
    assert_eq!(returned.len(), results.len());
    for (rank, (own, told)) in (1..).zip(returned.into_iter().zip(results)) {
        assert_eq!(own.rank, rank);
        assert_eq!(json!(own.chunk_id.to_string()), told["chunkId"]);
        assert_eq!(json!(own.content_hash), told["contentHash"]);
        assert_eq!(json!(own.document_id.as_str()), told["documentId"]);
        assert_eq!(
            json!(own.document_sequence.to_string()),
            told["documentSequence"]
        );
        let score = told["relevanceScore"].as_f64().expect("a score");
        assert_eq!(f64::from(own.relevance), score);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hashed_question_is_nowhere_in_the_database() {
    let service = Service::with(|s| {
        s.env("RAGBUS__TRACKING__HASH_QUERIES", "true")
            .env("RAGBUS__TRACKING__HASH_KEY", "a-key-of-our-own")
            .env("RAGBUS__EXPANSION__STRATEGY", "template")
    })
    .await;
    service
        .t1
        .indexed(&put("c", "d", "owls hunt at night"))
        .await;
    let secret = "zyxwquestion about owls";
    for _ in 0..2 {
        let reply = service.t1.retrieve("c", secret).await;
        assert_eq!(reply["outcome"], "OK");
    }
    let tracker = sqlite(&service).await;
    let all = so_many(&tracker, "t1", 2).await;
    assert!(all[0].query.is_hash() && all[0].queries.is_empty());
    assert_eq!(all[0].query, all[1].query, "recognised again");
    let data = service.dir.path().join("data");
    for file in ["ragbus.db", "ragbus.db-wal"] {
        let bytes = std::fs::read(data.join(file)).unwrap_or_default();
        let found = bytes
            .windows(12)
            .any(|w| w.eq_ignore_ascii_case(b"zyxwquestion"));
        assert!(!found, "the question is in {file}");
    }
    assert!(!service.worker.log().contains("zyxwquestion"));
    assert!(!service.worker.log().contains("a-key-of-our-own"));
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_goes_to_the_dead_letters_and_holds_up_nobody() {
    let service = Service::start().await;
    let client = service.nats.client().await;
    let jetstream = async_nats::jetstream::new(client.clone());
    let publish = async |subject: &'static str, body: Vec<u8>| {
        let sent = jetstream.publish(subject, body.into()).await;
        sent.expect("sent").await.expect("stored");
    };
    publish("rag.tracking.t1", b"no protobuf \xff\xff".to_vec()).await;
    publish("rag.tracking.t1", Vec::new()).await;
    publish("rag.tracking.T1", b"x".to_vec()).await;
    // A true event of t1, sent again on t2's subject: a forged tenant has no effect, on either.
    let mut heard = client.subscribe("rag.tracking.t1").await.expect("heard");
    service.t1.retrieve("c", "owls").await;
    let event = futures::StreamExt::next(&mut heard)
        .await
        .expect("an event");
    publish("rag.tracking.t2", event.payload.to_vec()).await;
    let tracker = sqlite(&service).await;
    let own = so_many(&tracker, "t1", 1).await;
    let letters = eventually("the dead letters", PATIENCE, || async {
        let letters = service.nats.messages("RAG_DLQ").await;
        (letters.len() == 4).then_some(letters)
    })
    .await;
    let mut subjects: Vec<_> = letters.iter().map(|l| l.subject.to_string()).collect();
    subjects.sort();
    assert_eq!(
        subjects,
        ["rag.dlq._invalid", "rag.dlq.t1", "rag.dlq.t1", "rag.dlq.t2"]
    );
    for letter in &letters {
        let stream = letter.headers.get("Rag-Dead-Stream").expect("told");
        assert_eq!(stream.as_str(), "RAG_TRACKING");
    }
    assert!(records(&tracker, "t2").await.is_empty());
    assert_eq!(records(&tracker, "t1").await, own);
    assert_eq!(service.nats.waiting("RAG_TRACKING").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tracking_nothing_is_recorded_and_replies_are_the_same() {
    let service = Service::with(|s| s.env("RAGBUS__TRACKING__ENABLED", "false")).await;
    let reply = service.t1.retrieve("c", "owls").await;
    id_of(&reply);
    assert!(!service.worker.log().contains("tracking > hybrid"));
    assert_eq!(service.nats.waiting("RAG_TRACKING").await, 0);
    let tracker = sqlite(&service).await;
    assert!(records(&tracker, "t1").await.is_empty());
}
