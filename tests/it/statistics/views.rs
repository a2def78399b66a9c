//! Every view of `rag.stats.<tenant>`: what it counts, whom it shows it to, what it refuses.

use serde_json::{Value, json};

use super::Tracking;
use super::rows::{NASTY, WINDOW};
use crate::harness::*;

const VIEWS: [&str; 11] = [
    "totals",
    "timeline",
    "latencies",
    "documents",
    "poorDocuments",
    "unretrieved",
    "queries",
    "zeroHitQueries",
    "lowRelevanceQueries",
    "clusters",
    "judgements",
];

async fn asked(caller: &Caller, view: &str, options: Value) -> Answer {
    let question = json!({ "corpus": "c", "since": WINDOW[0], "until": WINDOW[1], view: options });
    caller.ask("stats", &question).await
}

fn column(rows: &Value, path: &[&str]) -> Vec<Value> {
    let of = |row: &Value| {
        path.iter()
            .fold(row.clone(), |value, key| value[*key].clone())
    };
    rows.as_array().expect("rows").iter().map(of).collect()
}

/// Every view says what was put there.
pub async fn every_view_counts(t1: &Caller) {
    let totals = asked(t1, "totals", json!({})).await.ok()["totals"][0].clone();
    for (field, expected) in [
        ("retrievals", json!(10)),
        ("failed", json!(1)),
        ("failures", json!([{ "kind": "timeout", "count": 1 }])),
        ("zeroHits", json!(3)),
        ("zeroHitShare", json!(0.3)),
        ("degraded", json!(0)),
        ("returnedChunks", json!(11)),
        ("firstAt", json!("2026-01-02T00:00:00Z")),
        ("lastAt", json!("2026-01-02T00:00:15Z")),
    ] {
        assert_eq!(totals[field], expected, "{field}: {totals}");
    }
    assert_eq!(totals["feedback"]["highlyRelevant"], 3);
    let slices = asked(t1, "timeline", json!({ "slices": 24 })).await.ok()["timeline"].clone();
    let counts = column(&slices, &["retrievals"]);
    assert_eq!(
        (counts.len(), &counts[0], &counts[1]),
        (24, &json!(10), &json!(0))
    );
    let latencies = asked(t1, "latencies", json!({})).await.ok()["latencies"].clone();
    assert_eq!(
        (
            &latencies[0]["stage"],
            &latencies[0]["samples"],
            &latencies[0]["p99Ms"]
        ),
        (&json!(""), &json!(10), &json!(20.0))
    );
    assert_eq!(latencies[4]["stage"], "hybrid");
}

pub async fn every_document_is_found(t1: &Caller) {
    let documents = asked(t1, "documents", json!({})).await.ok()["documents"].clone();
    assert_eq!(column(&documents, &["documentId"]), ["owl", "badger"]);
    assert_eq!(column(&documents, &["retrievals"]), [6, 5]);
    let means = json!([{ "kind": "COSINE", "mean": 0.25 }]);
    assert_eq!(documents[0]["meanScores"], means);
    let poor = asked(t1, "poorDocuments", json!({})).await.ok()["documents"].clone();
    assert_eq!(column(&poor, &["documentId"]), ["badger"]);
    let unretrieved = asked(t1, "unretrieved", json!({})).await.ok();
    assert_eq!(
        column(&unretrieved["unretrieved"], &["documentId"]),
        ["never"]
    );
    assert_eq!(unretrieved["nextCursor"], "");
}

pub async fn every_question_is_found(t1: &Caller) {
    let texts = async |view: &str, options: Value| {
        let reply = asked(t1, view, options).await.ok();
        column(&reply["queries"], &["query", "text"])
    };
    let all = texts("queries", json!({ "limit": 2 })).await;
    assert_eq!(
        all,
        [
            "which birds hunt mice at night?",
            "of bread nothing is known"
        ]
    );
    let none = texts("zeroHitQueries", json!({})).await;
    assert_eq!(none, ["of bread nothing is known", NASTY]);
    let low = texts("lowRelevanceQueries", json!({ "scoreKind": "COSINE" })).await;
    assert_eq!(low.len(), 3);
    assert!(texts("lowRelevanceQueries", json!({})).await.is_empty());
    let clusters = asked(t1, "clusters", json!({})).await.ok()["clusters"].clone();
    assert_eq!(clusters[0]["queries"].as_array().map(Vec::len), Some(3));
    assert_eq!(clusters[0]["sharedDocuments"], json!(["owl"]));
    let cut = asked(t1, "queries", json!({ "limit": 2 })).await.ok();
    assert_eq!(cut["truncated"], true);
    let mut judged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = asked(t1, "judgements", json!({ "pageSize": 2, "cursor": cursor })).await;
        let page = page.ok();
        judged.extend(column(&page["judgements"], &["documentId"]));
        cursor = page["nextCursor"].as_str().expect("text").to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(judged.len(), 9);
}

/// The same names in every view: nothing of the other tenant's, not by its own subject, nor in a body.
pub async fn nobody_sees_the_others(tracking: &Tracking) {
    let t2 = &tracking.t2;
    for view in VIEWS {
        let own = asked(&tracking.service.t1, view, json!({}))
            .await
            .ok()
            .to_string();
        assert!(
            !own.contains("t2") && !own.contains("lonely"),
            "{view}: {own}"
        );
        let other = asked(t2, view, json!({})).await.ok().to_string();
        for foreign in ["badger", "birds", "bread", "script", "5f0c"] {
            assert!(!other.contains(foreign), "{view}: {other}");
        }
    }
    let totals = asked(t2, "totals", json!({})).await.ok();
    assert_eq!(totals["totals"][0]["retrievals"], 2);
    assert_eq!(totals["totals"][0]["feedback"]["highlyRelevant"], 1);
    let unretrieved = asked(t2, "unretrieved", json!({})).await.ok();
    assert_eq!(
        column(&unretrieved["unretrieved"], &["documentId"]),
        ["lonely"]
    );
    let all = async |caller: &Caller| {
        let reply = caller.ask("stats", &json!({ "totals": {} })).await.ok();
        column(&reply["totals"], &["corpus"])
    };
    assert_eq!(all(&tracking.service.t1).await, ["c", "gone"]);
    assert_eq!(all(t2).await, ["c"]);
    let t3 = Caller::of(&tracking.service.nats, "t3").await;
    assert!(all(&t3).await.is_empty());
}

/// What is wrong with a question is said.
pub async fn wrong_questions_are_refused(t1: &Caller) {
    for (question, code, field) in [
        (json!({ "corpus": "c" }), 422, "view"),
        (json!({ "latencies": {} }), 422, "corpus"),
        (
            json!({ "corpus": "c", "tenant": "t2", "totals": {} }),
            400,
            "",
        ),
        (
            json!({ "corpus": "c", "lowRelevanceQueries": { "scoreKind": "RRF" } }),
            422,
            "lowRelevanceQueries.scoreKind",
        ),
        (
            json!({ "corpus": "c", "since": WINDOW[1], "until": WINDOW[0], "totals": {} }),
            422,
            "until",
        ),
        (json!({ "corpus": "gone", "unretrieved": {} }), 404, ""),
    ] {
        let answer = t1.ask("stats", &question).await;
        assert_eq!(answer.code, code, "{question}: {}", answer.json());
        assert_eq!(answer.json()["field"], field, "{question}");
    }
    let audit = json!({ "tenant": "t1" }).to_string();
    let own = t1.raw(
        "rag.admin.audit",
        headers(&[JSON]),
        audit,
        std::time::Duration::from_secs(1),
    );
    assert!(own.await.is_none(), "a tenant's inbox gets no audit");
}
