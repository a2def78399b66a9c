//! The Qdrant server goes away in the middle of ingest and of retrieval, and comes back with its data.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::cluster::Cluster;
use crate::harness::*;

const DOCUMENTS: usize = 60;
const BUDGET: (&str, &str) = ("Rag-Timeout-Ms", "2000");
/// The budget, and what a busy machine may need to tell.
const IN_TIME: Duration = Duration::from_secs(4);

/// Asks until told to stop: the code and the time of each answer.
async fn asking(
    nats: String,
    mut stop: tokio::sync::oneshot::Receiver<()>,
) -> Vec<(u16, Duration)> {
    let caller = Caller::connected(Default::default(), &nats, "t1").await;
    let question = json!({ "corpus": "c", "query": "owl" });
    let mut answers = Vec::new();
    loop {
        let started = Instant::now();
        let answer = caller.ask_with("retrieve", &[BUDGET], &question).await;
        answers.push((answer.code, started.elapsed()));
        if stop.try_recv().is_ok() {
            return answers;
        }
    }
}

/// Publishes documents of two chunks, and waits until a few of them are done.
async fn begun(nats: &Nats, t1: &Caller) -> Vec<String> {
    let mut jobs = Vec::new();
    for number in 0..DOCUMENTS {
        let texts = [format!("owl {number}"), format!("badger {number}")];
        let job = put_chunks("c", &format!("d{number}"), &texts);
        jobs.push(t1.publish(&job).await.0);
    }
    eventually("a few results", PATIENCE, || async {
        (nats.waiting("RAG_RESULT").await >= 10).then_some(())
    })
    .await;
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_store_is_waited_for_and_got_over() {
    let cluster = Cluster::start().await;
    let nats = &cluster.nats;
    let setup = cluster.worker("w");
    let setup = setup.env("RAGBUS__WORKER__INGEST_CONCURRENCY", "2");
    let worker = setup.start().await;
    let t1 = Caller::of(nats, "t1").await;
    t1.indexed(&put("c", "before", "The owl hunts.")).await;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let asking = tokio::spawn(asking(nats.address(), stopped));
    let jobs = begun(nats, &t1).await;
    tokio::task::block_in_place(|| cluster.qdrant.kill());
    worker.says("pulling pauses").await;
    let question = json!({ "corpus": "c", "query": "owl" });
    let refused = t1.ask_with("retrieve", &[BUDGET], &question).await;
    assert!(matches!(refused.code, 502 | 504), "{}", refused.code);
    let done = nats.waiting("RAG_RESULT").await;
    assert!(done < DOCUMENTS as u64, "in the middle: {done}");
    tokio::task::block_in_place(|| cluster.qdrant.restart());
    eventually("retrieval answers again", PATIENCE, || async {
        let answer = t1.ask_with("retrieve", &[BUDGET], &question).await;
        (answer.code == 0).then_some(())
    })
    .await;
    for job in &jobs {
        let result = t1.result_within(job, REDELIVERY).await;
        assert_eq!(result["status"], "INDEXED", "{result}");
    }
    stop.send(()).expect("still asking");
    for (code, time) in asking.await.expect("answered") {
        assert!(matches!(code, 0 | 502 | 504), "{code}");
        assert!(time < IN_TIME, "{code} after {time:?}");
    }
    assert_eq!(nats.waiting("RAG_DLQ").await, 0);
    let check = cluster.verify("t1", "c");
    assert_eq!(check["clean"], true, "{check}");
    assert_eq!(check["documents"], (DOCUMENTS + 1).to_string());
}
