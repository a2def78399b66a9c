//! Bodies nobody expects: each is indexed, says what was dropped, and its spans point into the source's bytes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;

/// 100,000 tokens are several hundred chunks through two models, on one or two busy cores.
const LONG: Duration = Duration::from_secs(240);

async fn chunks(caller: &Caller, document: &str) -> Vec<Value> {
    let found = caller.document("c", document).await.expect("a document");
    found["chunks"].as_array().expect("a list").clone()
}

/// Every chunk is what its span cuts out of the source, but for what was removed.
fn spans_fit(source: &str, chunks: &[Value]) {
    for chunk in chunks {
        let at = |end: &str| chunk["span"][end].as_u64().expect("a number") as usize;
        let cut = source
            .get(at("start")..at("end"))
            .expect("whole characters");
        let cut: String = cut
            .chars()
            .filter(|c| !matches!(c, '\0' | '\u{7}'))
            .collect();
        assert_eq!(chunk["content"], cut);
    }
}

fn odd() -> Vec<(&'static str, String, bool)> {
    let cjk = "日本語の文章には空白がない。東京都は日本の首都である。".repeat(100);
    let emoji = "🦉👩‍👩‍👧‍👦🇩🇪❤️‍🔥".repeat(200);
    vec![
        ("nul", "the owl\0 hunts\0\u{7} at night\0".to_owned(), true),
        ("only-nul", "\0\0\0".to_owned(), true),
        ("emoji", emoji, false),
        ("word", "a".repeat(60_000), false),
        ("cjk", cjk, false),
        ("empty", String::new(), false),
        ("blank", " \n\t ".to_owned(), false),
        ("rtl", "שלום עולם مرحبا بالعالم ".repeat(80), false),
        (
            "zalgo",
            "z\u{300}\u{301}\u{302}\u{303}".repeat(3_000),
            false,
        ),
        ("crlf", "line one\r\nline two\r\n".repeat(400), false),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_documents_are_indexed_with_spans_into_their_source() {
    let service = Service::start().await;
    for (id, text, warned) in odd() {
        let result = service.t1.ingest(&put("c", id, &text)).await;
        assert_eq!(result["status"], "INDEXED", "{id}: {result}");
        let warnings = result["warnings"].as_array().expect("a list");
        if warned {
            assert!(
                warnings[0]
                    .as_str()
                    .is_some_and(|w| w.contains("control characters")),
                "{id}"
            );
        }
        let found = chunks(&service.t1, id).await;
        assert_eq!(result["chunks"], found.len(), "{id}");
        let nothing = text.trim_matches('\0').trim().is_empty();
        assert_eq!(found.is_empty(), nothing, "{id}");
        spans_fit(&text, &found);
    }
    assert_eq!(service.nats.waiting("RAG_DLQ").await, 0);
    // An empty version removes what was there.
    let emptied = service.t1.ingest(&put("c", "cjk", "")).await;
    assert_eq!(
        (&emptied["status"], &emptied["chunks"]),
        (&json!("INDEXED"), &json!(0))
    );
    assert!(chunks(&service.t1, "cjk").await.is_empty());
    let none = service.t1.ingest(&put_chunks("c", "nul", &[])).await;
    assert_eq!(
        (&none["status"], &none["chunks"]),
        (&json!("INDEXED"), &json!(0))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_and_overlength_are_told() {
    let service = Service::start().await;
    let t1 = &service.t1;
    // "a long enough sentence to lose one byte" and one 0xFF, in base64.
    let data = "YSBsb25nIGVub3VnaCBzZW50ZW5jZSB0byBsb3NlIG9uZSBieXRl/w==";
    let job = json!({ "corpus": "c", "putDocument": { "documentId": "damaged", "data": data } });
    let result = t1.ingest(&job).await;
    assert_eq!(result["status"], "INDEXED");
    assert!(
        result["warnings"][0]
            .as_str()
            .is_some_and(|w| w.contains("no UTF-8")),
        "{result}"
    );
    let long = "one two three four five six seven eight nine ten ".repeat(100);
    let result = t1
        .ingest(&put_chunks("c", "long", std::slice::from_ref(&long)))
        .await;
    assert_eq!(result["status"], "INDEXED");
    assert!(
        result["truncatedTokens"].as_u64().is_some_and(|n| n > 500),
        "{result}"
    );
    assert!(!result["warnings"].as_array().expect("a list").is_empty());
    assert_eq!(t1.contents("c", "long").await, [long], "stored whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_of_100_000_tokens_is_indexed() {
    let service = Service::with(|s| s.env("RAGBUS__INFERENCE__THREADS", "2")).await;
    let words = [
        "owl", "night", "wood", "sea", "stone", "rain", "light", "north",
    ];
    let text: Vec<&str> = words.iter().cycle().take(100_000).copied().collect();
    let text = text.join(" ");
    let (job, _) = service.t1.publish(&put("c", "long", &text)).await;
    // One long document is nobody else's problem.
    let short = service.t1.ingest(&put("c", "short", "a short one")).await;
    assert_eq!(short["status"], "INDEXED");
    assert_eq!(service.t1.retrieve("c", "short").await["outcome"], "OK");
    let result = service.t1.result_within(&job, LONG).await;
    assert_eq!(result["status"], "INDEXED", "{result}");
    assert_eq!(result["truncatedTokens"], 0);
    let count = result["chunks"].as_u64().expect("a number");
    assert!(
        (500..1_000).contains(&count),
        "{count} chunks of at most 200 tokens with an overlap of 40"
    );
    let corpora = service.t1.corpora().await;
    assert_eq!(corpora[0]["chunks"], count + 1);
    assert_eq!(
        result["attempt"], 1,
        "signs of life kept it from being delivered again"
    );
}
