//! The table of codes: each with headers, a body in the request's encoding, and nothing changed.

use serde_json::{Value, json};

use crate::harness::*;

const ID: [(&str, &str); 1] = [("Rag-Request-Id", "the-request")];

/// Code and `field` of what is wrong with a retrieval request.
fn invalid_requests() -> Vec<(u16, &'static str, Value)> {
    let with = |field: &str, value: Value| {
        let mut request = json!({ "corpus": "c", "query": "a question" });
        request[field] = value;
        request
    };
    let eq = json!({ "eq": { "field": "a.b", "value": 1 } });
    vec![
        (422, "limit", with("limit", json!(-1))),
        (422, "limit", with("limit", json!(0))),
        (422, "limit", with("limit", json!(101))),
        (422, "query", with("query", json!(""))),
        (422, "query", with("query", json!(" \n\t\u{2003}"))),
        (422, "query", with("query", json!("x".repeat(8 * 1024 + 1)))),
        (422, "corpus", with("corpus", json!("../x"))),
        (422, "corpus", with("corpus", json!("C"))),
        (422, "corpus", with("corpus", json!("a\u{7}b"))),
        (422, "corpus", json!({ "query": "no corpus" })),
        (422, "filter", with("filter", json!({}))),
        (422, "filter", with("filter", eq)),
        (400, "", with("querry", json!("x"))),
        (400, "", with("limit", json!("ten"))),
        (400, "", with("limit", json!(1.5))),
        (400, "", with("query", json!(7))),
        (400, "", with("options", json!({ "corrective": "MAYBE" }))),
        (400, "", json!([])),
    ]
}

/// Options that are out of range, contradict each other, or name a stage or leg that is not there.
fn invalid_options() -> Vec<(u16, &'static str, Value)> {
    let fusion = |weights: Value| json!({ "fusion": weights });
    let options = [
        ("rerank", json!({ "rerank": true })),
        ("rerankAgainst", json!({ "rerankAgainst": "ORIGINAL" })),
        ("corrective", json!({ "corrective": "GRADE" })),
        (
            "expansion.strategy",
            json!({ "expansion": { "strategy": "HYDE" } }),
        ),
        (
            "expansion.hypotheticals",
            json!({ "expansion": { "strategy": "TEMPLATE", "hypotheticals": 6 } }),
        ),
        (
            "minRelevance",
            json!({ "minRelevance": 0.5, "expansion": { "strategy": "TEMPLATE" } }),
        ),
        ("minRelevance", json!({ "minRelevance": 0.5 })),
        (
            "fusion",
            fusion(json!({ "denseWeight": 0, "sparseWeight": 0 })),
        ),
        ("fusion.k", fusion(json!({ "k": 0 }))),
        ("fusion.bm25Weight", fusion(json!({ "bm25Weight": 1 }))),
        (
            "minDense",
            json!({ "minDense": 0.1, "fusion": { "denseWeight": 0 } }),
        ),
        ("require", json!({ "require": ["reranking"] })),
        ("maxChunksPerDocument", json!({ "maxChunksPerDocument": 0 })),
    ];
    let request = |(field, options): (&'static str, Value)| {
        let request = json!({ "corpus": "c", "query": "a question", "options": options });
        (422, field, request)
    };
    options.into_iter().map(request).collect()
}

/// What every error reply has.
fn check(answer: &Answer, code: u16, field: &str, what: &str) {
    assert_eq!(
        answer.code,
        code,
        "{what}: {}",
        String::from_utf8_lossy(&answer.body)
    );
    let body = answer.json();
    assert_eq!(body["code"], code, "{what}");
    assert_eq!(body["field"], field, "{what}: {body}");
    assert_eq!(body["kind"], answer.header("Rag-Error-Kind"), "{what}");
    assert!(!answer.header("Rag-Error-Kind").is_empty(), "{what}");
    assert!(!answer.header("Nats-Service-Error").is_empty(), "{what}");
    assert!(!answer.header("Rag-Worker").is_empty(), "{what}");
    assert_eq!(answer.header("Rag-Request-Id"), "the-request", "{what}");
    assert_eq!(body["requestId"], "the-request", "{what}");
    assert_eq!(answer.header("Content-Type"), "application/json", "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_get_their_code_and_field() {
    let service = Service::start().await;
    let asked = |request: Value| {
        let t1 = &service.t1;
        async move { t1.ask_with("retrieve", &ID, &request).await }
    };
    for (code, field, request) in invalid_requests() {
        let what: String = request.to_string().chars().take(120).collect();
        check(&asked(request).await, code, field, &what);
    }
    for (code, field, request) in invalid_options() {
        let what = request.to_string();
        check(
            &asked(request).await,
            code,
            &format!("options.{field}"),
            &what,
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_catalog_questions_get_their_code_and_field() {
    let service = Service::start().await;
    for (code, field, body) in [
        (404, "", json!({ "getJob": { "jobId": "never-was" } })),
        (
            404,
            "",
            json!({ "getDocument": { "corpus": "c", "documentId": "d" } }),
        ),
        (404, "", json!({ "listDocuments": { "corpus": "c" } })),
        (
            422,
            "pageSize",
            json!({ "listDocuments": { "corpus": "c", "pageSize": 0 } }),
        ),
        (
            422,
            "documentId",
            json!({ "getDocument": { "corpus": "c", "documentId": "a\u{0}b" } }),
        ),
        (
            422,
            "corpus",
            json!({ "listDocuments": { "corpus": "../x" } }),
        ),
        (400, "", json!({ "getEverything": {} })),
    ] {
        let answer = service.t1.ask_with("catalog", &ID, &body).await;
        check(&answer, code, field, &body.to_string());
    }
    let corpora = service.t1.corpora().await;
    assert_eq!(corpora, json!([]), "nothing changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_and_sizes_get_their_code() {
    let service = Service::start().await;
    let request = json!({ "corpus": "c", "query": "a question" });
    let long = "x".repeat(129);
    let huge = "x".repeat(17 * 1024);
    for (code, field, name, value) in [
        (422, "Rag-Timeout-Ms", "Rag-Timeout-Ms", "0"),
        (422, "Rag-Timeout-Ms", "Rag-Timeout-Ms", "-5"),
        (422, "Rag-Timeout-Ms", "rag-timeout-ms", "1.5"),
        (422, "Rag-Timeout-Ms", "Rag-Timeout-Ms", "soon"),
        (422, "Rag-Actor", "Rag-Actor", &long),
        (422, "Rag-Purpose", "Rag-Purpose", &long),
        (415, "", "Content-Type", "text/plain"),
        (415, "", "Rag-Schema", "999"),
        (415, "", "Rag-Schema", "new"),
        (413, "", "X-Long", &huge),
    ] {
        let sent = [("Rag-Request-Id", "the-request"), (name, value)];
        let answer = service.t1.ask_with("retrieve", &sent, &request).await;
        check(
            &answer,
            code,
            field,
            &format!("{name}: {}", &value[..value.len().min(20)]),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_are_clamped_and_bad_names_replaced() {
    let service = Service::start().await;
    let request = json!({ "corpus": "c", "query": "a question" });
    for clamped in ["1000000", "99999999999999999999999"] {
        let sent = [("Rag-Timeout-Ms", clamped)];
        let answer = service.t1.ask_with("retrieve", &sent, &request).await;
        assert_eq!(answer.ok()["outcome"], "NO_CORPUS", "clamped");
    }
    let body = json!({ "corpus": "c", "query": "x".repeat(1024 * 1024 - 32 * 1024) });
    let answer = service
        .t1
        .ask_with("retrieve", &[("Rag-Request-Id", "the-request")], &body)
        .await;
    check(&answer, 413, "", "a body near max_payload");
    let sent = [("Rag-Request-Id", "not a valid id!")];
    let answer = service.t1.ask_with("retrieve", &sent, &request).await;
    assert_ne!(answer.header("Rag-Request-Id"), "not a valid id!");
    assert_eq!(
        answer.ok()["requestId"],
        answer.header("Rag-Request-Id"),
        "one of the worker's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_up_budget_is_504_and_protobuf_is_answered_in_protobuf() {
    let service = Service::start().await;
    service.t1.indexed(&put("c", "d", "a document")).await;
    let request = json!({ "corpus": "c", "query": "long question ".repeat(500) });
    let sent = [("Rag-Timeout-Ms", "1"), ("Rag-Request-Id", "the-request")];
    let answer = service.t1.ask_with("retrieve", &sent, &request).await;
    check(&answer, 504, "", "1 ms");
    assert_eq!(answer.json()["kind"], "timeout");
    // Field 99 is unknown to every version; protobuf skips unknown fields, a cut one is malformed.
    for sent in [
        headers(&[]),
        headers(&[("Content-Type", "application/x-protobuf")]),
    ] {
        let raw = service
            .t1
            .raw("rag.retrieve.t1", sent, vec![0x0a, 0x7f], PATIENCE);
        let answer = raw.await.expect("a reply");
        assert_eq!(answer.code, 400);
        assert_eq!(answer.header("Content-Type"), "application/protobuf");
        assert!(serde_json::from_slice::<Value>(&answer.body).is_err());
        assert_eq!(
            &answer.body[..3],
            [0x08, 0x90, 0x03],
            "code = 400 in field 1"
        );
    }
    let utf8 = headers(&[JSON]);
    let invalid = b"{\"corpus\":\"c\",\"query\":\"\xff\xfe\"}".to_vec();
    let answer = service
        .t1
        .raw("rag.retrieve.t1", utf8, invalid, PATIENCE)
        .await
        .expect("a reply");
    assert_eq!(answer.code, 400, "invalid UTF-8");
}
