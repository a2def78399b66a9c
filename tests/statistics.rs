//! What is made of tracked retrievals beyond counting, over whole ports in memory.

use std::collections::{BTreeMap, BTreeSet};

use ragbus::model::{
    CorpusRef, DocumentId, Hashes, IngestResult, IngestStatus, Metadata, ModelPair, TimeWindow,
    Timestamp, Written,
};
use ragbus::spi::{DocumentRegistry, RetrievalAnalysis, RetrievalTracker};
use ragbus::testing::contract::tracker::{a_corpus, busy_record};
use ragbus::testing::{MemoryRegistry, MemoryTracker};
use ragbus::tracking::{timeline, unretrieved_documents};

fn document(number: usize) -> DocumentId {
    // Lengths differ, so that bytes and numbers are in different orders.
    DocumentId::new(&format!("manuals/{number}")).expect("valid")
}

async fn put(registry: &MemoryRegistry, corpus: &CorpusRef, id: &DocumentId, sequence: u64) {
    let hashes = Hashes {
        content: "c".into(),
        metadata: "m".into(),
        pipeline: "p".into(),
    };
    let models = ModelPair {
        dense: "d".into(),
        sparse: "s".into(),
    };
    let result = IngestResult {
        job_id: format!("seq-{sequence}"),
        corpus: corpus.corpus.as_str().into(),
        document_id: id.as_str().into(),
        status: IngestStatus::Indexed,
        sequence,
        chunks: 1,
        chunks_deleted: 0,
        truncated_tokens: 0,
        warnings: Vec::new(),
        error: None,
        timings: BTreeMap::new(),
        attempt: 1,
    };
    let begun = registry.begin_put(corpus, id, &hashes, &models, &result);
    let written = Written {
        generation: begun.await.expect("begins").generation,
        hashes,
        chunks: 1,
        expires_at: None,
        metadata: Metadata::default(),
        result,
    };
    let done = registry.finish_put(corpus, id, &written).await;
    done.expect("ends");
}

/// Pages have no gaps and no double, whatever their size, and a retrieval outside the window doesn't count.
#[tokio::test]
async fn pages_of_documents_never_retrieved_add_up() {
    const DOCUMENTS: usize = 1_300;
    let (registry, tracker) = (MemoryRegistry::new(), MemoryTracker::new());
    let corpus = a_corpus();
    for number in 0..DOCUMENTS {
        put(&registry, &corpus, &document(number), number as u64 + 1).await;
    }
    let mut expected: BTreeSet<DocumentId> = (0..DOCUMENTS).map(document).collect();
    for number in (0..DOCUMENTS).step_by(3) {
        let mut record = busy_record(&corpus, number as i64, number);
        record.chunks.truncate(1);
        record.chunks[0].document_id = document(number);
        tracker.record(&[record]).await.expect("stored");
        if number < 1_000 {
            expected.remove(&document(number));
        }
    }
    let window = TimeWindow {
        since: None,
        until: Some(Timestamp::from_micros(1_000)),
    };
    for size in [1, 7, 500, 5_000] {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = unretrieved_documents(&registry, &tracker, &corpus, window, after, size);
            let page = page.await.expect("read");
            assert!(page.documents.len() <= size as usize);
            found.extend(page.documents.into_iter().map(|entry| entry.document_id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!(found.iter().eq(&expected), "pages of {size}");
    }
}

/// Slices add up to the whole, with open ends and with given ones.
#[tokio::test]
async fn a_timeline_adds_up() {
    let tracker = MemoryTracker::new();
    let corpus = a_corpus();
    let records: Vec<_> = (0..97)
        .map(|n| busy_record(&corpus, n * n * 1_000, 1))
        .collect();
    tracker.record(&records).await.expect("stored");
    let some = TimeWindow::between(
        Timestamp::from_micros(5_000),
        Timestamp::from_micros(9_000_000),
    );
    for window in [TimeWindow::ALL, some] {
        let slices = timeline(&tracker, &corpus, window, 24)
            .await
            .expect("counted");
        assert_eq!(slices.len(), 24);
        let sum: u64 = slices.iter().map(|(_, totals)| totals.retrievals).sum();
        let whole = tracker.totals(&corpus, window).await.expect("counted");
        assert_eq!(sum, whole.retrievals);
    }
    let nothing = timeline(&tracker, &a_corpus(), TimeWindow::ALL, 24).await;
    assert!(nothing.expect("counted").is_empty());
}
