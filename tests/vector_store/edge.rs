//! What only the embedded store promises: group commit, idle closing, reopening, compaction, repair, isolation.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ragbus::adapters::edge::{EdgeConfig, EdgeVectorStore};
use ragbus::error::ErrorKind;
use ragbus::model::{
    CollectionSchema, CorpusName, CorpusRef, DocumentId, Leg, SparseVector, TenantId,
};
use ragbus::spi::{FusionMethod, HybridQuery, LegQuery, LegVector, Point, VectorStore};
use ragbus::tenancy::{Placement, TenancyStrategy};
use ragbus::testing::contract::vector_store::{Desk, SplitMix, put, schema};

#[path = "damage.rs"]
mod damage;
#[path = "kill.rs"]
mod kill;
#[path = "optimize.rs"]
mod optimize;

const PATIENCE: Duration = Duration::from_secs(40);

/// Where the tests of one folder put things.
fn place(corpus: &str) -> Placement {
    let tenant = TenantId::mint("acme").expect("valid");
    let corpus = CorpusRef::new(tenant, CorpusName::new(corpus).expect("valid"));
    TenancyStrategy::Separate.place(&corpus, 1)
}

fn wide_schema(dimension: u32) -> CollectionSchema {
    CollectionSchema {
        dimension,
        ..schema()
    }
}

fn document(id: &str) -> DocumentId {
    DocumentId::new(id).expect("valid")
}

/// A point with random vectors; the id depends on document and ordinal only.
fn wide_point(document: &str, ordinal: u32, sequence: u64, dimension: u32) -> Point {
    let id = document
        .bytes()
        .fold(u128::from(ordinal) << 64, |id, byte| {
            id * 31 + u128::from(byte)
        });
    let mut random = SplitMix(id as u64 ^ (id >> 64) as u64 ^ (sequence << 40));
    let dense = (0..dimension).map(|_| random.unit() - 0.5).collect();
    let mut point = put(
        ragbus::model::ChunkId(id),
        document,
        ordinal,
        sequence,
        dense,
    );
    let mut indices: Vec<u32> = (0..40).map(|_| random.below(3_000) as u32).collect();
    indices.sort_unstable();
    indices.dedup();
    let values = indices.iter().map(|_| 0.1 + random.unit()).collect();
    point.vectors.sparse = SparseVector { indices, values };
    point
}

fn hybrid(dimension: u32, seed: u64, rank_legs: bool) -> HybridQuery {
    let Point { vectors, .. } = wide_point("query", seed as u32, 1, dimension);
    let leg = |leg, vector| LegQuery {
        leg,
        vector,
        limit: 100,
        min_score: None,
    };
    HybridQuery {
        legs: vec![
            leg(Leg::Dense, LegVector::Dense(vectors.dense)),
            leg(Leg::Sparse, LegVector::Sparse(vectors.sparse)),
        ],
        filter: None,
        fusion: Some(FusionMethod::Rrf { k: 60 }),
        rank_legs,
    }
}

fn open(config: EdgeConfig) -> Arc<EdgeVectorStore> {
    Arc::new(EdgeVectorStore::open(config).expect("opened"))
}

/// Waits for a condition on the only collection's figures.
async fn until(
    store: &EdgeVectorStore,
    what: &str,
    holds: impl Fn(&ragbus::adapters::edge::CollectionStats) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = store.stats().await.expect("stats");
        if stats.iter().all(&holds) {
            return;
        }
        assert!(Instant::now() < deadline, "not {what}: {stats:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_upserts_share_flushes() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(EdgeConfig::new(dir.path()));
    let at = place("c");
    store.ensure(&at, &schema()).await.expect("ensured");
    let before = store.write_flushes();
    let jobs = (0..64).map(|i| {
        let (store, at) = (store.clone(), at.clone());
        tokio::spawn(async move {
            store
                .upsert(&at, vec![wide_point("d", i, 1, 8)])
                .await
                .expect("upserted");
        })
    });
    for job in jobs.collect::<Vec<_>>() {
        job.await.expect("no panic");
    }
    let flushes = store.write_flushes() - before;
    assert_eq!(store.count(&at).await.expect("counted"), 64);
    assert!(flushes <= 32, "{flushes} flushes for 64 upserts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_waiting_writes_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(EdgeConfig {
        max_queued: 1,
        ..EdgeConfig::new(dir.path())
    });
    let at = place("c");
    store.ensure(&at, &schema()).await.expect("ensured");
    let jobs = (0..32).map(|i| {
        let (store, at) = (store.clone(), at.clone());
        tokio::spawn(async move { store.upsert(&at, vec![wide_point("d", i, 1, 8)]).await })
    });
    let mut refused = 0;
    for job in jobs.collect::<Vec<_>>() {
        if let Err(error) = job.await.expect("no panic") {
            assert_eq!(error.kind(), ErrorKind::Overloaded);
            refused += 1;
        }
    }
    assert_eq!(store.count(&at).await.expect("counted"), 32 - refused);
    store
        .upsert(&at, vec![wide_point("e", 0, 1, 8)])
        .await
        .expect("room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_shards_close_and_open_on_demand() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = EdgeConfig {
        idle_close: Duration::from_millis(50),
        ..EdgeConfig::new(dir.path())
    };
    let store = open(config);
    let at = place("c");
    store.ensure(&at, &schema()).await.expect("ensured");
    for round in 1..4 {
        store
            .upsert(&at, vec![wide_point("d", 0, round, 8)])
            .await
            .expect("upserted");
        until(&store, "closed", |stats| !stats.open).await;
        let answer = store
            .query(&at, &hybrid(8, 1, false))
            .await
            .expect("answered");
        assert_eq!(answer.fused[0].stored.sequence, round);
        until(&store, "closed", |stats| !stats.open).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_after_reopening() {
    let dir = tempfile::tempdir().expect("a folder");
    let points: Vec<Point> = (0..50).map(|i| wide_point("d", i, 3, 8)).collect();
    let (first, dropped) = (place("c"), place("dropped"));
    for round in 0..3 {
        let store = open(EdgeConfig::new(dir.path()));
        if round == 0 {
            for at in [&first, &dropped] {
                store.ensure(at, &schema()).await.expect("ensured");
                store.upsert(at, points.clone()).await.expect("upserted");
            }
            store.drop_generation(&dropped).await.expect("dropped");
        }
        assert_eq!(store.count(&first).await.expect("counted"), 50);
        let info = store
            .describe(&first.corpus)
            .await
            .expect("described")
            .expect("exists");
        assert_eq!((info.generation, info.schema), (1, schema()));
        assert_eq!(
            store.describe(&dropped.corpus).await.expect("described"),
            None
        );
        let again = store
            .ensure(&dropped, &schema())
            .await
            .expect_err("refused");
        assert_eq!(again.kind(), ErrorKind::NotFound);
        let read = store
            .document_chunks(&first, &document("d"), 3)
            .await
            .expect("read");
        assert_eq!(
            read,
            points.iter().map(|p| p.stored.clone()).collect::<Vec<_>>()
        );
        store.close().await.expect("closed");
        let left: Vec<_> = names(&dir.path().join("collections"));
        assert_eq!(
            left,
            std::slice::from_ref(&first.collection),
            "the dropped folder is gone"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_logs_are_compacted_when_opened_and_when_idle() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = place("c");
    let points: Vec<Point> = (0..300).map(|i| wide_point("d", i, 3, 8)).collect();
    let ids: Vec<_> = points.iter().map(|point| point.stored.id).collect();
    let store = open(EdgeConfig::new(dir.path()));
    store.ensure(&at, &schema()).await.expect("ensured");
    store.upsert(&at, points.clone()).await.expect("upserted");
    until(&store, "never copied", |stats| {
        stats.copies == 0 && stats.wal_bytes > 0
    })
    .await;
    let before = store.points(&at, &ids).await.expect("read");
    store.close().await.expect("closed");

    let config = EdgeConfig {
        wal_floor: 0,
        wal_factor: 0,
        ..EdgeConfig::new(dir.path())
    };
    let store = open(config.clone());
    assert_eq!(store.count(&at).await.expect("counted"), 300);
    until(&store, "copied once", |stats| stats.copies == 1).await;
    assert_eq!(
        store.points(&at, &ids).await.expect("read"),
        before,
        "vectors and payload"
    );
    assert_eq!(
        names(&dir.path().join("collections").join(&at.collection)),
        ["ragbus.json", "shard-2"]
    );
    store
        .upsert(&at, vec![wide_point("d", 0, 4, 8)])
        .await
        .expect("upserted");
    assert_eq!(
        store
            .document_chunks(&at, &document("d"), 4)
            .await
            .expect("read")
            .len(),
        1
    );
    store.close().await.expect("closed");

    let store = open(EdgeConfig {
        idle_close: Duration::from_millis(50),
        ..config
    });
    assert_eq!(store.count(&at).await.expect("counted"), 300);
    until(&store, "copied when idle", |stats| {
        stats.copies >= 3 && !stats.open
    })
    .await;
    assert_eq!(
        store
            .document_chunks(&at, &document("d"), 4)
            .await
            .expect("read")
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_collections_have_no_lexical_leg() {
    let dir = tempfile::tempdir().expect("a folder");
    let store: Arc<dyn VectorStore> = open(EdgeConfig::new(dir.path()));
    let desk = Desk::new(&store, TenancyStrategy::Shared, "acme", "c");
    desk.create().await;
    let mut query = hybrid(8, 1, false);
    query.legs[1].leg = Leg::Bm25;
    let error = store.query(&desk.at, &query).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidField);
    assert_eq!(error.field(), Some("retrieval.legs"));
}

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}
