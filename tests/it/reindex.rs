//! A model change: corpora of the old model are served and written, rebuilt, switched, and the old generation goes.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::harness::*;

const OLD: &str = "minilm-l6-v2";
const NEW: &str = "minilm-l6-v2-int8";

fn of_new_models(setup: WorkerSetup) -> WorkerSetup {
    setup
        .env("RAGBUS__MODELS__DENSE", NEW)
        .env("RAGBUS__RETRIEVAL__MAX_TIMEOUT_MS", "1000")
        .env("RAGBUS__RETRIEVAL__DEFAULT_TIMEOUT_MS", "1000")
}

fn of_both(setup: WorkerSetup) -> WorkerSetup {
    of_new_models(setup).env("RAGBUS__MODELS__PREVIOUS", OLD)
}

/// `ragbus reindex` of t1's corpus: exit code and answer.
async fn reindex(nats: &Nats, corpus: &str, more: &[&str]) -> (i32, Value) {
    let mut command = ragbus(&nats.url(), std::path::Path::new("unused"));
    command.args(["reindex", "--tenant", "t1", "--corpus", corpus, "--json"]);
    command.args(more);
    let ran = tokio::task::spawn_blocking(move || command.output().expect("runs"));
    let out = ran.await.expect("no panic");
    let said = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| {
        panic!("{}", String::from_utf8_lossy(&out.stderr));
    });
    (out.status.code().unwrap_or(-1), said)
}

async fn state(nats: &Nats, corpus: &str) -> Value {
    reindex(nats, corpus, &["--status"]).await.1
}

async fn is_done(nats: &Nats, corpus: &str) {
    eventually("the old generation is gone", PATIENCE, || async {
        (state(nats, corpus).await["state"] == "DONE").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_changed_while_the_corpus_is_used() {
    let nats = Nats::start().await;
    let dir = tempfile::tempdir().expect("a folder");
    let setup = || WorkerSetup::new(&nats.url(), dir.path()).arg("--setup");
    let t1 = Caller::of(&nats, "t1").await;
    let texts = ["The owl hunts.", "The badger digs.", "The heron waits."];
    let worker = setup().start().await;
    for (number, text) in texts.iter().enumerate() {
        t1.indexed(&put("c", &format!("d{number}"), text)).await;
    }
    assert_eq!(state(&nats, "c").await["state"], "CURRENT");
    worker.kill();
    refused_without_the_old_model(&nats, of_new_models(setup())).await;

    let worker = of_both(setup()).start().await;
    assert_eq!(state(&nats, "c").await["state"], "OUTDATED");
    let before = t1.retrieve("c", "who hunts?").await;
    assert_eq!(before["models"]["dense"], OLD);
    let same = t1.ingest(&put("c", "d1", texts[1])).await;
    assert_eq!(same["status"], "UNCHANGED", "{same}");
    t1.indexed(&put("c", "d3", "The otter swims.")).await;
    t1.indexed(&put("new", "d", "A corpus of the new model."))
        .await;
    assert_eq!(t1.retrieve("new", "model").await["models"]["dense"], NEW);

    let (code, done) = reindex(&nats, "c", &[]).await;
    assert_eq!(code, 0, "{done}");
    assert!(matches!(done["state"].as_str(), Some("SWITCHED" | "DONE")));
    assert_eq!(
        (&done["denseModel"], &done["generation"]),
        (&json!(NEW), &json!(2))
    );
    let after = t1.retrieve("c", "who hunts?").await;
    assert_eq!(after["models"]["dense"], NEW);
    assert_eq!(after["results"].as_array().map(Vec::len), Some(4));
    assert_eq!(after["results"][0]["documentId"], "d0");
    t1.ingest(&json!({ "corpus": "c", "deleteDocument": { "documentId": "d0" } }))
        .await;
    let next = t1.indexed(&put("c", "d1", "The badger sleeps.")).await;
    assert_eq!(next["chunksDeleted"], 0);
    is_done(&nats, "c").await;
    let found = t1.retrieve("c", "who digs or sleeps?").await;
    assert_eq!(found["results"].as_array().map(Vec::len), Some(3));
    assert_eq!(t1.contents("c", "d1").await, ["The badger sleeps."]);
    let (_, again) = reindex(&nats, "c", &[]).await;
    assert_eq!(
        (&again["state"], &again["generation"]),
        (&json!("DONE"), &json!(2))
    );
    drop(worker);
    let _worker = of_new_models(setup()).start().await;
    assert_eq!(
        t1.retrieve("c", "owl").await["outcome"],
        "OK",
        "no old model is needed"
    );
}

/// A worker without the old model serves nothing of the corpus, and says what to do.
async fn refused_without_the_old_model(nats: &Nats, setup: WorkerSetup) {
    let worker = setup.start().await;
    let t1 = Caller::of(nats, "t1").await;
    let refused = t1
        .ask("retrieve", &json!({ "corpus": "c", "query": "who hunts?" }))
        .await;
    assert_eq!(refused.code, 409);
    let failed = t1.ingest(&put("c", "d9", "A new text.")).await;
    assert_eq!(failed["status"], "FAILED", "{failed}");
    assert_eq!(failed["error"]["kind"], "schema_conflict");
    let message = failed["error"]["message"].as_str().expect("a message");
    assert!(message.contains(OLD) && message.contains(NEW) && message.contains("models.previous"));
    worker.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_outlives_its_worker_and_can_be_called_off() {
    const DOCUMENTS: usize = 150;
    let cluster = Cluster::start().await;
    let t1 = Caller::of(&cluster.nats, "t1").await;
    let worker = cluster.worker("old").start().await;
    let mut jobs = Vec::new();
    for number in 0..DOCUMENTS {
        let text = format!("Owl number {number} hunts at night.");
        jobs.push(t1.publish(&put("c", &format!("d{number}"), &text)).await.0);
    }
    for job in &jobs {
        assert_eq!(t1.result(job).await["status"], "INDEXED");
    }
    worker.kill();
    let worker = of_both(cluster.worker("w0")).start().await;
    reindex(&cluster.nats, "c", &["--no-wait"]).await;
    let halfway = eventually("half of it is built", PATIENCE, || async {
        let now = state(&cluster.nats, "c").await;
        let built: usize = now["built"].as_str().and_then(|b| b.parse().ok())?;
        (built > 0).then_some(now)
    })
    .await;
    worker.kill();
    assert_eq!(halfway["documents"], DOCUMENTS.to_string());
    let _worker = of_both(cluster.worker("w1")).start().await;
    let deleted = json!({ "corpus": "c", "deleteDocument": { "documentId": "d0" } });
    t1.ingest(&deleted).await;
    t1.indexed(&put("c", "d1", "An otter swims.")).await;
    assert_eq!(t1.retrieve("c", "owl").await["outcome"], "OK");
    let (code, done) = reindex(&cluster.nats, "c", &[]).await;
    assert_eq!(code, 0, "{done}");
    is_done(&cluster.nats, "c").await;
    assert_eq!(t1.retrieve("c", "owl").await["models"]["dense"], NEW);
    assert!(t1.contents("c", "d0").await.is_empty());
    assert_eq!(t1.contents("c", "d1").await, ["An otter swims."]);
    let check = cluster.verify("t1", "c");
    assert_eq!(
        (&check["clean"], &check["documents"]),
        (&json!(true), &json!("149")),
        "{check}"
    );

    // Back to the old model, and then not.
    let _old = cluster
        .worker("w2")
        .env("RAGBUS__MODELS__PREVIOUS", NEW)
        .start()
        .await;
    drop(_worker);
    reindex(&cluster.nats, "c", &["--no-wait"]).await;
    let (code, called_off) = reindex(&cluster.nats, "c", &["--cancel"]).await;
    assert_eq!(code, 0);
    // It may have been done before it was called off; one of the two it is.
    let served = match called_off["state"].as_str() {
        Some("CANCELLED") => NEW,
        Some("SWITCHED" | "DONE") => OLD,
        _ => panic!("{called_off}"),
    };
    assert_eq!(t1.retrieve("c", "owl").await["models"]["dense"], served);
    assert_eq!(cluster.verify("t1", "c")["clean"], true);
}
