//! S1: the tenant is the subject's token, validated on every message; nothing a caller writes elsewhere overrides it.

use serde_json::json;

use crate::harness::*;

fn invalid_tokens() -> Vec<String> {
    let long = "a".repeat(64);
    ["*", ">", "T1", "t1é", "_t1", "-t1", &long]
        .map(str::to_owned)
        .to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_requests_of_invalid_tenants_are_refused_with_a_body() {
    let service = Service::start().await;
    let bodies = [
        ("retrieve", json!({ "corpus": "c", "query": "q" })),
        ("catalog", json!({ "listCorpora": {} })),
        ("stats", json!({ "totals": {} })),
    ];
    for (verb, body) in bodies {
        for token in invalid_tokens() {
            let subject = format!("rag.{verb}.{token}");
            let sent = headers(&[JSON, ("Rag-Request-Id", "s1")]);
            let raw = service.t1.raw(&subject, sent, body.to_string(), PATIENCE);
            let answer = raw
                .await
                .unwrap_or_else(|| panic!("{subject} got no reply"));
            assert_eq!(answer.code, 403, "{subject}");
            assert_eq!(answer.header("Rag-Error-Kind"), "tenant_invalid");
            assert_eq!(answer.header("Rag-Request-Id"), "s1");
            assert!(!answer.header("Rag-Worker").is_empty());
            assert_eq!(answer.json()["code"], 403);
            assert_eq!(answer.json()["kind"], "tenant_invalid");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_jobs_of_invalid_tenants_are_dead_letters_without_a_result() {
    let service = Service::start().await;
    let jetstream = &service.t1.jetstream;
    for token in invalid_tokens() {
        let sent = headers(&[
            JSON,
            ("Nats-Msg-Id", &name()),
            ("Rag-Request-Id", &token_id(&token)),
        ]);
        let subject = format!("rag.ingest.{token}");
        let body = put("c", "d", "text of nobody").to_string();
        let ack = jetstream
            .publish_with_headers(subject, sent, body.into())
            .await
            .expect("sent");
        ack.await
            .unwrap_or_else(|e| panic!("the stream refused {token}: {e}"));
    }
    let jobs = invalid_tokens().len() as u64;
    eventually("every job is buried", PATIENCE, || async {
        let buried = service.nats.waiting("RAG_DLQ").await == jobs;
        (buried && service.nats.waiting("RAG_INGEST").await == 0).then_some(())
    })
    .await;
    for letter in service.nats.messages("RAG_DLQ").await {
        assert_eq!(letter.subject.as_str(), "rag.dlq._invalid");
        assert_eq!(
            letter
                .headers
                .get("Rag-Dead-Reason")
                .expect("a reason")
                .as_str(),
            "tenant_invalid"
        );
    }
    assert_eq!(service.nats.waiting("RAG_RESULT").await, 0);
    assert_eq!(service.t1.corpora().await, json!([]));
}

fn token_id(token: &str) -> String {
    format!("job-of-{}", token.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_a_tenant_in_body_or_header_never_overrides_the_subject() {
    let service = Service::start().await;
    let t1 = &service.t1;
    let t2 = Caller::of(&service.nats, "t2").await;
    t2.indexed(&put("c", "d", "the owl of t2")).await;
    for field in ["tenant", "tenantId", "tenant_id"] {
        let mut body = json!({ "corpus": "c", "query": "owl" });
        body[field] = json!("t2");
        let answer = t1.ask("retrieve", &body).await;
        assert_eq!(answer.code, 400, "{field}");
        assert!(
            answer.json()["message"]
                .as_str()
                .expect("text")
                .contains("unknown field")
        );
        let mut job = put("c", "stolen", "text");
        job[field] = json!("t2");
        assert_eq!(
            t1.ingest(&job).await["error"]["kind"],
            "malformed",
            "{field}"
        );
    }
    for header in ["Rag-Tenant", "Tenant", "Rag-Tenant-Id", "X-Tenant"] {
        let body = json!({ "corpus": "c", "query": "owl" });
        let answer = t1.ask_with("retrieve", &[(header, "t2")], &body).await;
        assert_eq!(answer.ok()["outcome"], "NO_CORPUS", "{header}");
        let (job, _) = t1
            .publish_with(&[(header, "t2")], &put("mine", header, "text"))
            .await;
        assert_eq!(t1.result(&job).await["status"], "INDEXED");
    }
    let corpora = t2.corpora().await;
    assert_eq!(corpora.as_array().expect("a list").len(), 1, "{corpora}");
    assert_eq!(corpora[0]["documents"], 1);
}
