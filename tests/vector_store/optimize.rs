//! Optimisation beside writes and queries, on enough points that the engine builds an index.

use super::*;

const WIDTH: u32 = 384;
const POINTS: u32 = 8_000;
/// How many documents are deleted beside the optimisation at most.
const DELETED: u64 = 400;

/// Fills a collection with documents of 8 chunks.
pub(super) async fn fill(store: &EdgeVectorStore, at: &Placement, points: u32) -> Vec<Duration> {
    store
        .ensure(at, &wide_schema(WIDTH))
        .await
        .expect("ensured");
    let mut took = Vec::new();
    for first in (0..points).step_by(128) {
        let batch = (first..points.min(first + 128))
            .map(|i| wide_point(&format!("doc-{}", i / 8), i % 8, 1, WIDTH));
        let batch = batch.collect();
        let began = Instant::now();
        store.upsert(at, batch).await.expect("upserted");
        took.push(began.elapsed());
    }
    took
}

/// The journal's path: it exists while an optimisation runs.
pub(super) fn journal(dir: &Path, at: &Placement) -> std::path::PathBuf {
    dir.join("collections")
        .join(&at.collection)
        .join("deletions.journal")
}

fn percentile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_whole_beside_writes_and_optimisation() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(EdgeConfig {
        optimize_after: u64::from(POINTS),
        ..EdgeConfig::new(dir.path())
    });
    let at = place("c");
    let mut filled = fill(&store, &at, POINTS - 48).await;
    let mut queried = Vec::new();
    for seed in 0..50 {
        let began = Instant::now();
        store
            .query(&at, &hybrid(WIDTH, seed, false))
            .await
            .expect("answered");
        queried.push(began.elapsed());
    }
    let mut single = Vec::new();
    for sequence in 2..42 {
        let began = Instant::now();
        let point = wide_point("doc-5", 0, sequence, WIDTH);
        store.upsert(&at, vec![point]).await.expect("upserted");
        single.push(began.elapsed());
    }
    // Past the threshold: an optimisation begins.
    let extra = (0..8).map(|i| wide_point("doc-extra", i, 1, WIDTH));
    store.upsert(&at, extra.collect()).await.expect("upserted");
    let journal = journal(dir.path(), &at);
    while !journal.exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let reader = tokio::spawn(watch(store.clone(), at.clone()));
    let (mut sequence, mut written) = (1, Vec::new());
    while journal.exists() || sequence < 20 {
        sequence += 1;
        let batch = (0..8)
            .map(|i| wide_point("doc-3", i, sequence, WIDTH))
            .collect();
        let began = Instant::now();
        store.upsert(&at, batch).await.expect("upserted");
        written.push(began.elapsed());
        if sequence <= DELETED {
            let name = format!("doc-{}", 10 + sequence);
            let gone = store.delete_below(&at, &document(&name), 9).await;
            assert_eq!(gone.expect("deleted"), 8);
        }
    }
    assert!(reader.await.expect("no panic") > 5);
    let expected = u64::from(POINTS) - 40 - 8 * (sequence.min(DELETED) - 1);
    assert_eq!(store.count(&at).await.expect("counted"), expected);
    until(&store, "counted alike", |stats| stats.points == expected).await;
    eprintln!(
        "upsert of 1 + flush p50 {:?}, of 128 {:?}; hybrid p50 {:?}, p99 {:?}; beside an optimisation: {} upserts of 8, p50 {:?}, max {:?}",
        percentile(&mut single, 0.5),
        percentile(&mut filled, 0.5),
        percentile(&mut queried, 0.5),
        percentile(&mut queried, 0.99),
        written.len(),
        percentile(&mut written, 0.5),
        percentile(&mut written, 1.0),
    );

    // In an indexed segment too, a replaced point keeps nothing of the old one.
    let mut bare = wide_point("doc-900", 0, 2, WIDTH);
    bare.vectors.sparse = SparseVector::default();
    store
        .upsert(&at, vec![bare.clone()])
        .await
        .expect("upserted");
    let read = store
        .points(&at, &[bare.stored.id])
        .await
        .expect("read")
        .remove(0);
    assert_eq!(read.stored, bare.stored);
    assert!(read.vectors.sparse.is_empty(), "no stale vector");
    store.close().await.expect("closed");
}

/// Reads a document that is being replaced: all of it, always, in one sequence or two. Ends after a while.
async fn watch(store: Arc<EdgeVectorStore>, at: Placement) -> u32 {
    let ids: Vec<_> = (0..8)
        .map(|i| wide_point("doc-3", i, 1, 8).stored.id)
        .collect();
    for round in 0..200 {
        let read = store.points(&at, &ids).await.expect("read");
        assert_eq!(read.len(), 8, "never less than the document");
        let answer = store
            .query(&at, &hybrid(WIDTH, round, true))
            .await
            .expect("answered");
        assert!(answer.fused.len() >= 100);
        tokio::task::yield_now().await;
    }
    200
}
