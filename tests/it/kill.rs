//! `kill -9` in the middle of work: in the end everything is as if nothing had happened.

use ragbus::ingest::chunk_id;
use ragbus::model::{CorpusName, CorpusRef, DocumentId, TenantId};
use serde_json::Value;

use crate::harness::*;

const DOCUMENTS: usize = 200;

fn contents(i: usize) -> Vec<String> {
    (0..=i % 3)
        .map(|c| format!("document {i}, chunk {c}"))
        .collect()
}

/// What a document's chunk ids must be, whatever happened on the way.
fn ids(document: &str, chunks: usize) -> Vec<String> {
    let tenant = TenantId::mint("t1").expect("valid");
    let corpus = CorpusRef::new(tenant, CorpusName::new("c").expect("valid"));
    let document = DocumentId::new(document).expect("valid");
    (0..chunks as u32)
        .map(|i| chunk_id(&corpus, &document, i).to_string())
        .collect()
}

fn worker(nats: &Nats, dir: &std::path::Path) -> WorkerSetup {
    // Few jobs at once: each that is in work at a kill comes back after 30 s.
    WorkerSetup::new(&nats.url(), dir).env("RAGBUS__WORKER__INGEST_CONCURRENCY", "2")
}

async fn results(nats: &Nats, at_least: u64) {
    let what = format!("{at_least} results");
    eventually(&what, PATIENCE, || async {
        (nats.waiting("RAG_RESULT").await >= at_least).then_some(())
    })
    .await;
}

async fn check(t1: &Caller) {
    let corpora = t1.corpora().await;
    let chunks: usize = (0..DOCUMENTS).map(|i| contents(i).len()).sum();
    assert_eq!(corpora[0]["documents"], DOCUMENTS);
    assert_eq!(corpora[0]["chunks"], chunks);
    for i in 0..DOCUMENTS {
        let id = format!("d{i}");
        let document = t1.document("c", &id).await.expect("there");
        let stored = document["chunks"].as_array().expect("a list");
        let field = |name: &str| -> Vec<&Value> { stored.iter().map(|c| &c[name]).collect() };
        assert_eq!(
            field("content"),
            contents(i).iter().collect::<Vec<_>>(),
            "{id}"
        );
        assert_eq!(
            field("chunkId"),
            ids(&id, stored.len()).iter().collect::<Vec<_>>(),
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_kills_in_the_middle_of_200_documents_leave_no_trace() {
    let nats = Nats::start().await;
    let dir = tempfile::tempdir().expect("a folder");
    let t1 = Caller::of(&nats, "t1").await;
    let first = worker(&nats, dir.path()).arg("--setup").start().await;
    let mut jobs = Vec::new();
    for i in 0..DOCUMENTS {
        jobs.push(
            t1.publish(&put_chunks("c", &format!("d{i}"), &contents(i)))
                .await
                .0,
        );
    }
    results(&nats, 40).await;
    first.kill();
    assert!(
        nats.waiting("RAG_RESULT").await < DOCUMENTS as u64,
        "in the middle"
    );
    let second = worker(&nats, dir.path()).start().await;
    results(&nats, 100).await;
    second.kill();
    assert!(
        nats.waiting("RAG_RESULT").await < DOCUMENTS as u64,
        "in the middle"
    );
    let third = worker(&nats, dir.path()).start().await;
    for job in &jobs {
        assert_eq!(t1.result_within(job, REDELIVERY).await["status"], "INDEXED");
    }
    eventually("every job is acknowledged", REDELIVERY, || async {
        (nats.waiting("RAG_INGEST").await == 0).then_some(())
    })
    .await;
    check(&t1).await;
    assert_eq!(nats.waiting("RAG_DLQ").await, 0);
    // And once more from the disk alone.
    third.kill();
    let _fourth = worker(&nats, dir.path()).start().await;
    check(&t1).await;
}
