//! Lists: page by page, in windows, and of everything there is.

use super::{Tracked, at, corpus_of, random_record, record, seeded, shown, tenant};
use crate::model::{RecordPosition, RetrievalRecord, TenantId, TimeWindow, Timestamp};

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
    for tenant in &tenants {
        let own = tracker.corpora_of(tenant).await.expect("reads");
        let names: Vec<_> = own.iter().map(|name| name.as_str()).collect();
        assert_eq!(names, ["a", "a-c", "b"]);
    }
    assert!(
        tracker
            .corpora_of(&tenant())
            .await
            .expect("reads")
            .is_empty()
    );
    let now = tracker.now().await.expect("reads").as_micros();
    let apart = (now - Timestamp::now().as_micros()).abs();
    assert!(apart < 60_000_000, "{apart} µs apart");
}
