//! The process dies between every two steps of a replacement; a restart brings the exact end.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::*;

const STEPS: [&str; 6] = [
    "begun",
    "embedded",
    "stored",
    "committed",
    "cleaned",
    "published",
];

fn contents(version: &str, chunks: usize) -> Vec<String> {
    (0..chunks)
        .map(|i| format!("{version} version, chunk {i}"))
        .collect()
}

/// The chunks that retrieval finds, by ordinal.
async fn found(t1: &Caller) -> Vec<(u64, String)> {
    let request = json!({ "corpus": "c", "query": "version chunk", "limit": 100 });
    let reply = t1.ask("retrieve", &request).await.ok();
    let chunk = |c: &Value| {
        let content = c["content"].as_str().expect("text").to_owned();
        (c["ordinal"].as_u64().expect("a number"), content)
    };
    let mut chunks: Vec<_> = reply["results"]
        .as_array()
        .expect("a list")
        .iter()
        .map(chunk)
        .collect();
    chunks.sort();
    chunks
}

/// In between, readers find every chunk's place held by the old or the new version, never by neither.
async fn old_or_new(t1: &Caller, step: &str) {
    let seen = found(t1).await;
    let (old, new) = (contents("old", 10), contents("new", 3));
    for (ordinal, content) in &seen {
        let ordinal = *ordinal as usize;
        let known = old.get(ordinal) == Some(content) || new.get(ordinal) == Some(content);
        assert!(known, "{step}: {content}");
    }
    let places: Vec<u64> = seen.iter().map(|(ordinal, _)| *ordinal).collect();
    assert!(places.starts_with(&[0, 1, 2]), "{step}: {places:?}");
    assert!(matches!(places.len(), 3 | 10), "{step}: {places:?}");
}

async fn dies_at(nats: &Nats, dir: &Path, step: &str) -> String {
    let abort = format!("{step}:1");
    let setup = WorkerSetup::new(&nats.url(), dir).env("RAGBUS_TEST_ABORT_AT", &abort);
    let mut worker = setup.start().await;
    let t1 = Caller::of(nats, "t1").await;
    let (job, _) = t1.publish(&put_chunks("c", "d", &contents("new", 3))).await;
    let status = worker.ended(PATIENCE).await;
    assert_eq!(status.code(), None, "{step}: killed by a signal");
    job
}

async fn survives(step: &str) {
    let nats = Nats::start().await;
    let dir = tempfile::tempdir().expect("a folder");
    let t1 = Caller::of(&nats, "t1").await;
    let first = WorkerSetup::new(&nats.url(), dir.path())
        .arg("--setup")
        .start()
        .await;
    assert_eq!(
        t1.ingest(&put_chunks("c", "d", &contents("old", 10))).await["chunks"],
        10
    );
    first.kill();
    let job = dies_at(&nats, dir.path(), step).await;
    let _worker = WorkerSetup::new(&nats.url(), dir.path()).start().await;
    old_or_new(&t1, step).await;
    // The result may be there before the crash: the end is when the job is acknowledged.
    eventually("the job is acknowledged", REDELIVERY, || async {
        (nats.waiting("RAG_INGEST").await == 0).then_some(())
    })
    .await;
    let result = t1.result(&job).await;
    assert_eq!(result["status"], "INDEXED", "{step}: {result}");
    assert_eq!(
        (&result["chunks"], &result["sequence"]),
        (&json!(3), &json!("2")),
        "{step}"
    );
    assert_eq!(t1.contents("c", "d").await, contents("new", 3), "{step}");
    let seen: Vec<String> = found(&t1)
        .await
        .into_iter()
        .map(|(_, content)| content)
        .collect();
    assert_eq!(seen, contents("new", 3), "{step}: no leftovers");
    let corpora = t1.corpora().await;
    assert_eq!(corpora[0]["chunks"], 3, "{step}");
    assert_eq!(nats.waiting("RAG_DLQ").await, 0, "{step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abort_at_each_step_of_a_replacement_ends_in_the_new_version() {
    // All at once: nearly all of the time is the server's patience (30 s).
    futures::future::join_all(STEPS.map(survives)).await;
}
