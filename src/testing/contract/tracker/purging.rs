//! Forgetting: exactly what is due, nothing of anybody else, in batches that can stop anywhere.

use std::sync::Arc;

use super::{Tracked, at, corpus_of, document, judgement, random_record, record, seeded, tenant};
use crate::model::{
    FeedbackOutcome, FeedbackReceipt, PurgeScope, RecordPosition, RetrievalRecord, TenantId,
    TimeWindow, TrackingCounts,
};

fn counts<'a>(records: impl IntoIterator<Item = &'a RetrievalRecord>) -> TrackingCounts {
    let mut all = TrackingCounts::default();
    for record in records {
        all.add(TrackingCounts {
            retrievals: 1,
            chunks: record.chunks.len() as u64,
            documents: record.documents().len() as u64,
            feedback: 0,
        });
    }
    all
}

async fn left(tracker: &Tracked, tenant: &TenantId) -> Vec<RetrievalRecord> {
    let all = tracker
        .records(tenant, None, TimeWindow::ALL, None, 10_000)
        .await;
    all.expect("reads")
}

/// Strictly older ones go with all that hangs on them, and the counts say so, before and after; a retrieval at the cutoff,
/// another corpus and another tenant stay.
pub async fn a_purge_is_strict_and_exact(tracker: Tracked) {
    let (owner, other) = (tenant(), tenant());
    let corpus = corpus_of(&owner, "docs");
    let mut chance = seeded(3);
    let mut batch: Vec<RetrievalRecord> = Vec::new();
    for n in 0..40 {
        let mut record = random_record(&mut chance, &corpus);
        record.at = at(80 + n);
        batch.push(record);
    }
    let neighbour = record(&corpus_of(&owner, "more"), 1, "q", &["a"]);
    let foreign = record(&corpus_of(&other, "docs"), 1, "q", &["a"]);
    let strangers = [neighbour.clone(), foreign.clone()];
    tracker.record(&batch).await.expect("stored");
    tracker.record(&strangers).await.expect("stored");
    let due: Vec<_> = batch.iter().filter(|r| r.at < at(100)).collect();
    let judged = due.iter().find(|r| r.returned().next().is_some());
    let judged = *judged.expect("one with a reply");
    let shown = judged.documents()[0].document_id.as_str().to_owned();
    let good = judgement(judged, &shown, FeedbackOutcome::Relevant);
    tracker.feedback(&owner, &good).await.expect("stored");

    let scope = PurgeScope::of_corpus(&corpus, at(100));
    let mut expected = counts(due.iter().copied());
    expected.feedback = 1;
    let forecast = tracker.purge_forecast(&scope).await.expect("counted");
    assert_eq!((forecast.removed, forecast.held), (expected, 0));
    assert_eq!((forecast.total, forecast.share()), (40, 0.5));
    assert_eq!(
        tracker.purge_older_than(&scope).await.expect("purged"),
        expected
    );
    let again = tracker.purge_older_than(&scope).await.expect("purged");
    assert_eq!(again, TrackingCounts::default());

    let stays: Vec<_> = batch.iter().filter(|r| r.at >= at(100)).collect();
    let found = left(&tracker, &owner).await;
    assert_eq!(found.len(), stays.len() + 1);
    assert!(found.contains(&neighbour));
    assert_eq!(left(&tracker, &other).await, [foreign]);
    let gone = tracker.feedback(&owner, &good).await.expect("asked");
    assert_eq!(gone, FeedbackReceipt::NoSuchRetrieval);
    assert!(
        tracker
            .feedback_of(&owner, judged.id)
            .await
            .expect("reads")
            .is_empty()
    );
    // Stored again, nothing old hangs on it: what hung on it was gone too.
    tracker
        .record(std::slice::from_ref(judged))
        .await
        .expect("stored");
    assert!(
        tracker
            .feedback_of(&owner, judged.id)
            .await
            .expect("reads")
            .is_empty()
    );
    let found = tracker.find(&owner, judged.id).await.expect("reads");
    assert_eq!(found.expect("there").chunks.len(), judged.chunks.len());
}

/// A purge of a whole tenant takes all its corpora; retrievals whose reply held a held document stay.
pub async fn holds_spare_what_replies_held(tracker: Tracked) {
    let owner = tenant();
    let (docs, more) = (corpus_of(&owner, "docs"), corpus_of(&owner, "more"));
    let evidence = record(&docs, 1, "q", &["a", "held ä"]);
    let batch = [
        evidence.clone(),
        record(&docs, 2, "q", &["a"]),
        record(&more, 3, "q", &["b"]),
    ];
    tracker.record(&batch).await.expect("stored");
    for (record, id) in [(&batch[0], "a"), (&batch[1], "a")] {
        let given = judgement(record, id, FeedbackOutcome::Relevant);
        tracker.feedback(&owner, &given).await.expect("stored");
    }
    let held = vec![document("held ä"), document("elsewhere")];
    let scope = PurgeScope::of_tenant(&owner, at(50)).sparing(held);
    let mut expected = counts(&batch[1..]);
    expected.feedback = 1;
    let forecast = tracker.purge_forecast(&scope).await.expect("counted");
    assert_eq!(forecast.removed, expected);
    assert_eq!((forecast.held, forecast.total), (1, 3));
    assert_eq!(
        tracker.purge_older_than(&scope).await.expect("purged"),
        expected
    );
    assert_eq!(left(&tracker, &owner).await, [evidence]);
}

/// Batches look at no more than they may, tell where the next begins, and add up wherever a purge was stopped.
pub async fn a_purge_goes_on_where_it_stopped(tracker: Tracked) {
    let owner = tenant();
    let corpus = corpus_of(&owner, "docs");
    let mut chance = seeded(4);
    let random = |_| random_record(&mut chance, &corpus);
    let batch: Vec<RetrievalRecord> = (0..25).map(random).collect();
    tracker.record(&batch).await.expect("stored");
    let scope = PurgeScope::of_tenant(&owner, at(1_000_000));
    let mut sum = TrackingCounts::default();
    let first = tracker.purge_batch(&scope, None, 7).await.expect("purged");
    sum.add(first.removed);
    assert_eq!(sum.retrievals, 7);
    let mut sorted: Vec<RecordPosition> = batch.iter().map(RecordPosition::of).collect();
    sorted.sort();
    assert_eq!(first.next, Some(sorted[6]));
    // The worker died and forgot its place: beginning again does the rest.
    let mut after = None;
    loop {
        let next = tracker.purge_batch(&scope, after, 7).await.expect("purged");
        assert!(next.removed.retrievals <= 7);
        sum.add(next.removed);
        after = next.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(sum, counts(&batch));
    assert!(left(&tracker, &owner).await.is_empty());
}

/// All of a tenant goes, the newest and the oldest moment too, and nothing of others.
pub async fn a_tenant_is_forgotten(tracker: Tracked) {
    let (owner, other) = (tenant(), tenant());
    let mut batch = Vec::new();
    for (n, name) in ["a", "b", "c"].iter().enumerate() {
        let mut record = record(&corpus_of(&owner, name), n as i64, "q", &["d", "e"]);
        if n == 0 {
            record.at = at(i64::MAX);
        }
        batch.push(record);
    }
    tracker.record(&batch).await.expect("stored");
    let foreign = record(&corpus_of(&other, "a"), 1, "q", &["d"]);
    tracker
        .record(std::slice::from_ref(&foreign))
        .await
        .expect("stored");
    let everything = PurgeScope::everything(&owner);
    let removed = tracker.purge_older_than(&everything).await.expect("purged");
    assert_eq!(removed, counts(&batch));
    let forecast = tracker.purge_forecast(&everything).await.expect("counted");
    assert_eq!(forecast.total, 0);
    let listed = tracker.tracked_corpora().await.expect("reads");
    assert!(listed.iter().all(|corpus| corpus.tenant != owner));
    assert_eq!(left(&tracker, &other).await, [foreign]);
}

/// Two purges and a writer at once: nothing due stays, nothing else goes, and what was removed is counted once.
pub async fn inserts_and_purges_do_not_tear(tracker: Tracked) {
    let owner = tenant();
    let corpus = corpus_of(&owner, "docs");
    let mut chance = seeded(5);
    let mut old: Vec<RetrievalRecord> = (0..300)
        .map(|_| random_record(&mut chance, &corpus))
        .collect();
    old.sort_by_key(RecordPosition::of);
    tracker.record(&old).await.expect("stored");
    let scope = PurgeScope::of_corpus(&corpus, at(5_000));
    let purge = |tracker: Tracked, scope: PurgeScope| async move {
        let mut removed = TrackingCounts::default();
        let mut after = None;
        loop {
            let batch = tracker
                .purge_batch(&scope, after, 20)
                .await
                .expect("purged");
            removed.add(batch.removed);
            after = batch.next;
            if after.is_none() {
                return removed;
            }
        }
    };
    let purges = [0, 1].map(|_| tokio::spawn(purge(Arc::clone(&tracker), scope.clone())));
    let mut fresh = Vec::new();
    for n in 0..20 {
        fresh.push(record(&corpus, 5_000 + n, "new", &["a", "b"]));
        tracker
            .record(&fresh[fresh.len() - 1..])
            .await
            .expect("stored");
    }
    let mut removed = TrackingCounts::default();
    for purge in purges {
        removed.add(purge.await.expect("ran"));
    }
    assert_eq!(removed, counts(&old));
    assert_eq!(left(&tracker, &owner).await, fresh);
}
