//! `rag.catalog.<tenant>`: what a tenant has, and what became of a job.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream::{DirectGetErrorKind, Stream};
use async_trait::async_trait;

use super::connect::Connection;
use super::headers::Headers;
use super::responder::{Call, Endpoint};
use super::topology::RESULT;
use super::{subjects, topology};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::chunk_id;
use crate::model::{
    CorpusName, CorpusRef, DocumentId, JobId, Leg, ModelIds, StoredChunk, TenantId,
};
use crate::spi::{CorpusEntry, DocumentEntry, DocumentRegistry, VectorStore};
use crate::tenancy::TenancyStrategy;
use crate::wire::{
    CatalogQuestion, MAX_LIMIT, MAX_QUERY_BYTES, Page, WIRE_SCHEMA, WireTimestamp, cursor_after,
    decode, decode_catalog, encode, models_of, struct_of, v1,
};

/// What the endpoint is made of.
#[derive(Debug, Clone)]
pub struct CatalogParts {
    /// The registry.
    pub registry: Arc<dyn DocumentRegistry>,
    /// The store.
    pub store: Arc<dyn VectorStore>,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
    /// The connection, for results of jobs.
    pub connection: Connection,
    /// The worker's models.
    pub models: ModelIds,
    /// The configured legs.
    pub legs: Vec<Leg>,
    /// Default and largest time budget in milliseconds.
    pub timeouts_ms: (u32, u32),
}

/// The catalog endpoint.
#[derive(Debug)]
pub struct CatalogEndpoint {
    parts: CatalogParts,
}

impl CatalogEndpoint {
    /// An endpoint over these parts.
    pub fn new(parts: CatalogParts) -> Self {
        Self { parts }
    }

    fn info(&self) -> v1::CatalogResponse {
        let max_payload = self.parts.connection.max_payload();
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let info = v1::Info {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            schema: WIRE_SCHEMA as i32,
            models: Some(models_of(&self.parts.models)),
            legs: self
                .parts
                .legs
                .iter()
                .map(|leg| leg.name().to_owned())
                .collect(),
            limits: Some(v1::Limits {
                max_message_bytes: small(topology::max_body(max_payload)),
                max_query_bytes: small(MAX_QUERY_BYTES),
                max_limit: MAX_LIMIT,
                default_timeout_ms: self.parts.timeouts_ms.0,
                max_timeout_ms: self.parts.timeouts_ms.1,
            }),
        };
        v1::CatalogResponse {
            info: Some(info),
            ..v1::CatalogResponse::default()
        }
    }

    async fn corpora(&self, tenant: &TenantId) -> Result<v1::CatalogResponse> {
        let corpora = self.parts.registry.corpora(tenant).await?;
        Ok(v1::CatalogResponse {
            corpora: corpora.iter().map(corpus_entry).collect(),
            ..v1::CatalogResponse::default()
        })
    }

    async fn documents(&self, corpus: &CorpusRef, page: &Page) -> Result<v1::CatalogResponse> {
        self.existing(corpus).await?;
        let registry = &self.parts.registry;
        // One more than asked for tells whether there is another page.
        let mut entries = registry
            .documents(corpus, page.after.as_ref(), page.size + 1)
            .await?;
        let more = entries.len() > page.size as usize;
        entries.truncate(page.size as usize);
        let last = entries.last().map(|e| cursor_after(&e.document_id));
        Ok(v1::CatalogResponse {
            documents: entries.iter().map(document_entry).collect(),
            next_cursor: last.filter(|_| more).unwrap_or_default(),
            ..v1::CatalogResponse::default()
        })
    }

    /// The store knows whether a corpus exists, without counting anything.
    async fn existing(&self, corpus: &CorpusRef) -> Result<()> {
        match self.parts.store.describe(corpus).await? {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::NotFound, "the corpus doesn't exist")),
        }
    }

    async fn document(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        with_chunks: bool,
    ) -> Result<v1::CatalogResponse> {
        let entry = self.parts.registry.document(corpus, document).await?;
        let Some(entry) = entry else {
            return Err(Error::new(
                ErrorKind::NotFound,
                "the document doesn't exist",
            ));
        };
        let chunks = match with_chunks {
            true => self.chunks(corpus, document, &entry).await?,
            false => Vec::new(),
        };
        let detail = v1::DocumentDetail {
            document_id: entry.document_id.as_str().to_owned(),
            sequence: entry.sequence,
            updated_at: Some(WireTimestamp::from(entry.updated_at)),
            expires_at: entry.expires_at.map(WireTimestamp::from),
            metadata: Some(struct_of(&entry.metadata)),
            chunk_count: entry.chunks,
            chunks: chunks.iter().map(chunk).collect(),
        };
        Ok(v1::CatalogResponse {
            document: Some(detail),
            ..v1::CatalogResponse::default()
        })
    }

    /// The chunks being served. While a replacement is between "stored" and "committed", some already are the next
    /// version's: those count too, as they do in retrieval.
    async fn chunks(
        &self,
        corpus: &CorpusRef,
        document: &DocumentId,
        entry: &DocumentEntry,
    ) -> Result<Vec<StoredChunk>> {
        let at = self.parts.tenancy.place(corpus, entry.generation);
        let live = self
            .parts
            .store
            .document_chunks(&at, document, entry.live)
            .await?;
        if live.len() == entry.chunks as usize {
            return Ok(live);
        }
        let ids: Vec<_> = (0..entry.chunks)
            .map(|ordinal| chunk_id(corpus, document, ordinal))
            .collect();
        let points = self.parts.store.points(&at, &ids).await?;
        let mut chunks: Vec<StoredChunk> = points.into_iter().map(|point| point.stored).collect();
        chunks.sort_by_key(|stored| stored.chunk.ordinal);
        Ok(chunks)
    }

    async fn job(&self, tenant: &TenantId, job: &JobId) -> Result<v1::CatalogResponse> {
        let stream: Stream<()> = self
            .parts
            .connection
            .jetstream
            .get_stream_no_info(RESULT)
            .await
            .map_err(|e| Error::dependency("results can't be read", e))?;
        let found = stream
            .direct_get_last_for_subject(subjects::result(tenant, job))
            .await;
        let message = match found {
            Ok(message) => message,
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "no result of this job is kept",
                ));
            }
            Err(error) => return Err(Error::dependency("results can't be read", error)),
        };
        let encoding = Headers::of(Some(&message.headers)).encoding()?;
        let result: v1::IngestResult = decode(&message.payload, encoding)
            .map_err(|e| Error::internal("a stored result can't be decoded").caused_by(e))?;
        Ok(v1::CatalogResponse {
            job: Some(result),
            ..v1::CatalogResponse::default()
        })
    }
}

fn corpus_entry(entry: &CorpusEntry) -> v1::CorpusEntry {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    v1::CorpusEntry {
        corpus: entry.corpus.as_str().to_owned(),
        documents: small(entry.documents),
        chunks: small(entry.chunks),
        generation: entry.generation,
        models: Some(v1::Models {
            dense: entry.dense_model.clone(),
            sparse: entry.sparse_model.clone(),
            cross_encoder: String::new(),
        }),
    }
}

fn document_entry(entry: &DocumentEntry) -> v1::DocumentEntry {
    v1::DocumentEntry {
        document_id: entry.document_id.as_str().to_owned(),
        sequence: entry.sequence,
        chunks: entry.chunks,
        updated_at: Some(WireTimestamp::from(entry.updated_at)),
        expires_at: entry.expires_at.map(WireTimestamp::from),
    }
}

fn chunk(stored: &StoredChunk) -> v1::DocumentChunk {
    v1::DocumentChunk {
        chunk_id: stored.id.to_string(),
        ordinal: stored.chunk.ordinal,
        span: stored.chunk.span.map(|s| v1::Span {
            start: s.start,
            end: s.end,
        }),
        content: stored.chunk.content.clone(),
        metadata: Some(struct_of(&stored.chunk.metadata)),
    }
}

#[async_trait]
impl Endpoint for CatalogEndpoint {
    fn verb(&self) -> &'static str {
        "catalog"
    }

    async fn answer(&self, call: &Call) -> Result<Vec<u8>> {
        let question = decode_catalog(&call.body, call.encoding)?;
        let budgets = self.parts.timeouts_ms;
        let millis = |ms: u32| Duration::from_millis(ms.into());
        let (deadline, _place) = call.begun(millis(budgets.0), millis(budgets.1))?;
        match tokio::time::timeout_at(deadline.into(), self.response(call, question)).await {
            Ok(body) => body,
            Err(_) => Err(Error::timeout("catalog")),
        }
    }
}

impl CatalogEndpoint {
    async fn response(&self, call: &Call, question: CatalogQuestion) -> Result<Vec<u8>> {
        let tenant = call.tenant()?;
        let of = |corpus: CorpusName| CorpusRef::new(tenant.clone(), corpus);
        let response = match question {
            CatalogQuestion::Info => self.info(),
            CatalogQuestion::Corpora => self.corpora(tenant).await?,
            CatalogQuestion::Documents(corpus, page) => self.documents(&of(corpus), &page).await?,
            CatalogQuestion::Document(corpus, document, chunks) => {
                self.document(&of(corpus), &document, chunks).await?
            }
            CatalogQuestion::Job(job) => self.job(tenant, &job).await?,
        };
        let body = encode(&response, call.encoding);
        if body.len() > call.max_reply {
            let message =
                "the answer doesn't fit into a message: ask for a smaller page, or without chunks";
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(body)
    }
}
