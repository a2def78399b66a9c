//! What a tenant may take: refused by name and with a time, and nobody else's problem.

use futures::StreamExt;
use serde_json::{Value, json};

use crate::harness::*;

const REQUESTS: usize = 40;

/// A refusal says which limit, and when to come again.
fn check_refused(answer: &Answer) {
    assert_eq!(answer.code, 429, "{}", answer.json());
    assert_eq!(answer.header("Rag-Error-Kind"), "tenant_limit");
    let wait: u64 = answer
        .header("Rag-Retry-After-Ms")
        .parse()
        .expect("a number");
    assert!(wait >= 1);
    let body = answer.json();
    assert_eq!(body["kind"], "tenant_limit");
    assert_eq!(body["retryAfterMs"], wait);
    let message = body["message"].as_str().expect("text");
    assert!(message.starts_with("the tenant "), "{message}");
}

/// How often a tenant is refused when it sends many long questions at once.
async fn refusals(tenant: &Caller) -> usize {
    let inbox = format!("_INBOX.{}.many", tenant.tenant);
    let mut replies = tenant.listen(&format!("{inbox}.*")).await;
    let query = json!({ "corpus": "c", "query": "what is there to find ".repeat(60) }).to_string();
    let subject = format!("rag.retrieve.{}", tenant.tenant);
    for number in 0..REQUESTS {
        let reply = format!("{inbox}.{number}");
        let budget = [("Rag-Timeout-Ms", "60000")];
        tenant.send(&subject, &reply, &budget, &query).await;
    }
    let mut refused = 0;
    for _ in 0..REQUESTS {
        let reply = tokio::time::timeout(PATIENCE, replies.next()).await;
        let answer = Answer::of(reply.expect("in time").expect("open"));
        match answer.code {
            0 => {}
            _ => {
                check_refused(&answer);
                refused += 1;
            }
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_work_are_limited_by_tenant() {
    let service =
        Service::with(|setup| setup.env("RAGBUS__LIMITS__TENANTS__T1__IN_FLIGHT", "2")).await;
    let t2 = Caller::of(&service.nats, "t2").await;
    for tenant in [&service.t1, &t2] {
        tenant.indexed(&put("c", "d", "something to find")).await;
    }
    let refused = refusals(&service.t1).await;
    assert!(
        (1..REQUESTS).contains(&refused),
        "{refused}: some, never all"
    );
    assert_eq!(refusals(&t2).await, 0, "another tenant has no limit");
    let found = service.t1.retrieve("c", "find").await;
    assert_eq!(found["outcome"], "OK", "every place was given back");
    let counted = service.worker.metric("ragbus_limits_refused_total").await;
    assert_eq!(counted, refused as f64);
    let pages = service.worker.metrics().await;
    assert!(pages.contains(r#"limit="in_flight""#), "{pages}");
    assert!(!pages.contains("t1"), "no tenant in metrics");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_a_second_are_limited_after_everything_that_is_wrong_with_them() {
    let service = Service::with(|setup| {
        setup
            .env("RAGBUS__LIMITS__DEFAULT__REQUESTS_PER_SECOND", "0.001")
            .env("RAGBUS__LIMITS__TENANTS__T2__REQUESTS_PER_SECOND", "1000")
    })
    .await;
    let t1 = &service.t1;
    let good = json!({ "corpus": "c", "query": "a question" });
    let bad = json!({ "corpus": "c", "query": "a question", "limit": 0 });
    for _ in 0..3 {
        let answer = t1.ask("retrieve", &bad).await;
        assert_eq!(answer.code, 422, "invalid requests cost nothing");
    }
    assert_eq!(t1.ask("retrieve", &good).await.ok()["outcome"], "NO_CORPUS");
    let refused = t1.ask("retrieve", &good).await;
    check_refused(&refused);
    let wait: u64 = refused
        .header("Rag-Retry-After-Ms")
        .parse()
        .expect("a number");
    assert!((900_000..=1_000_001).contains(&wait), "{wait}");
    check_refused(&t1.ask("catalog", &json!({ "getInfo": {} })).await);
    assert_eq!(t1.ask("retrieve", &bad).await.code, 422, "422 before 429");
    assert_eq!(t1.ask("retrieve", &json!([])).await.code, 400);
    let t2 = Caller::of(&service.nats, "t2").await;
    for _ in 0..20 {
        t2.ask("retrieve", &good).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_without_expansion_gets_its_own_question_alone() {
    let service = Service::with(|setup| {
        setup
            .env("RAGBUS__EXPANSION__STRATEGY", "template")
            .env("RAGBUS__LIMITS__TENANTS__T1__EXPANSION", "false")
    })
    .await;
    let t2 = Caller::of(&service.nats, "t2").await;
    let question = |options: Value| json!({ "corpus": "c", "query": "find", "options": options });
    for tenant in [&service.t1, &t2] {
        tenant.indexed(&put("c", "d", "something to find")).await;
    }
    let queries = |answer: Value| answer["queries"].as_array().map_or(0, Vec::len);
    let quiet = service.t1.ask("retrieve", &question(json!({}))).await.ok();
    assert_eq!(queries(quiet), 1);
    let other = t2.ask("retrieve", &question(json!({}))).await.ok();
    assert_eq!(queries(other), 2, "the server's default");
    let asked = question(json!({ "expansion": { "strategy": "TEMPLATE" } }));
    let refused = service.t1.ask("retrieve", &asked).await;
    assert_eq!(refused.code, 422);
    assert_eq!(refused.json()["field"], "options.expansion.strategy");
    let message = refused.json()["message"].clone();
    let message = message.as_str().expect("text");
    assert!(
        message.contains("is not allowed for this tenant"),
        "{message}"
    );
    t2.ask("retrieve", &asked).await.ok();
    let counted = service.worker.metric("ragbus_limits_refused_total").await;
    assert_eq!(counted, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_document_beyond_the_limit_is_told_and_blocks_nothing() {
    let service =
        Service::with(|setup| setup.env("RAGBUS__LIMITS__TENANTS__T1__DOCUMENTS", "2")).await;
    let t1 = &service.t1;
    t1.indexed(&put("c", "one", "first")).await;
    t1.indexed(&put("other", "two", "second")).await;
    for job in [put("c", "three", "third"), put("new", "one", "third")] {
        let result = t1.ingest(&job).await;
        assert_eq!(result["status"], "FAILED", "{result}");
        assert_eq!(result["error"]["kind"], "tenant_limit");
        assert_eq!(result["error"]["retryable"], true, "once there is room");
        assert_eq!(result["attempt"], 1);
    }
    eventually("refused jobs are gone", PATIENCE, || async {
        (service.nats.waiting("RAG_INGEST").await == 0).then_some(())
    })
    .await;
    assert_eq!(
        service.nats.waiting("RAG_DLQ").await,
        0,
        "nothing is broken"
    );
    let corpora = t1.corpora().await;
    assert_eq!(corpora.as_array().map_or(0, Vec::len), 2, "no corpus `new`");
    t1.indexed(&put("c", "one", "a replacement")).await;
    assert_eq!(
        t1.ingest(&put("c", "one", "a replacement")).await["status"],
        "UNCHANGED"
    );
    let t2 = Caller::of(&service.nats, "t2").await;
    for id in ["one", "two", "three"] {
        t2.indexed(&put("c", id, "another tenant's")).await;
    }
    let delete = json!({ "corpus": "other", "deleteCorpus": {} });
    assert_eq!(t1.ingest(&delete).await["status"], "DELETED");
    t1.indexed(&put("c", "three", "third")).await;
    let counted = service.worker.metric("ragbus_limits_refused_total").await;
    assert_eq!(counted, 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_make_no_sense_are_exit_2() {
    let dir = tempfile::tempdir().expect("a folder");
    for (key, value, named) in [
        (
            "RAGBUS__LIMITS__DEFAULT__IN_FLIGHT",
            "0",
            "limits.default.in_flight",
        ),
        (
            "RAGBUS__LIMITS__TENANTS__ACME__REQUESTS_PER_SECOND",
            "0",
            "limits.tenants.acme.requests_per_second",
        ),
        (
            "RAGBUS__LIMITS__TENANTS__-X__DOCUMENTS",
            "1",
            "limits.tenants",
        ),
        ("RAGBUS__LIMITS__DEFAULT__DOCUMENT", "1", "document"),
    ] {
        let mut command = ragbus("nats://127.0.0.1:1", dir.path());
        let output = command
            .arg("check-config")
            .env(key, value)
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{key}: {said}");
        assert!(said.contains(named), "{key}: {said}");
    }
    let file = dir.path().join("ragbus.toml");
    let text = "[limits.default]\nin_flight = 3\n[limits.tenants.a-b]\nexpansion = false\n";
    std::fs::write(&file, text).expect("written");
    let mut command = ragbus("nats://127.0.0.1:1", dir.path());
    let checked = command.arg("--config").arg(&file).arg("check-config");
    let output = checked.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("[limits.tenants.a-b]"), "{said}");
}
