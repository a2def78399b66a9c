//! Storing and reading: once, whole, page by page, and each tenant by itself.

use std::sync::Arc;

use super::{
    Tracked, at, chunk, corpus_of, document, judgement, odd_record, random_record, record, seeded,
    tenant,
};
use crate::error::ErrorKind;
use crate::model::{
    ChunkFate, FeedbackOutcome, FeedbackReceipt, RecordPosition, RetrievalId, RetrievalRecord,
    TenantId, TimeWindow, Timestamp, TrackedEnd, TrackedQuery,
};

/// NaN equals nothing, but prints.
fn shown<T: std::fmt::Debug>(value: &T) -> String {
    format!("{value:?}")
}

/// Records come back with everything in them; what no database keeps is replaced in the same way by all.
pub async fn records_come_back_whole(tracker: Tracked) {
    let tenant = tenant();
    let corpus = corpus_of(&tenant, "docs");
    let odd = odd_record(&corpus);
    let mut failed = record(&corpus, 3, "q", &[]);
    failed.end = TrackedEnd::Failed(ErrorKind::Timeout);
    failed.query = TrackedQuery::Hash("0a1b".into());
    assert_eq!(
        tracker
            .record(&[odd.clone(), failed.clone()])
            .await
            .expect("kept"),
        2
    );
    for kept in [&odd, &failed] {
        let found = tracker.find(&tenant, kept.id).await.expect("reads");
        assert_eq!(shown(&found.expect("there")), shown(kept));
    }
    let all = tracker
        .records(&tenant, None, TimeWindow::ALL, None, 9)
        .await;
    assert_eq!(shown(&all.expect("reads")), shown(&[odd, failed]));

    let mut broken = record(&corpus, 4, "a\0b", &["d"]);
    broken.actor = "\0".into();
    broken.chunks[0].relevance = f32::INFINITY;
    broken.chunks[0].signals.fused = Some(f32::NAN);
    assert_eq!(tracker.record(&[broken.clone()]).await.expect("kept"), 1);
    let found = tracker.find(&tenant, broken.id).await.expect("reads");
    let found = found.expect("there");
    assert_eq!(shown(&found), shown(&broken.storable().into_owned()));
    assert_eq!(found.query.as_str(), "a\u{fffd}b");
    assert!(found.chunks[0].relevance.is_nan() && found.chunks[0].signals.fused.is_none());
    let dropped: Vec<RetrievalId> = vec![broken.id];
    assert_eq!(dropped, [found.id]);
}

/// However often a retrieval is delivered, beside itself or beside others, it is stored once.
pub async fn a_batch_counts_once(tracker: Tracked) {
    let tenants = [tenant(), tenant()];
    let mut chance = seeded(1);
    let mut batch: Vec<RetrievalRecord> = Vec::new();
    for n in 0..60 {
        let corpus = corpus_of(&tenants[n % 2], "docs");
        batch.push(random_record(&mut chance, &corpus));
    }
    let first = tracker.record(&batch[..20]).await.expect("stored");
    let mut twice = batch[..40].to_vec();
    twice.extend_from_slice(&batch[30..40]);
    let second = tracker.record(&twice).await.expect("stored");
    assert_eq!((first, second), (20, 20));
    // Two deliveries of the same records at once, in another order.
    let beside = |order: bool| {
        let (tracker, mut records) = (Arc::clone(&tracker), batch.clone());
        if order {
            records.reverse();
        }
        tokio::spawn(async move { tracker.record(&records).await.expect("stored") })
    };
    let (one, other) = (beside(false), beside(true));
    let new = one.await.expect("ran") + other.await.expect("ran");
    assert_eq!(new, 20);
    assert_eq!(tracker.record(&[]).await.expect("nothing"), 0);
    for tenant in &tenants {
        let stored = tracker
            .records(tenant, None, TimeWindow::ALL, None, 99)
            .await;
        let mut expected: Vec<_> = batch.iter().filter(|r| r.tenant() == tenant).collect();
        expected.sort_by_key(|record| RecordPosition::of(record));
        assert_eq!(shown(&stored.expect("reads")), shown(&expected));
    }
}

/// A tenant that bears another's id neither sees nor changes anything of it.
pub async fn tenants_do_not_meet(tracker: Tracked) {
    let (owner, stranger) = (tenant(), tenant());
    let own = record(&corpus_of(&owner, "docs"), 5, "secret", &["d"]);
    tracker.record(&[own.clone()]).await.expect("stored");
    let foreign = judgement(&own, "d", FeedbackOutcome::NotRelevant);
    let taken = tracker.feedback(&stranger, &foreign).await.expect("asked");
    assert_eq!(taken, FeedbackReceipt::NoSuchRetrieval);
    let nothing = tracker.find(&stranger, own.id).await.expect("reads");
    assert!(nothing.is_none());

    let mut same = record(&corpus_of(&stranger, "docs"), 6, "other", &["x"]);
    same.id = own.id;
    assert_eq!(tracker.record(&[same.clone()]).await.expect("stored"), 1);
    let find = |tenant: TenantId| {
        let (tracker, id) = (Arc::clone(&tracker), own.id);
        async move { tracker.find(&tenant, id).await.expect("reads") }
    };
    assert_eq!(find(owner.clone()).await, Some(own.clone()));
    assert_eq!(find(stranger.clone()).await, Some(same.clone()));
    let taken = tracker.feedback(&stranger, &foreign).await.expect("asked");
    assert_eq!(taken, FeedbackReceipt::NotInReply);
    let good = judgement(&own, "d", FeedbackOutcome::Relevant);
    tracker.feedback(&owner, &good).await.expect("stored");
    let others = tracker.feedback_of(&stranger, own.id).await.expect("reads");
    assert!(others.is_empty());
    let judged = tracker
        .judgements(&stranger, None, TimeWindow::ALL, None, 9)
        .await;
    assert!(judged.expect("reads").is_empty());
    let corpus = corpus_of(&stranger, "docs");
    let shown = tracker
        .retrieved_documents(&corpus, TimeWindow::ALL, None, 9)
        .await;
    assert_eq!(shown.expect("reads"), [document("x")]);
}

async fn pages(
    tracker: &Tracked,
    tenant: &TenantId,
    corpus: Option<&str>,
    window: TimeWindow,
    size: u32,
) -> Vec<RetrievalRecord> {
    let corpus = corpus.map(|name| corpus_of(tenant, name).corpus);
    let mut all: Vec<RetrievalRecord> = Vec::new();
    loop {
        let after = all.last().map(RecordPosition::of);
        let page = tracker
            .records(tenant, corpus.as_ref(), window, after, size)
            .await;
        let page = page.expect("reads");
        assert!(page.len() <= size as usize);
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Pages of every size have neither gaps nor repeats, at equal times too; windows are half-open.
pub async fn pages_have_no_gaps(tracker: Tracked) {
    let tenant = tenant();
    let mut chance = seeded(2);
    let mut batch = Vec::new();
    for n in 0..50 {
        let corpus = corpus_of(&tenant, if n % 3 == 0 { "a" } else { "b" });
        let mut record = random_record(&mut chance, &corpus);
        record.at = at(n / 7);
        batch.push(record);
    }
    tracker.record(&batch).await.expect("stored");
    batch.sort_by_key(RecordPosition::of);
    for size in [1, 7, 100] {
        let all = pages(&tracker, &tenant, None, TimeWindow::ALL, size).await;
        assert_eq!(shown(&all), shown(&batch), "{size}");
    }
    let window = TimeWindow::between(at(2), at(5));
    let of = |corpus: &str| {
        let own = batch.iter().filter(|r| r.corpus.corpus.as_str() == corpus);
        let own = own.filter(|r| (2..5).contains(&r.at.as_micros()));
        own.cloned().collect::<Vec<_>>()
    };
    for name in ["a", "b"] {
        let all = pages(&tracker, &tenant, Some(name), window, 3).await;
        assert_eq!(shown(&all), shown(&of(name)), "{name}");
    }
    documents_page(&tracker, &tenant, &of("b"), window).await;
}

async fn documents_page(
    tracker: &Tracked,
    tenant: &TenantId,
    records: &[RetrievalRecord],
    window: TimeWindow,
) {
    let shown = records.iter().flat_map(|record| record.documents());
    let mut expected: Vec<_> = shown.map(|chunk| chunk.document_id.clone()).collect();
    expected.sort();
    expected.dedup();
    let corpus = corpus_of(tenant, "b");
    let mut all = Vec::new();
    loop {
        let page = tracker
            .retrieved_documents(&corpus, window, all.last(), 2)
            .await;
        let page = page.expect("reads");
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert_eq!(all, expected);
}

/// The last judgement counts, on documents that the reply held; they are listed with their questions, page by page.
pub async fn feedback_follows_the_rules(tracker: Tracked) {
    let tenant = tenant();
    let corpus = corpus_of(&tenant, "docs");
    let mut first = record(&corpus, 1, "q1", &["a", "b", "a"]);
    first
        .chunks
        .push(chunk("dropped", 4, 0.1, ChunkFate::Limit));
    let second = record(&corpus, 1, "q2", &["a"]);
    let late = record(&corpus_of(&tenant, "more"), 9, "q3", &["a"]);
    let batch = [first.clone(), second.clone(), late.clone()];
    tracker.record(&batch).await.expect("stored");
    let give = |record: &RetrievalRecord, id: &str, outcome| {
        let (tracker, tenant) = (Arc::clone(&tracker), tenant.clone());
        let judgement = judgement(record, id, outcome);
        async move { tracker.feedback(&tenant, &judgement).await.expect("asked") }
    };
    use FeedbackOutcome::{HighlyRelevant, NotRelevant, PartiallyRelevant, Relevant};
    for (id, outcome) in [("a", NotRelevant), ("b", Relevant), ("a", HighlyRelevant)] {
        assert_eq!(give(&first, id, outcome).await, FeedbackReceipt::Stored);
    }
    for id in ["dropped", "never"] {
        assert_eq!(
            give(&first, id, Relevant).await,
            FeedbackReceipt::NotInReply
        );
    }
    let mut unknown = first.clone();
    unknown.id = RetrievalId::from_u128(1);
    let taken = give(&unknown, "a", Relevant).await;
    assert_eq!(taken, FeedbackReceipt::NoSuchRetrieval);
    let error = taken.into_result().expect_err("unknown");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let stored = tracker.feedback_of(&tenant, first.id).await.expect("reads");
    let outcomes: Vec<_> = stored.iter().map(|f| f.outcome).collect();
    assert_eq!(outcomes, [HighlyRelevant, Relevant]);
    assert_eq!(stored[0], judgement(&first, "a", HighlyRelevant));

    give(&second, "a", PartiallyRelevant).await;
    give(&late, "a", Relevant).await;
    let mut all = Vec::new();
    loop {
        let after = all.last().map(crate::model::JudgedQuery::position);
        let page = tracker
            .judgements(&tenant, None, TimeWindow::ALL, after.as_ref(), 1)
            .await;
        let page = page.expect("reads");
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let seen: Vec<_> = all
        .iter()
        .map(|j| (j.query.as_str(), j.feedback.outcome))
        .collect();
    let mut expected = vec![
        ("q1", HighlyRelevant),
        ("q1", Relevant),
        ("q2", PartiallyRelevant),
    ];
    if second.id < first.id {
        expected.rotate_left(2);
    }
    expected.push(("q3", Relevant));
    assert_eq!(seen, expected);
    let window = TimeWindow::between(at(1), at(9));
    let some = tracker
        .judgements(&tenant, Some(&corpus.corpus), window, None, 9)
        .await;
    assert_eq!(some.expect("reads").len(), 3);
}

/// An operator sees which corpora retrievals are kept of, and the database's clock.
pub async fn corpora_are_listed_and_time_is_told(tracker: Tracked) {
    let tenants = [tenant(), tenant()];
    let mut batch = Vec::new();
    for tenant in &tenants {
        for name in ["a", "b", "a-c"] {
            batch.push(record(&corpus_of(tenant, name), 1, "q", &[]));
            batch.push(record(&corpus_of(tenant, name), 2, "q", &[]));
        }
    }
    tracker.record(&batch).await.expect("stored");
    let mut expected: Vec<_> = batch.iter().map(|record| record.corpus.clone()).collect();
    expected.sort();
    expected.dedup();
    let mut listed = tracker.tracked_corpora().await.expect("reads");
    assert!(listed.is_sorted());
    listed.retain(|corpus| tenants.contains(&corpus.tenant));
    assert_eq!(listed, expected);
    let now = tracker.now().await.expect("reads").as_micros();
    let apart = (now - Timestamp::now().as_micros()).abs();
    assert!(apart < 60_000_000, "{apart} µs apart");
}
