//! S3: everything works under the rights of `deploy/nats/permissions.conf`, and nothing beyond it does.

use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::{Client, Request};
use futures::StreamExt;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::harness::*;

/// A call refused by permissions is only silence; so long is enough on a local server.
const SILENCE: Duration = Duration::from_secs(1);
const PASSWORDS: [(&str, &str); 3] = [
    ("RAGBUS_ADMIN_PASSWORD", "admin-secret"),
    ("RAGBUS_WORKER_PASSWORD", "worker-secret"),
    ("RAGBUS_TENANT_T1_PASSWORD", "tenant-secret"),
];

async fn server(dir: &Path) -> Nats {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rights = root.join("deploy/nats/permissions.conf");
    std::fs::copy(&rights, dir.join("permissions.conf")).expect("copied");
    let file = dir.join("nats.conf");
    std::fs::write(&file, "include \"permissions.conf\"\n").expect("written");
    Nats::configured(&file, &PASSWORDS, ("admin", "admin-secret")).await
}

async fn stored(admin: &Context, subject: &str) {
    let sent = admin.publish(subject.to_owned(), "{}".into()).await;
    sent.expect("sent").await.expect("stored");
}

/// None of these is answered.
async fn silent(client: &Client, subjects: &[&str]) {
    let calls = subjects.iter().map(|subject| async move {
        let request = Request::new().payload("{}".into()).timeout(Some(SILENCE));
        let reply = client.send_request((*subject).to_owned(), request).await;
        assert!(reply.is_err(), "{subject}: {reply:?}");
    });
    futures::future::join_all(calls).await;
}

/// Dead letters can be written, and operators find workers.
async fn beside_the_main_path(nats: &Nats, t1: &Caller) {
    let bad = t1.ingest(&put("c", "bad\u{1}id", "x")).await;
    assert_eq!(bad["status"], "FAILED", "dead letters can be written");
    assert_eq!(nats.waiting("RAG_DLQ").await, 1);
    let operator = nats.operator().await;
    let found = operator
        .request("$SRV.PING.ragbus", "".into())
        .await
        .expect("operators find workers");
    assert!(!found.payload.is_empty());
}

/// The operator makes the bucket, the tenant fills it, the worker reads it.
async fn a_large_body(nats: &Nats, t1: &Caller, data: &Path) {
    let made = ragbus(&nats.url(), data)
        .args(["setup", "--tenant", "t1"])
        .output()
        .expect("runs");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let bucket = t1.jetstream.get_object_store("RAG_BLOB_t1").await;
    let bucket = bucket.expect("the tenant's bucket");
    let body = b"a body of its own";
    bucket.put("body", &mut &body[..]).await.expect("put");
    let blob = json!({
        "bucket": "RAG_BLOB_t1", "name": "body", "size": body.len(),
        "sha256": Sha256::digest(body).iter().map(|b| format!("{b:02x}")).collect::<String>()
    });
    let job = json!({ "corpus": "c", "putDocument": { "documentId": "large", "blob": blob } });
    assert_eq!(t1.ingest(&job).await["status"], "INDEXED");
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_setup_worker_and_tenant_work_under_the_shipped_permissions() {
    let dir = tempfile::tempdir().expect("a folder");
    let nats = server(dir.path()).await;
    nats.set_up(&dir.path().join("data"));
    let worker = WorkerSetup::new(&nats.url_of("worker", "worker-secret"), dir.path())
        .env(
            "RAGBUS__NATS__REPLY_PREFIXES",
            "_INBOX.{tenant}.,_INBOX_OPS.,_R_.",
        )
        .start()
        .await;
    let t1 = Caller::connected(nats.user("t1", "tenant-secret"), &nats.address(), "t1").await;
    let mut results = t1.listen("rag.result.t1.*").await;
    let (job, _) = t1.publish(&put("c", "d", "rights are explicit")).await;
    assert_eq!(t1.result(&job).await["status"], "INDEXED", "by direct get");
    let pushed = tokio::time::timeout(PATIENCE, results.next())
        .await
        .expect("in time");
    assert_eq!(
        pushed.expect("a result").subject.as_str(),
        format!("rag.result.t1.{job}")
    );
    let reply = t1.retrieve("c", "rights").await;
    assert_eq!(reply["outcome"], "OK");
    let judgement =
        json!({ "retrievalId": reply["retrievalId"], "documentId": "d", "outcome": "RELEVANT" });
    t1.ask("feedback", &judgement).await.ok();
    let question = json!({ "getJob": { "jobId": job } });
    assert_eq!(
        t1.ask("catalog", &question).await.ok()["job"]["status"],
        "INDEXED"
    );
    let question = json!({ "corpus": "c", "latencies": {} });
    assert_eq!(
        t1.ask("stats", &question).await.code,
        0,
        "its own statistics"
    );
    a_large_body(&nats, &t1, &dir.path().join("data")).await;
    beside_the_main_path(&nats, &t1).await;
    assert_eq!(worker.readiness().await.0, 200);
    assert!(
        !worker.log().contains("worker-secret"),
        "a password in the log"
    );
    assert!(
        !worker.log().contains("ermissions"),
        "the worker was refused something"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_the_workers_rights_reach_no_stream_and_no_job() {
    let dir = tempfile::tempdir().expect("a folder");
    let nats = server(dir.path()).await;
    nats.set_up(&dir.path().join("data"));
    let worker = nats
        .user("worker", "worker-secret")
        .custom_inbox_prefix("_INBOX_W");
    let worker = worker.connect(nats.address()).await.expect("connects");
    let forbidden = [
        "rag.ingest.x",
        "$JS.API.STREAM.DELETE.RAG_INGEST",
        "$JS.API.STREAM.PURGE.RAG_INGEST",
        "$JS.API.STREAM.CREATE.X",
        "rag.schedule.retention",
        "$JS.API.STREAM.UPDATE.RAG_INGEST",
        "$JS.API.CONSUMER.DELETE.RAG_INGEST.ingest-00",
        "$JS.API.STREAM.MSG.DELETE.RAG_DLQ",
        "$JS.API.STREAM.PURGE.RAG_TRACKING",
    ];
    silent(&worker, &forbidden).await;
    let ingest = nats
        .jetstream()
        .await
        .get_stream("RAG_INGEST")
        .await
        .expect("there");
    assert_eq!(ingest.cached_info().state.last_sequence, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_a_tenant_reaches_only_its_own_subjects_and_results() {
    let dir = tempfile::tempdir().expect("a folder");
    let nats = server(dir.path()).await;
    nats.set_up(&dir.path().join("data"));
    let admin = nats.jetstream().await;
    for tenant in ["t1", "t2"] {
        let subject = format!("rag.result.{tenant}.job");
        stored(&admin, &subject).await;
    }
    let heard = nats.client().await;
    let mut heard = heard.subscribe("rag.*.t2").await.expect("subscribed");
    let t1 = Caller::connected(nats.user("t1", "tenant-secret"), &nats.address(), "t1").await;
    assert!(t1.result_message("job").await.is_some());
    let forbidden = [
        "$JS.API.DIRECT.GET.RAG_RESULT.rag.result.t2.job",
        "$JS.API.DIRECT.GET.RAG_RESULT",
        "$JS.API.STREAM.INFO.RAG_INGEST",
        "rag.retrieve.t2",
        "rag.stats.t2",
        "rag.admin.audit",
        "rag.ingest.t2",
        "rag.retrieve.*",
        "rag.ingest.*",
        "rag.ingest.>",
        "rag.dlq.t1",
        "rag.retention.tick",
        "rag.schedule.retention",
        "rag.admin.purge",
        "rag.admin.forget",
        "rag.result.t1.job",
        "rag.feedback.t2",
        "rag.tracking.t1",
        "$JS.API.CONSUMER.MSG.NEXT.RAG_TRACKING.tracker",
    ];
    silent(&t1.client, &forbidden).await;
    assert!(
        tokio::time::timeout(SILENCE, heard.next()).await.is_err(),
        "t2 heard of it"
    );
    let mut foreign = t1.listen("rag.result.t2.>").await;
    stored(&admin, "rag.result.t2.other").await;
    let heard = tokio::time::timeout(SILENCE, foreign.next()).await;
    assert!(!matches!(heard, Ok(Some(_))), "t2's result");
}
