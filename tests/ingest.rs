//! The ingest code over memory ports: what a job changes, what it must not, and what it costs.

use std::sync::Arc;

use ragbus::adapters::parse::TextParser;
use ragbus::error::ErrorKind;
use ragbus::ingest::{IngestParts, IngestProcessor, NoObserver};
use ragbus::model::{
    Chunking, CorpusName, CorpusRef, DocumentId, IngestJob, IngestOperation, IngestResult,
    IngestStatus, JobId, LimitBook, Metadata, MetadataValue, PutBody, PutDocument, TenantId,
    TenantLimits,
};
use ragbus::spi::{DenseEncoder, DocumentRegistry, ModelSets, VectorStore};
use ragbus::tenancy::TenancyStrategy;
use ragbus::testing::encoders::{FaultyEncoder, HashDenseEncoder};
use ragbus::testing::{
    FaultyStore, MemoryBlobStore, MemoryRegistry, MemoryVectorStore, WriteFault, hash_set_over,
};

struct Desk {
    processor: IngestProcessor,
    registry: Arc<MemoryRegistry>,
    store: FaultyStore,
    dense: Arc<FaultyEncoder<dyn DenseEncoder>>,
    corpus: CorpusRef,
}

fn desk() -> Desk {
    let registry = Arc::new(MemoryRegistry::new());
    let store = FaultyStore::new(Arc::new(MemoryVectorStore::new()));
    let dense: Arc<dyn DenseEncoder> = Arc::new(HashDenseEncoder::new("dense-hash", 16, 256));
    let dense = Arc::new(FaultyEncoder::new(dense, []));
    let processor = IngestProcessor::new(IngestParts {
        registry: Arc::clone(&registry) as Arc<dyn DocumentRegistry>,
        store: Arc::new(store.clone()),
        models: ModelSets::of(hash_set_over(Arc::clone(&dense) as _)),
        parser: Arc::new(TextParser),
        blobs: Arc::new(MemoryBlobStore::default()),
        tenancy: TenancyStrategy::Separate,
        observer: Arc::new(NoObserver),
    });
    let corpus = CorpusRef::new(
        TenantId::mint("acme").expect("valid"),
        CorpusName::new("docs").expect("valid"),
    );
    Desk {
        processor,
        registry,
        store,
        dense,
        corpus,
    }
}

fn document() -> DocumentId {
    DocumentId::new("d").expect("valid")
}

fn put(text: &str, media_type: &str, year: f64) -> PutDocument {
    let year = [("year".to_owned(), MetadataValue::Number(year))];
    PutDocument {
        document_id: document(),
        body: PutBody::Text(text.into()),
        media_type: media_type.into(),
        file_name: String::new(),
        metadata: Metadata::new("metadata", year.into()).expect("valid"),
        expires_at: None,
        chunking: Chunking {
            max_tokens: 4,
            overlap_tokens: 0,
        },
    }
}

impl Desk {
    async fn run(
        &self,
        sequence: u64,
        operation: IngestOperation,
    ) -> ragbus::error::Result<IngestResult> {
        let job = IngestJob {
            job_id: JobId::derive(None, sequence),
            corpus: self.corpus.clone(),
            sequence,
            attempt: 1,
            operation,
        };
        self.processor.process(&job).await
    }

    async fn put(&self, sequence: u64, text: &str, year: f64) -> IngestResult {
        let operation = IngestOperation::PutDocument(put(text, "", year));
        self.run(sequence, operation).await.expect("done")
    }
}

const TEXT: &str = "one two three four five six seven eight nine ten";

#[tokio::test]
async fn a_body_that_cannot_be_read_changes_nothing() {
    let desk = desk();
    let pdf = || IngestOperation::PutDocument(put(TEXT, "application/pdf", 1.0));
    let error = desk.run(5, pdf()).await.expect_err("refused");
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::InvalidField, Some("mediaType"))
    );
    assert!(
        desk.registry
            .corpora(&desk.corpus.tenant)
            .await
            .expect("lists")
            .is_empty()
    );
    assert_eq!(
        desk.store.describe(&desk.corpus).await.expect("reads"),
        None
    );
    assert_eq!(desk.put(6, TEXT, 1.0).await.status, IngestStatus::Indexed);
    desk.run(7, pdf()).await.expect_err("refused");
    assert_eq!(desk.put(8, TEXT, 1.0).await.status, IngestStatus::Unchanged);
}

#[tokio::test]
async fn unchanged_and_metadata_only_puts_run_no_model() {
    let desk = desk();
    let first = desk.put(5, TEXT, 1.0).await;
    assert_eq!((first.status, first.chunks), (IngestStatus::Indexed, 3));
    let texts = desk.dense.texts();
    assert_eq!(desk.put(6, TEXT, 1.0).await.status, IngestStatus::Unchanged);
    let other = desk.put(7, TEXT, 2.0).await;
    assert_eq!(
        (other.status, other.chunks),
        (IngestStatus::MetadataUpdated, 3)
    );
    assert_eq!(desk.dense.texts(), texts, "no text went through a model");
    let at = TenancyStrategy::Separate.place(&desk.corpus, 1);
    let chunks = desk
        .store
        .document_chunks(&at, &document(), 7)
        .await
        .expect("reads");
    assert!(
        chunks
            .iter()
            .all(|c| c.chunk.metadata.get("year") == Some(&MetadataValue::Number(2.0)))
    );
    assert_eq!(chunks.len(), 3);
}

#[tokio::test]
async fn a_replacement_counts_and_removes_what_is_left_over() {
    let desk = desk();
    desk.put(5, TEXT, 1.0).await;
    let shorter = desk.put(6, "one two", 1.0).await;
    assert_eq!((shorter.chunks, shorter.chunks_deleted), (1, 2));
    let at = TenancyStrategy::Separate.place(&desk.corpus, 1);
    assert_eq!(desk.store.count(&at).await.expect("counts"), 1);
    let gone = desk
        .run(7, IngestOperation::DeleteDocument(document()))
        .await
        .expect("done");
    assert_eq!(
        (gone.status, gone.chunks_deleted),
        (IngestStatus::Deleted, 1)
    );
    assert_eq!(desk.store.count(&at).await.expect("counts"), 0);
}

#[tokio::test]
async fn a_full_tenant_replaces_and_deletes_and_puts_nothing_new() {
    let mut desk = desk();
    let limits = TenantLimits {
        documents: Some(1),
        ..TenantLimits::default()
    };
    let book = LimitBook {
        default: limits,
        ..LimitBook::default()
    };
    desk.processor = desk.processor.limited(Arc::new(book));
    desk.put(5, TEXT, 1.0).await;
    let other = || {
        let mut other = put(TEXT, "", 1.0);
        other.document_id = DocumentId::new("other").expect("valid");
        IngestOperation::PutDocument(other)
    };
    let texts = desk.dense.texts();
    let error = desk.run(6, other()).await.expect_err("full");
    assert_eq!(
        (error.kind(), error.stage()),
        (ErrorKind::TenantLimit, Some("begin"))
    );
    assert_eq!(desk.dense.texts(), texts, "no model ran");
    assert_eq!(desk.put(7, TEXT, 2.0).await.chunks, 3, "a replacement");
    let again = desk.put(7, TEXT, 2.0).await;
    assert_eq!(
        again.status,
        IngestStatus::MetadataUpdated,
        "the same again"
    );
    let delete = IngestOperation::DeleteDocument(document());
    let deleted = desk.run(8, delete).await.expect("done");
    assert_eq!(deleted.status, IngestStatus::Deleted);
    let put = desk.run(9, other()).await.expect("there is room");
    assert_eq!(put.status, IngestStatus::Indexed);
}

#[tokio::test]
async fn a_failed_write_is_a_dependency_and_the_next_try_mends_it() {
    let desk = desk();
    desk.store.then(WriteFault::Fails);
    let operation = IngestOperation::PutDocument(put(TEXT, "", 1.0));
    let error = desk.run(5, operation.clone()).await.expect_err("failed");
    assert_eq!(
        (error.kind(), error.stage()),
        (ErrorKind::DependencyFailed, Some("store"))
    );
    desk.store.set_down(true);
    assert!(desk.run(5, operation.clone()).await.is_err());
    desk.store.set_down(false);
    let mended = desk.run(5, operation.clone()).await.expect("done");
    assert_eq!((mended.status, mended.chunks), (IngestStatus::Indexed, 3));
    assert_eq!(
        desk.run(5, operation).await.expect("done"),
        mended,
        "the same again"
    );
}

#[tokio::test]
async fn a_deleted_corpus_comes_back_in_a_new_generation() {
    let desk = desk();
    desk.put(5, TEXT, 1.0).await;
    let gone = desk
        .run(6, IngestOperation::DeleteCorpus)
        .await
        .expect("done");
    assert_eq!(
        (gone.status, gone.chunks_deleted),
        (IngestStatus::Deleted, 3)
    );
    assert_eq!(
        desk.store.describe(&desk.corpus).await.expect("reads"),
        None
    );
    assert_eq!(
        desk.run(6, IngestOperation::DeleteCorpus)
            .await
            .expect("done"),
        gone,
        "the same again"
    );
    assert_eq!(desk.put(7, TEXT, 1.0).await.status, IngestStatus::Indexed);
    let info = desk
        .store
        .describe(&desk.corpus)
        .await
        .expect("reads")
        .expect("there");
    assert_eq!(info.generation, 2);
    let late = IngestOperation::PutDocument(put("late", "", 1.0));
    assert_eq!(
        desk.run(4, late).await.expect("done").status,
        IngestStatus::Superseded
    );
}
