//! What both SQL registries do alike: load a row under a lock, apply the rules of `model::fencing`, store it, commit.
//!
//! Must not know which database it is: that is a [`RegistryDatabase`]. Nothing here decides what a job means; that is the model's.

use async_trait::async_trait;

use crate::adapters::result_json;
use crate::error::{Error, Result};
use crate::model::{
    CorpusName, CorpusRef, Decision, DocumentId, DocumentRow, Finish, Hashes, IngestResult,
    IngestStatus, ModelPair, Written, begin_delete, begin_put, fence_document, finish_put,
};
use crate::spi::{Begun, Buried, Fenced, Finished};

/// A corpus' row.
#[derive(Debug, Clone)]
pub(super) struct CorpusRow {
    pub(super) generation: u32,
    pub(super) fence: u64,
    /// Whether a put has written into the generation.
    pub(super) active: bool,
    /// What the generation is built with, when it is active.
    pub(super) models: ModelPair,
    /// Whether the store may still serve an older generation.
    pub(super) unserved: bool,
    /// The stored result of the deletion at the fence.
    pub(super) result: Option<String>,
}

/// Who else may hold a corpus' row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Other puts and deletes of documents, but no deletion of the corpus.
    Shared,
    /// Nobody.
    Exclusive,
}

/// Begins transactions.
#[async_trait]
pub(super) trait RegistryDatabase: Sync {
    /// A transaction that sees what was committed before, and whose locks hold until it ends.
    async fn begin(&self) -> Result<Box<dyn RegistryTransaction>>;
}

/// One transaction; dropped without `commit` it leaves nothing.
#[async_trait]
pub(super) trait RegistryTransaction: Send {
    /// The corpus' row, created if absent, under a lock.
    async fn corpus(&mut self, corpus: &CorpusRef, lock: Lock) -> Result<CorpusRow>;
    /// The document's row, a default one when absent, locked against other writers.
    async fn document(&mut self, corpus: &CorpusRef, document: &DocumentId) -> Result<DocumentRow>;
    /// Writes the document's row, created if absent.
    async fn save(
        &mut self,
        corpus: &CorpusRef,
        document: &DocumentId,
        row: &DocumentRow,
    ) -> Result<()>;
    /// A put is about to write: the corpus exists from now on, built with these models. Needs the exclusive lock.
    async fn activate(&mut self, corpus: &CorpusRef, models: &ModelPair) -> Result<()>;
    /// The chunks that a deletion of the corpus at `sequence` removes.
    async fn chunks_below(&mut self, corpus: &CorpusRef, sequence: u64) -> Result<u32>;
    /// Sets the fence to the result's sequence, and stores the result. Needs the exclusive lock.
    async fn set_fence(&mut self, corpus: &CorpusRef, result: &IngestResult) -> Result<()>;
    /// Whether anything newer than the deletion, or anything alive, is in the corpus.
    async fn in_use(&mut self, corpus: &CorpusRef, sequence: u64) -> Result<bool>;
    /// Raises the generation above every one that was ever begun, forgets a rebuild, and returns the new generation; the
    /// corpus is absent until a put writes again. Needs the exclusive lock.
    async fn raise_generation(&mut self, corpus: &CorpusRef) -> Result<u32>;
    /// The generation that a rebuild replaces which isn't over.
    async fn replaced_generation(&mut self, corpus: &CorpusRef) -> Result<Option<u32>>;
    /// Durable when it returns.
    async fn commit(self: Box<Self>) -> Result<()>;
}

/// Corpora that exist, with what their documents add up to.
macro_rules! corpora {
    ($condition:literal) => {
        concat!(
            "SELECT c.tenant, c.corpus, c.generation, c.models, COUNT(d.document_id) AS documents, \
             CAST(COALESCE(SUM(d.chunks), 0) AS BIGINT) AS chunks FROM corpora c LEFT JOIN documents d \
             ON d.tenant = c.tenant AND d.corpus = c.corpus AND d.deleted = 0 WHERE c.state = 'active'",
            $condition,
            " GROUP BY c.tenant, c.corpus, c.generation, c.models ORDER BY c.tenant, c.corpus"
        )
    };
}

/// Documents that are no tombstones.
macro_rules! documents {
    ($condition:literal) => {
        concat!(
            "SELECT d.document_id, d.sequence, d.live, d.chunks, d.updated_at, d.expires_at, d.metadata, c.generation \
             FROM documents d JOIN corpora c ON c.tenant = d.tenant AND c.corpus = d.corpus \
             WHERE d.tenant = $1 AND d.corpus = $2 AND d.deleted = 0",
            $condition
        )
    };
}

pub(super) const CORPORA_OF_TENANT: &str = corpora!(" AND c.tenant = $1");
pub(super) const ALL_CORPORA: &str = corpora!("");
pub(super) const DOCUMENTS: &str =
    documents!(" AND d.document_id > $3 ORDER BY d.document_id LIMIT $4");
pub(super) const DOCUMENT: &str = documents!(" AND d.document_id = $3");
pub(super) const HIGHEST_SEQUENCE: &str = "SELECT COALESCE(MAX(n), 0) AS highest FROM \
    (SELECT MAX(sequence) AS n FROM documents UNION ALL SELECT MAX(claimed) FROM documents \
    UNION ALL SELECT MAX(fence) FROM corpora) AS all_of_them";

/// Above every generation that was ever begun: a rebuild may have prepared one, dropped or not.
pub(super) const RAISE_GENERATION: &str = "UPDATE corpora SET state = 'absent', unserved = 0, generation = 1 + \
    COALESCE((SELECT r.generation FROM rebuilds r WHERE r.tenant = $1 AND r.corpus = $2 \
    AND r.generation > corpora.generation), generation) WHERE tenant = $1 AND corpus = $2 RETURNING generation";
pub(super) const FORGET_REBUILT: &str =
    "DELETE FROM rebuilt_documents WHERE tenant = $1 AND corpus = $2";
pub(super) const FORGET_REBUILD: &str = "DELETE FROM rebuilds WHERE tenant = $1 AND corpus = $2";

/// Model ids as they are stored.
pub(super) fn models_json(models: &ModelPair) -> String {
    serde_json::json!({ "dense": models.dense, "sparse": models.sparse }).to_string()
}

/// Sequences are JetStream's: they stay far below 2⁶³.
pub(super) fn to_sql(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}

pub(super) fn sql_failed(error: sqlx::Error) -> Error {
    Error::dependency("the registry's database failed", error)
}

/// What can only come from damage, or from another program.
pub(super) fn damaged(what: &str, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::dependency(format!("the registry holds {what}"), cause)
}

pub(super) fn stored_id(id: &str) -> Result<DocumentId> {
    DocumentId::new(id).map_err(|e| damaged("a damaged document id", e))
}

pub(super) fn stored_corpus(name: &str) -> Result<CorpusName> {
    CorpusName::new(name).map_err(|e| damaged("a damaged corpus name", e))
}

type Database<'a> = &'a dyn RegistryDatabase;

pub(super) async fn put_begun(
    database: Database<'_>,
    corpus: &CorpusRef,
    document: &DocumentId,
    hashes: &Hashes,
    models: &ModelPair,
    template: &IngestResult,
) -> Result<Begun> {
    let mut lock = Lock::Shared;
    loop {
        let mut transaction = database.begin().await?;
        let found = transaction.corpus(corpus, lock).await?;
        let mut row = transaction.document(corpus, document).await?;
        let decision = begin_put(&mut row, found.fence, hashes, template);
        if !found.active && !matches!(decision, Decision::Finished(_)) {
            if lock == Lock::Shared {
                // Two holders of the shared lock that both want more would wait for each other: begin again with it.
                lock = Lock::Exclusive;
                continue;
            }
            transaction.activate(corpus, models).await?;
        }
        transaction.save(corpus, document, &row).await?;
        transaction.commit().await?;
        return Ok(Begun {
            decision,
            live: row.live,
            generation: found.generation,
            models: if found.active {
                found.models
            } else {
                models.clone()
            },
            unserved: found.unserved,
        });
    }
}

pub(super) async fn delete_begun(
    database: Database<'_>,
    corpus: &CorpusRef,
    document: &DocumentId,
    template: &IngestResult,
) -> Result<Begun> {
    let mut transaction = database.begin().await?;
    let found = transaction.corpus(corpus, Lock::Shared).await?;
    let mut row = transaction.document(corpus, document).await?;
    let decision = begin_delete(&mut row, found.fence, template);
    transaction.save(corpus, document, &row).await?;
    transaction.commit().await?;
    Ok(Begun {
        decision,
        live: row.live,
        generation: found.generation,
        models: found.models,
        unserved: found.unserved,
    })
}

pub(super) async fn put_finished(
    database: Database<'_>,
    corpus: &CorpusRef,
    document: &DocumentId,
    written: &Written,
) -> Result<Finished> {
    let mut transaction = database.begin().await?;
    let found = transaction.corpus(corpus, Lock::Shared).await?;
    let mut row = transaction.document(corpus, document).await?;
    let finish = finish_put(&mut row, found.fence, found.generation, written);
    if matches!(finish, Finish::Done(_)) {
        transaction.save(corpus, document, &row).await?;
    }
    transaction.commit().await?;
    Ok(Finished {
        finish,
        live: row.live,
    })
}

pub(super) async fn fence_raised(
    database: Database<'_>,
    corpus: &CorpusRef,
    template: &IngestResult,
) -> Result<Fenced> {
    let mut transaction = database.begin().await?;
    let before = transaction.corpus(corpus, Lock::Exclusive).await?;
    let mut result = template.clone();
    result.status = IngestStatus::Deleted;
    if template.sequence > before.fence {
        result.chunks_deleted = transaction.chunks_below(corpus, template.sequence).await?;
        transaction.set_fence(corpus, &result).await?;
    } else if template.sequence == before.fence
        && let Some(stored) = &before.result
    {
        result = result_json::from_json(stored)?;
    }
    transaction.commit().await?;
    Ok(Fenced {
        result,
        generation: before.generation,
    })
}

pub(super) async fn document_fenced(
    database: Database<'_>,
    corpus: &CorpusRef,
    document: &DocumentId,
    sequence: u64,
) -> Result<Option<Buried>> {
    let mut transaction = database.begin().await?;
    let found = transaction.corpus(corpus, Lock::Shared).await?;
    let mut row = transaction.document(corpus, document).await?;
    let clean_up = fence_document(&mut row, sequence);
    if clean_up {
        transaction.save(corpus, document, &row).await?;
    }
    transaction.commit().await?;
    Ok(clean_up.then_some(Buried {
        live: row.live,
        generation: found.generation,
        unserved: found.unserved,
    }))
}

pub(super) async fn generation_retired(
    database: Database<'_>,
    corpus: &CorpusRef,
    sequence: u64,
) -> Result<Option<u32>> {
    let mut transaction = database.begin().await?;
    let row = transaction.corpus(corpus, Lock::Exclusive).await?;
    let used = transaction.in_use(corpus, sequence).await?;
    let mut generation = row.generation;
    if row.active && !used {
        generation = transaction.raise_generation(corpus).await?;
    } else if let Some(replaced) = transaction.replaced_generation(corpus).await? {
        // Readers may still be in it.
        generation = generation.min(replaced);
    }
    transaction.commit().await?;
    // Also when it wasn't raised now: a crash may have come between an earlier raise and the drop, and what is below can
    // always go.
    Ok(generation.checked_sub(1).filter(|below| *below > 0))
}
