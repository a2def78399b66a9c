//! What an outside client gets back: typed metadata, filters, signals, outcomes, a reply within the message limit.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::*;

fn metadata() -> Value {
    json!({
        "year": 2020.0, "tags": ["night", "bird"], "ok": true, "sizes": [1.0, 2.5], "at": "2024-01-02T03:04:05Z"
    })
}

fn eq(field: &str, value: Value) -> Value {
    json!({ "eq": { "field": field, "value": value } })
}

fn matching() -> Vec<Value> {
    vec![
        eq("tags", json!("bird")),
        eq("ok", json!(true)),
        eq("year", json!(2020)),
        eq("sizes", json!(2.5)),
        json!({ "in": { "field": "year", "values": [1999, 2020, "x"] } }),
        json!({ "range": { "field": "year", "gte": 2020, "lt": 2021 } }),
        json!({ "range": { "field": "at", "gt": "2024-01-02T00:00:00Z", "lte": "2024-01-02T03:04:05Z" } }),
        json!({ "exists": { "field": "tags" } }),
        json!({ "not": { "exists": { "field": "absent" } } }),
        json!({ "and": { "filters": [eq("ok", json!(true)), eq("tags", json!("night"))] } }),
        json!({ "or": { "filters": [eq("ok", json!(false)), eq("tags", json!("night"))] } }),
    ]
}

fn excluding() -> Vec<Value> {
    vec![
        eq("tags", json!("day")),
        eq("ok", json!(false)),
        eq("ok", json!("true")),
        json!({ "range": { "field": "year", "gt": 2020 } }),
        json!({ "range": { "field": "at", "lt": "2024-01-02T03:04:05Z" } }),
        json!({ "not": { "exists": { "field": "tags" } } }),
        json!({ "and": { "filters": [eq("ok", json!(true)), eq("tags", json!("day"))] } }),
    ]
}

async fn asked(t1: &Caller, filter: &Value) -> Value {
    let request = json!({ "corpus": "c", "query": "who hunts at night?", "filter": filter });
    t1.ask("retrieve", &request).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_comes_back_typed_and_can_be_filtered_by() {
    let service = Service::start().await;
    let t1 = &service.t1;
    let mut job = put("c", "owl", "The owl hunts at night.");
    job["putDocument"]["metadata"] = metadata();
    assert_eq!(t1.ingest(&job).await["status"], "INDEXED");
    for filter in matching() {
        let reply = asked(t1, &filter).await;
        assert_eq!(reply["outcome"], "OK", "{filter}");
        assert_eq!(reply["results"][0]["metadata"], metadata(), "{filter}");
    }
    for filter in excluding() {
        let reply = asked(t1, &filter).await;
        assert_eq!(
            (&reply["outcome"], &reply["results"]),
            (&json!("NO_MATCH"), &json!([])),
            "{filter}"
        );
    }
    assert_eq!(
        t1.document("c", "owl").await.expect("there")["metadata"],
        metadata()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_says_where_each_chunk_and_score_comes_from() {
    let service = Service::start().await;
    let t1 = &service.t1;
    let (_, _) = t1
        .publish(&put("c", "badger", "Badgers dig long tunnels."))
        .await;
    let (job, sequence) = t1
        .publish(&put("c", "owl", "The owl hunts at night."))
        .await;
    assert_eq!(t1.result(&job).await["status"], "INDEXED");
    let request =
        json!({ "corpus": "c", "query": "who hunts at night?", "limit": 1, "explain": true });
    let reply = t1.ask("retrieve", &request).await.ok();
    let chunk = &reply["results"][0];
    assert_eq!(reply["results"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&chunk["documentId"], &chunk["corpus"]),
        (&json!("owl"), &json!("c"))
    );
    assert_eq!(chunk["documentSequence"], sequence.to_string());
    assert_eq!(chunk["scoreKind"], "RRF");
    assert_eq!(chunk["span"], json!({ "start": 0, "end": 23 }));
    let hash = Sha256::digest(b"The owl hunts at night.");
    let hash: String = hash.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(chunk["contentHash"], hash);
    for leg in ["dense", "sparse"] {
        assert_eq!(chunk["signals"][leg]["rank"], 1, "{chunk}");
    }
    // The paper's RRF: two legs, rank 1 each, k = 60.
    let score = chunk["relevanceScore"].as_f64().expect("a number");
    assert!((score - 2.0 / 61.0).abs() < 1e-6, "{score}");
    assert_eq!(reply["queries"][0]["origin"], "ORIGINAL");
    assert_eq!(reply["models"]["dense"], "minilm-l6-v2");
    assert_eq!(reply["stages"][0]["name"], "hybrid");
    assert_eq!(reply["degraded"], json!([]));
    assert_eq!(
        (&reply["truncated"], &reply["omitted"]),
        (&json!(false), &json!(0))
    );
    let id = reply["retrievalId"].as_str().expect("an id");
    assert_eq!(
        uuid::Uuid::parse_str(id).expect("a UUID").get_version_num(),
        7
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn content_can_be_left_out_and_a_typo_is_no_corpus() {
    let service = Service::start().await;
    let t1 = &service.t1;
    t1.indexed(&put("c", "owl", "The owl hunts at night."))
        .await;
    let bare = json!({ "corpus": "c", "query": "owl", "options": { "include": ["METADATA"] } });
    assert_eq!(
        t1.ask("retrieve", &bare).await.ok()["results"][0]["content"],
        ""
    );
    let nowhere = json!({ "corpus": "typo", "query": "owl" });
    assert_eq!(
        t1.ask("retrieve", &nowhere).await.ok()["outcome"],
        "NO_CORPUS"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_trimmed_to_the_message_limit_and_says_so() {
    let service = Service::start().await;
    let t1 = &service.t1;
    for document in ["a", "b"] {
        let text = |i: usize| format!("chunk {i} of {document} ") + &"lorem ipsum ".repeat(6_500);
        let texts: Vec<String> = (0..12).map(text).collect();
        t1.indexed(&put_chunks("c", document, &texts)).await;
    }
    let request = json!({ "corpus": "c", "query": "lorem ipsum", "limit": 24 });
    let reply = t1.ask("retrieve", &request).await.ok();
    let given = reply["results"].as_array().map_or(0, Vec::len);
    assert!((1..24).contains(&given), "{given}");
    assert_eq!(
        (&reply["truncated"], &reply["omitted"]),
        (&json!(true), &json!(24 - given))
    );
    let whole = json!({ "getDocument": { "corpus": "c", "documentId": "a", "chunks": true } });
    assert_eq!(
        t1.ask("catalog", &whole).await.code,
        0,
        "one document still fits"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_listed_in_pages() {
    let service = Service::start().await;
    let t1 = &service.t1;
    for i in 0..7 {
        t1.ingest(&put("c", &format!("d{i}"), "text")).await;
    }
    assert_eq!(
        t1.ingest(&json!({ "corpus": "c", "deleteDocument": { "documentId": "d3" } }))
            .await["status"],
        "DELETED"
    );
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let question = json!({ "corpus": "c", "pageSize": 2, "cursor": cursor });
        let page = t1
            .ask("catalog", &json!({ "listDocuments": question }))
            .await
            .ok();
        let documents = page["documents"].as_array().expect("a list").clone();
        assert!((1..=2).contains(&documents.len()));
        seen.extend(
            documents
                .iter()
                .map(|d| d["documentId"].as_str().unwrap_or_default().to_owned()),
        );
        cursor = page["nextCursor"].as_str().expect("text").to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["d0", "d1", "d2", "d4", "d5", "d6"]);
    let info = t1.ask("catalog", &json!({ "getInfo": {} })).await.ok();
    assert_eq!(info["info"]["legs"], json!(["dense", "sparse"]));
    assert_eq!(info["info"]["limits"]["maxLimit"], 100);
}
