//! The protocol of one job: begin, embed, store, commit, clean up.
//!
//! The steps and why each is there: `ARCHITECTURE.md`, "Replace, delete, fence". Publishing the result and the
//! acknowledgement follow in the transport. Must not know NATS.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use super::document_limit::DocumentLimit;
use super::points::{Embedder, Losses, Prepared, Put, Readable, prepare, read};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    ChunkId, CollectionSchema, CorpusRef, Decision, DocumentId, Finish, IngestJob, IngestOperation,
    IngestResult, IngestStatus, LimitBook, ModelPair, PutBody, Written,
};
use crate::spi::{
    BlobStore, DocumentParser, DocumentRegistry, IngestStep, ModelSet, ModelSets, Point,
    StepObserver, VectorStore,
};
use crate::tenancy::{Placement, TenancyStrategy};

/// A generation changes only when a whole corpus is deleted or rebuilt: more restarts than this are a bug.
const MAX_RESTARTS: usize = 8;

/// What an ingest processor is made of.
#[derive(Debug, Clone)]
pub struct IngestParts {
    /// The registry.
    pub registry: Arc<dyn DocumentRegistry>,
    /// The store.
    pub store: Arc<dyn VectorStore>,
    /// The models.
    pub models: ModelSets,
    /// Parses bodies.
    pub parser: Arc<dyn DocumentParser>,
    /// Where bodies lie that are too large for a message.
    pub blobs: Arc<dyn BlobStore>,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
    /// Told about every step.
    pub observer: Arc<dyn StepObserver>,
}

/// The observer of a worker in service: does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

#[async_trait]
impl StepObserver for NoObserver {
    async fn reached(&self, _step: IngestStep) {}
}

/// Carries out ingest jobs. Any number may run at once, for one document too.
#[derive(Debug, Clone)]
pub struct IngestProcessor {
    pub(super) parts: IngestParts,
    schema: CollectionSchema,
    limit: DocumentLimit,
}

impl IngestProcessor {
    /// A processor over these parts.
    pub fn new(parts: IngestParts) -> Self {
        let schema = parts.models.current().schema();
        let limit = DocumentLimit::none(Arc::clone(&parts.registry));
        Self {
            parts,
            schema,
            limit,
        }
    }

    /// The same, for tenants that may have so many documents each.
    #[must_use]
    pub fn limited(mut self, book: Arc<LimitBook>) -> Self {
        self.limit = DocumentLimit::new(Arc::clone(&self.parts.registry), book);
        self
    }

    /// What new corpora are created with.
    pub fn schema(&self) -> &CollectionSchema {
        &self.schema
    }

    /// Carries out a job up to and with clean-up. Repeating it is harmless; a second delivery gets the same result.
    ///
    /// # Errors
    /// Retryable ones leave nothing that a redelivery can't mend; permanent ones (`InvalidField`, `SchemaConflict`,
    /// `TenantLimit`) wrote nothing.
    pub async fn process(&self, job: &IngestJob) -> Result<IngestResult> {
        match &job.operation {
            IngestOperation::PutDocument(put) => self.put(job, Put::Document(put.clone())).await,
            IngestOperation::PutChunks(put) => self.put(job, Put::Chunks(put.clone())).await,
            IngestOperation::DeleteDocument(document) => self.delete(job, document).await,
            IngestOperation::DeleteCorpus => self.delete_corpus(job).await,
        }
    }

    /// The step observer, which the transport tells about publishing.
    pub fn observer(&self) -> &dyn StepObserver {
        self.parts.observer.as_ref()
    }

    pub(super) fn place(&self, corpus: &CorpusRef, generation: u32) -> Placement {
        self.parts.tenancy.place(corpus, generation)
    }

    pub(super) async fn reached(&self, step: IngestStep) {
        self.parts.observer.reached(step).await;
    }

    async fn put(&self, job: &IngestJob, put: Put) -> Result<IngestResult> {
        let put = self
            .fetched(&job.corpus, put)
            .await
            .map_err(|e| e.at_stage("fetch"))?;
        let readable = Arc::new(self.read(put).await.map_err(|e| e.at_stage("parse"))?);
        self.limit
            .check(&job.corpus, readable.document())
            .await
            .map_err(|e| e.at_stage("begin"))?;
        for _ in 0..MAX_RESTARTS {
            if let Some(result) = self.put_once(job, &readable).await? {
                return Ok(result);
            }
        }
        Err(Error::internal("the corpus' generation changed too often"))
    }

    /// With the body in hand, wherever it lay.
    async fn fetched(&self, corpus: &CorpusRef, put: Put) -> Result<Put> {
        let Put::Document(mut document) = put else {
            return Ok(put);
        };
        if let PutBody::Blob(blob) = &document.body {
            let body = self.parts.blobs.fetch(&corpus.tenant, blob).await?;
            document.body = PutBody::Data(body);
        }
        Ok(Put::Document(document))
    }

    #[tracing::instrument(target = "ragbus", name = "parse", skip_all)]
    async fn read(&self, put: Put) -> Result<Readable> {
        let (schema, parser) = (self.schema.clone(), Arc::clone(&self.parts.parser));
        blocking(move || read(put, &schema, &*parser)).await
    }

    /// The models that a corpus is built with. What isn't there yet is built with the current ones.
    async fn models_of(&self, corpus: &CorpusRef) -> Result<&ModelSet> {
        let sets = &self.parts.models;
        if sets.is_single() {
            return Ok(sets.current());
        }
        let built = self.parts.registry.corpus_models(corpus).await?;
        // One of models that this worker doesn't have is refused in step 1.
        let known = built.and_then(|models| sets.named(&models));
        Ok(known.unwrap_or_else(|| sets.current()))
    }

    /// `None`: the generation changed under the write; start again.
    async fn put_once(
        &self,
        job: &IngestJob,
        readable: &Arc<Readable>,
    ) -> Result<Option<IngestResult>> {
        let mut clock = Clock::start();
        let mut template = job.template();
        let document = readable.document();
        let models = self
            .models_of(&job.corpus)
            .await
            .map_err(|e| e.at_stage("begin"))?;
        let (ids, schema) = (models.ids(), models.schema());
        let hashes = readable.hashes(&schema);
        let begun = self
            .parts
            .registry
            .begin_put(&job.corpus, document, &hashes, &ids, &template)
            .await
            .map_err(|e| e.at_stage("begin"))?;
        clock.lap("begin");
        self.reached(IngestStep::Begun).await;
        let at = self.place(&job.corpus, begun.generation);
        let keep = match begun.decision {
            Decision::Finished(result) => {
                self.served(&at, begun.unserved).await?;
                self.clean_up(&at, document, begun.live).await?;
                return Ok(Some(*result));
            }
            _ if begun.models != ids => return self.rebuilt(&begun.models, &ids),
            Decision::MetadataOnly => true,
            Decision::Write => false,
        };
        template.status = if keep {
            IngestStatus::MetadataUpdated
        } else {
            IngestStatus::Indexed
        };
        let prepared = self
            .prepared(job, readable, models)
            .await
            .map_err(|e| e.at_stage("chunk"))?;
        clock.lap("chunk");
        template.warnings.clone_from(&prepared.warnings);
        let (expires_at, metadata) = (prepared.expires_at, prepared.metadata.clone());
        let (points, losses) = self.embedded(&at, prepared, keep, models).await?;
        clock.lap("embed");
        self.reached(IngestStep::Embedded).await;
        let chunks = u32::try_from(points.len()).unwrap_or(u32::MAX);
        if !self.stored(&at, &schema, points).await? {
            return Ok(None);
        }
        clock.lap("store");
        self.reached(IngestStep::Stored).await;
        template.truncated_tokens = losses.truncated_tokens;
        template.warnings.extend(losses.warnings());
        template.timings = clock.laps;
        let written = Written {
            generation: begun.generation,
            hashes,
            chunks,
            expires_at,
            metadata,
            result: template,
        };
        self.committed(job, &at, document, &written).await
    }

    #[tracing::instrument(target = "ragbus", name = "chunk", skip_all)]
    async fn prepared(
        &self,
        job: &IngestJob,
        readable: &Arc<Readable>,
        models: &ModelSet,
    ) -> Result<Prepared> {
        let (corpus, readable, sequence) = (job.corpus.clone(), Arc::clone(readable), job.sequence);
        let info = models.dense.info();
        let longest = info.max_tokens.saturating_sub(info.special_tokens);
        let tokens = Arc::clone(&models.tokens);
        blocking(move || prepare(&corpus, &readable, sequence, longest, &*tokens)).await
    }

    #[tracing::instrument(target = "ragbus", name = "embed", skip_all)]
    async fn embedded(
        &self,
        at: &Placement,
        prepared: Prepared,
        keep: bool,
        models: &ModelSet,
    ) -> Result<(Vec<Point>, Losses)> {
        let known = if keep {
            self.known(at, &prepared).await?
        } else {
            HashMap::new()
        };
        Embedder(models.clone())
            .embed(prepared, known)
            .await
            .map_err(|e| e.at_stage("embed"))
    }

    /// The stored points of a document whose text did not change; a point that is missing is embedded again.
    async fn known(&self, at: &Placement, prepared: &Prepared) -> Result<HashMap<ChunkId, Point>> {
        let ids: Vec<ChunkId> = prepared.chunks.iter().map(|chunk| chunk.id).collect();
        match self.parts.store.points(at, &ids).await {
            Ok(points) => Ok(points
                .into_iter()
                .map(|point| (point.stored.id, point))
                .collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(HashMap::new()),
            Err(error) => Err(error.at_stage("embed")),
        }
    }

    /// Step 3. `false`: the generation is gone.
    #[tracing::instrument(target = "ragbus", name = "store", skip_all)]
    async fn stored(
        &self,
        at: &Placement,
        schema: &CollectionSchema,
        points: Vec<Point>,
    ) -> Result<bool> {
        let store = &self.parts.store;
        let outcome = match store.ensure(at, schema).await {
            Ok(()) if points.is_empty() => Ok(()),
            Ok(()) => store.upsert(at, points).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.at_stage("store")),
        }
    }

    /// Steps 4 and 5.
    #[tracing::instrument(target = "ragbus", name = "commit", skip_all)]
    async fn committed(
        &self,
        job: &IngestJob,
        at: &Placement,
        document: &DocumentId,
        written: &Written,
    ) -> Result<Option<IngestResult>> {
        let finished = self
            .parts
            .registry
            .finish_put(&job.corpus, document, written)
            .await
            .map_err(|e| e.at_stage("commit"))?;
        self.reached(IngestStep::Committed).await;
        match finished.finish {
            Finish::Done(result) => {
                self.clean_up(at, document, finished.live).await?;
                Ok(Some(*result))
            }
            Finish::GenerationChanged => Ok(None),
        }
    }

    /// The corpus is built with other models than this put was prepared for: start again with those, if they are here.
    fn rebuilt(&self, built: &ModelPair, own: &ModelPair) -> Result<Option<IngestResult>> {
        if self.parts.models.named(built).is_some() {
            return Ok(None);
        }
        let models = |pair: &ModelPair| format!("{} and {}", pair.dense, pair.sparse);
        Err(Error::new(
            ErrorKind::SchemaConflict,
            format!(
                "the corpus was built with {}, this worker has {}: add the former to models.previous and rebuild it (`ragbus reindex`)",
                models(built),
                models(own)
            ),
        )
        .at_stage("begin"))
    }

    /// Step 5: always, for superseded jobs too.
    #[tracing::instrument(target = "ragbus", name = "clean", skip_all)]
    pub(super) async fn clean_up(
        &self,
        at: &Placement,
        document: &DocumentId,
        live: u64,
    ) -> Result<()> {
        self.parts
            .store
            .delete_below(at, document, live)
            .await
            .map_err(|e| e.at_stage("clean"))?;
        self.reached(IngestStep::Cleaned).await;
        Ok(())
    }
}

/// Runs work on a blocking thread, inside the current span.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work))
        .await
        .map_err(|e| Error::internal("reading a document panicked").caused_by(e))?
}

/// Milliseconds by stage.
struct Clock {
    last: Instant,
    laps: BTreeMap<String, f64>,
}

impl Clock {
    fn start() -> Self {
        Self {
            last: Instant::now(),
            laps: BTreeMap::new(),
        }
    }

    fn lap(&mut self, stage: &str) {
        let now = Instant::now();
        let took = now.duration_since(self.last).as_secs_f64() * 1_000.0;
        self.laps.insert(stage.to_owned(), took);
        self.last = now;
    }
}
