//! S4: stream deduplication is shared by all tenants, so ids are unguessable and the worker's own idempotency doesn't
//! rest on them.

use serde_json::json;

use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn s4_a_taken_message_id_is_seen_and_a_new_one_works() {
    let service = Service::start().await;
    let t2 = Caller::of(&service.nats, "t2").await;
    let id = name();
    let job = put("c", "d", "the same id").to_string();
    let sent = |request: &str| headers(&[JSON, ("Nats-Msg-Id", &id), ("Rag-Request-Id", request)]);
    let first = service
        .t1
        .publish_raw(sent("a"), job.clone())
        .await
        .expect("stored");
    assert!(!first.duplicate);
    let second = t2
        .publish_raw(sent("b"), job.clone())
        .await
        .expect("answered");
    assert!(second.duplicate, "the server drops it, and says so");
    assert_eq!(service.t1.result("a").await["status"], "INDEXED");
    assert!(t2.result_message("b").await.is_none());
    assert!(
        t2.document("c", "d").await.is_none(),
        "nothing of t1 is t2's"
    );
    let result = t2.ingest(&put("c", "d", "the same id")).await;
    assert_eq!(result["status"], "INDEXED", "a new id works");
    assert_eq!(t2.contents("c", "d").await, ["the same id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_idempotency_is_per_tenant_and_job() {
    let service = Service::start().await;
    let t2 = Caller::of(&service.nats, "t2").await;
    // The same job id of two tenants: two jobs, two results.
    for (caller, text) in [(&service.t1, "text of one"), (&t2, "text of two")] {
        let sent = headers(&[JSON, ("Nats-Msg-Id", &name()), ("Rag-Request-Id", "job")]);
        caller
            .publish_raw(sent, put("c", "d", text).to_string())
            .await
            .expect("stored");
        assert_eq!(caller.result("job").await["status"], "INDEXED");
        assert_eq!(caller.contents("c", "d").await, [text]);
    }
    // A resend that the stream no longer knows (another message id) is carried out again, and changes nothing.
    let before = service.t1.document("c", "d").await.expect("there");
    let again = service.t1.ingest(&put("c", "d", "text of one")).await;
    assert_eq!(again["status"], "UNCHANGED");
    assert_eq!(again["chunks"], 1);
    let after = service.t1.document("c", "d").await.expect("there");
    assert_eq!(before["chunks"], after["chunks"]);
    let job = service
        .t1
        .ask("catalog", &json!({ "getJob": { "jobId": "job" } }))
        .await
        .ok();
    assert_eq!(job["job"]["status"], "INDEXED");
}
