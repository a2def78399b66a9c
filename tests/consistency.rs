//! Registry against store: what differs is found, what can be mended is.

use std::sync::Arc;

use ragbus::adapters::parse::TextParser;
use ragbus::ingest::{ConsistencyParts, IngestParts, IngestProcessor, NoObserver};
use ragbus::model::{
    ChunkInput, CorpusName, CorpusRef, DocumentId, IngestJob, IngestOperation, JobId, Metadata,
    PutChunks, TenantId,
};
use ragbus::spi::VectorStore;
use ragbus::tenancy::{Placement, TenancyStrategy};
use ragbus::testing::{MemoryBlobStore, MemoryRegistry, MemoryVectorStore, hash_models};

const TENANCY: TenancyStrategy = TenancyStrategy::Shared;

struct Desk {
    parts: ConsistencyParts,
    processor: IngestProcessor,
    store: Arc<MemoryVectorStore>,
}

fn desk() -> Desk {
    let (registry, store) = (
        Arc::new(MemoryRegistry::new()),
        Arc::new(MemoryVectorStore::new()),
    );
    let processor = IngestProcessor::new(IngestParts {
        registry: Arc::clone(&registry) as _,
        store: Arc::clone(&store) as _,
        models: hash_models(16),
        parser: Arc::new(TextParser),
        blobs: Arc::new(MemoryBlobStore::default()),
        tenancy: TENANCY,
        observer: Arc::new(NoObserver),
    });
    let parts = ConsistencyParts {
        registry,
        store: Arc::clone(&store) as _,
        tenancy: TENANCY,
    };
    Desk {
        parts,
        processor,
        store,
    }
}

fn corpus(tenant: &str) -> CorpusRef {
    CorpusRef::new(
        TenantId::mint(tenant).expect("valid"),
        CorpusName::new("docs").expect("valid"),
    )
}

fn document(id: &str) -> DocumentId {
    DocumentId::new(id).expect("valid")
}

async fn run(desk: &Desk, tenant: &str, sequence: u64, operation: IngestOperation) {
    let job = IngestJob {
        job_id: JobId::derive(None, sequence),
        corpus: corpus(tenant),
        sequence,
        attempt: 1,
        operation,
    };
    desk.processor.process(&job).await.expect("carried out");
}

fn put(id: &str, chunks: usize) -> IngestOperation {
    let chunk = |n| ChunkInput {
        content: format!("chunk {n} of {id}"),
        metadata: Metadata::default(),
    };
    IngestOperation::PutChunks(PutChunks {
        document_id: document(id),
        chunks: (0..chunks).map(chunk).collect(),
        metadata: Metadata::default(),
        expires_at: None,
    })
}

fn place(tenant: &str) -> Placement {
    TENANCY.place(&corpus(tenant), 1)
}

#[tokio::test]
async fn a_sound_corpus_is_clean_and_one_that_is_not_there_too() {
    let desk = desk();
    for (sequence, id) in (1..).zip(["a", "b", "c"]) {
        run(&desk, "t1", sequence, put(id, 3)).await;
    }
    run(
        &desk,
        "t1",
        9,
        IngestOperation::DeleteDocument(document("b")),
    )
    .await;
    let check = desk
        .parts
        .verify(&corpus("t1"), false)
        .await
        .expect("verified");
    assert!(check.is_clean());
    assert_eq!(
        (check.documents, check.registry_chunks, check.stored_points),
        (2, 6, 6)
    );
    let absent = desk
        .parts
        .verify(&corpus("t2"), true)
        .await
        .expect("verified");
    assert!(absent.is_clean());
}

#[tokio::test]
async fn stale_points_are_removed_and_nothing_of_others() {
    let desk = desk();
    run(&desk, "t1", 1, put("a", 2)).await;
    run(&desk, "t1", 2, put("gone", 1)).await;
    run(&desk, "t2", 3, put("a", 2)).await;
    let stale = desk
        .store
        .document_chunks(&place("t1"), &document("gone"), 2)
        .await;
    let ids: Vec<_> = stale.expect("read").iter().map(|c| c.id).collect();
    let late = desk.store.points(&place("t1"), &ids).await.expect("read");
    run(
        &desk,
        "t1",
        4,
        IngestOperation::DeleteDocument(document("gone")),
    )
    .await;
    // A write of a killed worker lands after everything.
    desk.store
        .upsert(&place("t1"), late)
        .await
        .expect("written");
    let found = desk
        .parts
        .verify(&corpus("t1"), false)
        .await
        .expect("verified");
    assert!(!found.is_clean());
    assert_eq!((found.registry_chunks, found.stored_points), (2, 3));
    let mended = desk
        .parts
        .verify(&corpus("t1"), true)
        .await
        .expect("verified");
    assert!(mended.is_clean());
    assert_eq!(mended.removed, 1);
    let other = desk
        .parts
        .verify(&corpus("t2"), false)
        .await
        .expect("verified");
    assert!(other.is_clean() && other.stored_points == 2);
}

#[tokio::test]
async fn missing_chunks_are_named_and_a_new_put_mends_them() {
    let desk = desk();
    run(&desk, "t1", 1, put("a", 3)).await;
    run(&desk, "t1", 2, put("b", 1)).await;
    desk.store
        .delete_below(&place("t1"), &document("a"), 99)
        .await
        .expect("deleted");
    let check = desk
        .parts
        .verify(&corpus("t1"), true)
        .await
        .expect("verified");
    assert!(!check.is_clean());
    assert_eq!(check.damaged_documents, 1);
    let damaged = &check.damaged[0];
    assert_eq!(
        (
            damaged.document_id.as_str(),
            damaged.expected,
            damaged.found
        ),
        ("a", 3, 0)
    );
    run(&desk, "t1", 3, put("a", 2)).await;
    assert!(
        desk.parts
            .verify(&corpus("t1"), false)
            .await
            .expect("verified")
            .is_clean()
    );
}
