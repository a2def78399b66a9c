//! Retrievals of two tenants who use the same names, as the tracker's port takes them.

use std::time::Duration;

use ragbus::error::ErrorKind;
use ragbus::model::{
    CorpusName, CorpusRef, DocumentId, Feedback, FeedbackOutcome, Outcome, QueryText, RetrievalId,
    RetrievalRecord, ScoreKind, TenantId, TrackedEnd, TrackedQuery,
};
use ragbus::testing::contract::tracker::{Tracked, busy_record};

/// 2026-01-02T00:00:00Z.
pub const BEGIN: i64 = 1_767_312_000_000_000;
/// The window that everything below is in.
pub const WINDOW: [&str; 2] = ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"];
/// What t1 asks, as a caller would who means harm.
pub const NASTY: &str = "</td><script>alert(1)</script> \u{1b}[2J";

/// A corpus of a tenant.
pub fn corpus(tenant: &str, corpus: &str) -> CorpusRef {
    let tenant = TenantId::mint(tenant).expect("valid");
    CorpusRef::new(tenant, CorpusName::new(corpus).expect("valid"))
}

/// A retrieval that found these documents, at this second of the window.
fn record(corpus: &CorpusRef, second: i64, query: &str, documents: &[&str]) -> RetrievalRecord {
    let mut record = busy_record(corpus, BEGIN + second * 1_000_000, 0);
    record.id = RetrievalId::from_u128(uuid::Uuid::new_v4().as_u128());
    record.query = TrackedQuery::Text(query.to_owned());
    record.queries = vec![QueryText::original(query)];
    record.duration = Duration::from_millis(20);
    record.chunks.truncate(documents.len());
    for (chunk, id) in record.chunks.iter_mut().zip(documents) {
        chunk.document_id = DocumentId::new(id).expect("valid");
        chunk.score_kind = ScoreKind::Cosine;
        chunk.relevance = 0.25;
    }
    if documents.is_empty() {
        record.end = TrackedEnd::Answered(Outcome::NoMatch);
    }
    record
}

async fn judge(
    tracker: &Tracked,
    record: &RetrievalRecord,
    document: &str,
    outcome: FeedbackOutcome,
) {
    let feedback = Feedback {
        retrieval_id: record.id,
        document_id: DocumentId::new(document).expect("valid"),
        outcome,
        actor: "clerk".into(),
        at: record.at,
    };
    let given = tracker.feedback(&record.corpus.tenant, &feedback).await;
    given.expect("stored").into_result().expect("taken");
}

/// t1: ten retrievals of `c` in the window, one outside, one of `gone`; t2: two of `c`.
pub async fn fill(tracker: &Tracked) {
    use FeedbackOutcome::{HighlyRelevant, NotRelevant, PartiallyRelevant};
    let own = corpus("t1", "c");
    let night = "which birds hunt mice at night?";
    let mut batch: Vec<RetrievalRecord> = (0..4)
        .map(|n| record(&own, n, night, &["owl", "badger"]))
        .collect();
    batch.push(record(
        &own,
        10,
        "where do badgers live?",
        &["badger", "owl"],
    ));
    batch.push(record(&own, 11, "of bread nothing is known", &[]));
    batch.push(record(&own, 12, "of bread nothing is known", &[]));
    batch.push(record(&own, 13, NASTY, &[]));
    let mut failed = record(&own, 14, "too slow", &[]);
    failed.end = TrackedEnd::Failed(ErrorKind::Timeout);
    batch.push(failed);
    let mut hashed = record(&own, 15, "5f0c", &["owl"]);
    hashed.query = TrackedQuery::Hash("5f0c".into());
    hashed.queries.clear();
    batch.push(hashed);
    batch.push(record(&own, 90_000, "the day after", &["never"]));
    batch.push(record(&corpus("t1", "gone"), 5, "a corpus that was", &[]));
    let foreign = corpus("t2", "c");
    for n in 0..2 {
        batch.push(record(
            &foreign,
            n,
            "secret of t2",
            &["owl", "never", "t2-only"],
        ));
    }
    tracker.record(&batch).await.expect("stored");
    for one in &batch[..3] {
        judge(tracker, one, "badger", NotRelevant).await;
        judge(tracker, one, "owl", PartiallyRelevant).await;
    }
    judge(tracker, &batch[3], "owl", HighlyRelevant).await;
    judge(tracker, &batch[4], "badger", HighlyRelevant).await;
    judge(tracker, &batch[9], "owl", HighlyRelevant).await;
    judge(tracker, &batch[12], "t2-only", HighlyRelevant).await;
}

/// Retrievals of a tenant of their own, so large that not even half a page of them fits into a message.
pub async fn fill_with_large_ones(tracker: &Tracked, count: i64) {
    let corpus = corpus("large", "c");
    for n in 0..count {
        // Several at one moment: their ids decide.
        let mut one = record(&corpus, n / 4, "a long story", &["owl"]);
        one.options = format!("{{\"padding\":\"{}\"}}", "x".repeat(40_000));
        tracker.record(&[one]).await.expect("stored");
    }
}
