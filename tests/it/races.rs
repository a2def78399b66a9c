//! Jobs for one document or corpus at once, in any order: the highest sequence wins, always.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::*;

/// A small generator, so that a seed tells the whole schedule.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn contents(version: u64, chunks: u64) -> Vec<String> {
    (0..chunks)
        .map(|i| format!("version {version}, chunk {i}"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_20_copies_at_once_the_highest_sequence_wins() {
    let service = Service::start().await;
    let t1 = &service.t1;
    // More chunks than any copy has: what a copy doesn't overwrite must go.
    let before = t1.ingest(&put_chunks("c", "d", &contents(99, 8))).await;
    assert_eq!(before["chunks"], 8);
    let publish = (0..20u64).map(|version| async move {
        let texts = contents(version, version % 5 + 1);
        let (job, sequence) = t1.publish(&put_chunks("c", "d", &texts)).await;
        (sequence, job, texts)
    });
    let mut published = futures::future::join_all(publish).await;
    published.sort();
    for (_, job, _) in &published {
        let result = t1.result(job).await;
        assert!(
            result["status"] == "INDEXED" || result["status"] == "SUPERSEDED",
            "{result}"
        );
    }
    let (sequence, job, texts) = published.last().expect("twenty");
    assert_eq!(
        t1.result(job).await["status"],
        "INDEXED",
        "the highest is never superseded"
    );
    let document = t1.document("c", "d").await.expect("there");
    assert_eq!(document["sequence"], sequence.to_string());
    assert_eq!(&t1.contents("c", "d").await, texts);
    let found = t1
        .ask(
            "retrieve",
            &json!({ "corpus": "c", "query": "chunk", "limit": 100 }),
        )
        .await
        .ok();
    assert_eq!(
        found["results"].as_array().map(Vec::len),
        Some(texts.len()),
        "no leftovers"
    );
}

/// A random job over three documents, carried out on the expected state too.
fn random_job(
    random: &mut Random,
    version: u64,
    state: &mut BTreeMap<String, Vec<String>>,
) -> Value {
    let document = format!("d{}", random.below(3));
    match random.below(8) {
        0 => {
            state.clear();
            json!({ "corpus": "c", "deleteCorpus": {} })
        }
        1 | 2 => {
            state.remove(&document);
            json!({ "corpus": "c", "deleteDocument": { "documentId": document } })
        }
        _ => {
            let texts = contents(version, random.below(5));
            let job = put_chunks("c", &document, &texts);
            state.insert(document, texts);
            job
        }
    }
}

async fn schedule(t1: &Caller, seed: u64) {
    let (mut random, mut state, mut jobs) = (Random(seed), BTreeMap::new(), Vec::new());
    for version in 0..40 {
        let job = random_job(&mut random, version, &mut state);
        jobs.push(t1.publish(&job).await.0);
    }
    for job in &jobs {
        let result = t1.result(job).await;
        assert_ne!(result["status"], "FAILED", "seed {seed}: {result}");
    }
    for document in ["d0", "d1", "d2"] {
        let expected = state.get(document);
        let found = t1.document("c", document).await;
        assert_eq!(
            found.is_some(),
            expected.is_some(),
            "seed {seed}: {document}: {found:?}"
        );
        assert_eq!(
            &t1.contents("c", document).await,
            expected.unwrap_or(&Vec::new()),
            "seed {seed}"
        );
    }
    let request = json!({ "corpus": "c", "query": "version chunk", "limit": 100 });
    let found = t1.ask("retrieve", &request).await.ok();
    let chunks: usize = state.values().map(Vec::len).sum();
    assert_eq!(
        found["results"].as_array().map(Vec::len),
        Some(chunks),
        "seed {seed}: no leftovers"
    );
    assert_eq!(
        t1.ingest(&json!({ "corpus": "c", "deleteCorpus": {} }))
            .await["status"],
        "DELETED"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn random_puts_and_deletes_end_as_the_highest_sequences_say() {
    let service = Service::start().await;
    // Tenants beside each other: each schedule has the worker's other jobs for company.
    let schedules = (1..=6u64).map(|seed| {
        let nats = &service.nats;
        async move {
            let caller = Caller::of(nats, &format!("t{seed}")).await;
            schedule(&caller, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).await;
            schedule(&caller, seed.wrapping_mul(0xd134_2543_de82_ef95)).await;
        }
    });
    futures::future::join_all(schedules).await;
    assert_eq!(service.nats.waiting("RAG_DLQ").await, 0);
}
