//! S2: an address chosen by a caller is used only under an allowed prefix.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;

use crate::harness::*;

const ATTACKS: [&str; 5] = [
    "$JS.API.STREAM.DELETE.RAG_INGEST",
    "$JS.API.STREAM.PURGE.RAG_INGEST",
    "$JS.API.STREAM.DELETE.RAG_RESULT",
    "rag.ingest.t2",
    "rag.dlq.t2",
];
/// A silence this long counts as no reply.
const SILENCE: Duration = Duration::from_secs(1);

/// Everything a worker answers; each with a body that makes it answer with an error, and with success.
fn subjects() -> Vec<(&'static str, String)> {
    let retrieve = json!({ "corpus": "c", "query": "q" }).to_string();
    let catalog = json!({ "getInfo": {} }).to_string();
    vec![
        ("rag.retrieve.t1", retrieve),
        ("rag.retrieve.t1", "{".to_owned()),
        ("rag.retrieve.*", String::new()),
        ("rag.catalog.t1", catalog),
        ("rag.catalog.t1", String::new()),
        ("$SRV.PING", String::new()),
        ("$SRV.INFO.ragbus", String::new()),
        ("$SRV.STATS", String::new()),
    ]
}

/// Exactly so many replies were refused.
async fn counted(worker: &Worker, attempts: f64) {
    const REFUSED: &str = "ragbus_replies_refused_total";
    eventually("every attempt is counted", PATIENCE, || async {
        (worker.metric(REFUSED).await >= attempts).then_some(())
    })
    .await;
    assert_eq!(worker.metric(REFUSED).await, attempts);
}

async fn nothing_happened(service: &Service) {
    let ingest = service.t1.jetstream.get_stream("RAG_INGEST").await;
    let ingest = ingest.expect("still there");
    let last = ingest.cached_info().state.last_sequence;
    assert_eq!(last, 1, "nothing was injected");
    let results = service.nats.waiting("RAG_RESULT").await;
    assert_eq!(results, 1, "nothing was purged");
    let found = service.t1.retrieve("c", "a document").await;
    assert_eq!(found["outcome"], "OK");
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_no_reply_address_makes_the_worker_act_for_a_caller() {
    let service = Service::start().await;
    // Jobs that wait: a purge or an injected job would show.
    let before = service.t1.ingest(&put("c", "d", "a document")).await;
    assert_eq!(before["status"], "INDEXED");
    let mut dead = service.t1.listen("rag.dlq.>").await;
    let mut injected = service.t1.listen("rag.ingest.t2").await;
    for address in ATTACKS {
        for (subject, body) in subjects() {
            service.t1.send(subject, address, &[], &body).await;
        }
    }
    service.t1.round_trip().await;
    let attempts = (ATTACKS.len() * subjects().len()) as f64;
    counted(&service.worker, attempts).await;
    let silent = tokio::time::timeout(SILENCE, async {
        tokio::select! { m = dead.next() => m, m = injected.next() => m }
    });
    assert!(silent.await.is_err(), "something was injected");
    nothing_happened(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_with_a_tenant_prefix_another_tenants_inbox_is_refused() {
    let prefixes = "_INBOX.{tenant}.,_R_.";
    let service = Service::with(|s| s.env("RAGBUS__NATS__REPLY_PREFIXES", prefixes)).await;
    let t1 = &service.t1;
    let question = json!({ "getInfo": {} });
    assert_eq!(
        t1.ask("catalog", &question).await.code,
        0,
        "its own inbox is fine"
    );
    for address in ["_INBOX.t2.x", "_INBOX.t11.x", "_INBOX.x"] {
        let mut inbox = t1.listen(address).await;
        for verb in ["retrieve", "catalog", "stats"] {
            let subject = format!("rag.{verb}.t1");
            let body = question.to_string();
            let sent = headers(&[JSON]);
            let publish =
                t1.client
                    .publish_with_reply_and_headers(subject, address, sent, body.into());
            publish.await.expect("sent");
        }
        assert!(
            tokio::time::timeout(SILENCE, inbox.next()).await.is_err(),
            "{address}"
        );
    }
    assert_eq!(
        service.worker.metric("ragbus_replies_refused_total").await,
        9.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_discovered_by_the_service_protocol() {
    let service = Service::start().await;
    for (subject, kind) in [
        ("$SRV.PING", "ping_response"),
        ("$SRV.INFO.ragbus", "info_response"),
        ("$SRV.STATS", "stats_response"),
    ] {
        let reply = service
            .t1
            .raw(subject, headers(&[]), "", PATIENCE)
            .await
            .expect("a reply");
        let body = reply.json();
        assert_eq!(body["type"], format!("io.nats.micro.v1.{kind}"));
        assert_eq!(body["name"], "ragbus");
        assert!(body["id"].as_str().is_some_and(|id| !id.is_empty()));
        if subject != "$SRV.PING" {
            let endpoints = body["endpoints"].as_array().expect("endpoints");
            let subjects: Vec<_> = endpoints.iter().map(|e| e["subject"].clone()).collect();
            let expected = ["retrieve", "catalog", "stats", "feedback"];
            assert_eq!(
                subjects,
                expected.map(|verb| json!(format!("rag.{verb}.*")))
            );
        }
    }
    let nobody = service
        .t1
        .raw("$SRV.PING.other", headers(&[]), "", SILENCE)
        .await;
    assert!(nobody.is_none(), "another service's name is not ours");
}
