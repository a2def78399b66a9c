//! Storing, reading and judging: once, whole, and each tenant by itself.

use std::sync::Arc;

use super::{
    Tracked, at, chunk, corpus_of, document, judgement, odd_record, random_record, record, seeded,
    shown, tenant,
};
use crate::error::ErrorKind;
use crate::model::{
    ChunkFate, FeedbackOutcome, FeedbackReceipt, JudgedQuery, RecordPosition, RetrievalId,
    RetrievalRecord, TenantId, TimeWindow, TrackedEnd, TrackedQuery,
};

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
    assert_eq!(
        tracker
            .record(std::slice::from_ref(&broken))
            .await
            .expect("kept"),
        1
    );
    let found = tracker.find(&tenant, broken.id).await.expect("reads");
    let found = found.expect("there");
    assert_eq!(shown(&found), shown(&broken.storable()));
    assert_eq!(found.query.as_str(), "a\u{fffd}b");
    assert!(found.chunks[0].relevance.is_nan() && found.chunks[0].signals.fused.is_none());
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
    tracker
        .record(std::slice::from_ref(&own))
        .await
        .expect("stored");
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
    let judged = judged_pages(&tracker, &tenant).await;
    let seen = judged
        .iter()
        .map(|j| (j.query.as_str(), j.feedback.outcome));
    let mut expected = vec![
        ("q1", HighlyRelevant),
        ("q1", Relevant),
        ("q2", PartiallyRelevant),
    ];
    if second.id < first.id {
        expected.rotate_left(2);
    }
    expected.push(("q3", Relevant));
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    let window = TimeWindow::between(at(1), at(9));
    let some = tracker
        .judgements(&tenant, Some(&corpus.corpus), window, None, 9)
        .await;
    assert_eq!(some.expect("reads").len(), 3);
}

async fn judged_pages(tracker: &Tracked, tenant: &TenantId) -> Vec<JudgedQuery> {
    let mut all: Vec<JudgedQuery> = Vec::new();
    loop {
        let after = all.last().map(JudgedQuery::position);
        let page = tracker
            .judgements(tenant, None, TimeWindow::ALL, after.as_ref(), 1)
            .await;
        let page = page.expect("reads");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}
