//! S6: what callers write appears nowhere but in their own replies.

use serde_json::{Value, json};

use crate::chat_server::{ChatServer, Mood};
use crate::harness::*;

const CANARY: &str = "zyxwcanary";

/// A different marker for each place, so that a leak names its source.
fn mark(place: &str) -> String {
    format!("{CANARY}{place}")
}

fn jobs() -> Vec<Value> {
    let text = format!("{} swims in the sea", mark("text"));
    let meta = json!({ "secret": mark("meta"), "list": [mark("list")] });
    let mut good = put("c", "good", &text);
    good["putDocument"]["metadata"] = meta.clone();
    let mut nested = put("c", "nested", &text);
    nested["putDocument"]["metadata"] = json!({ "object": { "inner": mark("inner") } });
    let mut wrong = put("c", "wrong", &text);
    wrong["putDocument"]["metadata"] = json!([mark("array")]);
    let mut expires = put("c", "expires", &text);
    expires["putDocument"]["expiresAt"] = json!(mark("time"));
    let mut chunks = put_chunks("c", "chunks", &[mark("chunk"), " ".to_owned()]);
    chunks["putChunks"]["chunks"][0]["metadata"] = meta;
    let mut media = put("c", "media", &text);
    media["putDocument"]["mediaType"] = json!("application/pdf");
    let mut binary = put("c", "binary", "");
    binary["putDocument"] = json!({ "documentId": "binary", "data": "/////////////////////w==" });
    let typed = json!({ "corpus": "c", "putDocument": { "documentId": 7, "text": { "a": mark("typed") } } });
    let enumed = json!({ "corpus": "c", "putDocument": { "documentId": "e", "text": mark("u"), "chunking": mark("enum") } });
    vec![
        good, nested, wrong, expires, chunks, media, binary, typed, enumed,
    ]
}

fn questions() -> Vec<Value> {
    let query = format!("{} swims", mark("query"));
    let with = |field: &str, value: Value| {
        let mut question = json!({ "corpus": "c", "query": query });
        question[field] = value;
        question
    };
    let eq = |field: &str, value: Value| json!({ "eq": { "field": field, "value": value } });
    vec![
        with("explain", json!(true)),
        with("limit", json!(0)),
        with("limit", json!(mark("limit"))),
        with("filter", eq("secret", json!(mark("eq")))),
        with("filter", eq("_bad", json!(mark("badeq")))),
        with("filter", eq("secret", json!({ "o": mark("object") }))),
        with(
            "filter",
            json!({ "range": { "field": "secret", "gte": mark("range") } }),
        ),
        with("options", json!({ "corrective": mark("mode") })),
        with(
            "options",
            json!({ "expansion": { "strategy": "HYDE" }, "corrective": "FILTER", "rerank": true }),
        ),
        with(
            "options",
            json!({ "expansion": { "strategy": "STEP_BACK" }, "require": ["expansion"] }),
        ),
        with("query", json!([mark("array")])),
        with("query", json!(mark("long").repeat(1_000))),
        json!({ "corpus": "nowhere", "query": query }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_no_canary_in_logs_errors_or_metrics() {
    // A language model that throws the question back in an error.
    let quoted = format!("no answer to: {}", mark("query"));
    let llm = ChatServer::start(Mood::Status(400, quoted.leak())).await;
    let service = Service::with(|s| {
        s.env("RAGBUS_LOG", "debug")
            .env("RAGBUS__MODELS__CROSS_ENCODER", "minilm-pair")
            .env("RAGBUS__RETRIEVAL__LEGS", "dense,sparse,bm25")
            .env("RAGBUS__LLM__BASE_URL", &llm.url())
            .env("RAGBUS__LLM__MODEL", "small")
    })
    .await;
    let t1 = &service.t1;
    let mut told = String::new();
    for job in jobs() {
        let result = t1.ingest(&job).await;
        told.push_str(&result.to_string());
    }
    let broken = headers(&[JSON, ("Rag-Request-Id", "broken")]);
    let cut = format!("{{\"corpus\":\"{}\", {}", mark("cut"), mark("rest"));
    t1.publish_raw(broken, cut.clone()).await.expect("stored");
    told.push_str(&t1.result("broken").await.to_string());
    for (number, question) in questions().into_iter().enumerate() {
        if number % 2 == 1 {
            llm.now(Mood::Raw(format!("no JSON: {}", mark("query")).into()));
        }
        let answer = t1.ask("retrieve", &question).await;
        if answer.code != 0 {
            told.push_str(&format!("{:?}{}", answer.headers, answer.json()));
        }
    }
    for verb in ["retrieve", "catalog", "stats"] {
        let subject = format!("rag.{verb}.t1");
        for content in ["application/json", "application/protobuf"] {
            let sent = headers(&[("Content-Type", content)]);
            let answer = t1
                .raw(&subject, sent, cut.clone(), PATIENCE)
                .await
                .expect("a reply");
            assert_eq!(answer.code, 400);
            told.push_str(&format!(
                "{:?}{}",
                answer.headers,
                String::from_utf8_lossy(&answer.body)
            ));
        }
    }
    no_canary("replies and results", &told);
    no_canary("metrics", &service.worker.metrics().await);
    let log = service.worker.log();
    assert!(
        log.contains("job done") && log.contains("retrieved"),
        "work is logged"
    );
    no_canary("log", &log);
    for letter in service.nats.messages("RAG_DLQ").await {
        no_canary("dead letter headers", &format!("{:?}", letter.headers));
    }
    let found = t1.retrieve("c", "swims").await;
    assert!(
        found.to_string().contains(&mark("text")),
        "the caller itself gets its text"
    );
}

fn no_canary(place: &str, text: &str) {
    let lower = text.to_ascii_lowercase();
    if let Some(at) = lower.find(CANARY) {
        let around: String = lower
            .chars()
            .skip(at.saturating_sub(200))
            .take(300)
            .collect();
        panic!("a canary in {place}: …{around}…");
    }
}
