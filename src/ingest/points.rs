//! A put's chunks, embedded and ready to be stored. Must not know fencing.

use std::collections::HashMap;
use std::sync::Arc;

use super::hashing::PutHashes;
use super::{chunk_id, content_hash, cut};
use crate::error::{Error, Result};
use crate::model::{
    Chunk, ChunkId, CollectionSchema, CorpusRef, DocumentId, Hashes, Metadata, PutBody, PutChunks,
    PutDocument, Span, SparseVector, StoredChunk, Timestamp,
};
use crate::spi::{
    DocumentParser, Encoded, ModelSet, ParsedDocument, Point, Priority, Role, TextEncoding,
    TokenCounter, Vectors,
};

/// Chunks as they are stored, before they have vectors.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub chunks: Vec<StoredChunk>,
    pub expires_at: Option<Timestamp>,
    /// The document's own metadata.
    pub metadata: Metadata,
    pub warnings: Vec<String>,
}

/// A put of either form.
#[derive(Debug, Clone)]
pub(super) enum Put {
    Document(PutDocument),
    Chunks(PutChunks),
}

impl Put {
    pub(super) fn document(&self) -> &DocumentId {
        match self {
            Put::Document(put) => &put.document_id,
            Put::Chunks(put) => &put.document_id,
        }
    }
}

/// A put whose body is readable, with the hashes that decide what it changes.
#[derive(Debug)]
pub(super) struct Readable {
    put: Put,
    /// Into a collection of the worker's current models.
    hashes: Hashes,
    /// Of a document: its text. Of chunks: themselves, cleaned.
    body: Body,
}

#[derive(Debug)]
enum Body {
    Text(ParsedDocument),
    Chunks(Vec<Chunk>, Vec<String>),
}

impl Readable {
    pub(super) fn document(&self) -> &DocumentId {
        self.put.document()
    }

    /// The hashes of this put into a collection of that schema.
    pub(super) fn hashes(&self, schema: &CollectionSchema) -> Hashes {
        let pipeline = match &self.put {
            Put::Document(put) => put.pipeline(schema),
            Put::Chunks(put) => put.pipeline(schema),
        };
        Hashes {
            pipeline,
            ..self.hashes.clone()
        }
    }
}

/// Before step 1, so that a body that can't be read changes nothing. Runs on a blocking thread.
pub(super) fn read(
    put: Put,
    schema: &CollectionSchema,
    parser: &dyn DocumentParser,
) -> Result<Readable> {
    let (body, hashes) = match &put {
        Put::Document(document) => (
            Body::Text(parse(document, parser)?),
            document.hashes(schema),
        ),
        Put::Chunks(chunks) => {
            let (cleaned, warnings) = own_chunks(chunks, parser)?;
            (Body::Chunks(cleaned, warnings), chunks.hashes(schema))
        }
    };
    Ok(Readable { put, hashes, body })
}

/// Step 2 without the models: cut. Runs on a blocking thread.
pub(super) fn prepare(
    corpus: &CorpusRef,
    readable: &Readable,
    sequence: u64,
    longest: u32,
    tokens: &dyn TokenCounter,
) -> Result<Prepared> {
    let (chunks, warnings) = match (&readable.put, &readable.body) {
        (Put::Document(put), Body::Text(text)) => cut_document(put, text, longest, tokens)?,
        (_, Body::Chunks(chunks, warnings)) => (chunks.clone(), warnings.clone()),
        (Put::Chunks(_), Body::Text(_)) => {
            return Err(Error::internal("chunks were read as a text"));
        }
    };
    let (expires_at, metadata) = match &readable.put {
        Put::Document(put) => (put.expires_at, &put.metadata),
        Put::Chunks(put) => (put.expires_at, &put.metadata),
    };
    let document = readable.document();
    let stored = chunks.into_iter().map(|chunk| StoredChunk {
        id: chunk_id(corpus, document, chunk.ordinal),
        document_id: document.clone(),
        sequence,
        content_hash: content_hash(&chunk.content),
        chunk,
    });
    Ok(Prepared {
        chunks: stored.collect(),
        expires_at,
        metadata: metadata.clone(),
        warnings,
    })
}

fn parse(put: &PutDocument, parser: &dyn DocumentParser) -> Result<ParsedDocument> {
    let body = match &put.body {
        PutBody::Text(text) => text.as_bytes(),
        PutBody::Data(data) => data,
        PutBody::Blob(_) => return Err(Error::internal("a body was not fetched")),
    };
    let mut parsed = parser.parse(body, &put.media_type, &put.file_name)?;
    if parsed.text.trim().is_empty() && !body.is_empty() {
        parsed.warnings.push("the body has no text".to_owned());
    }
    Ok(parsed)
}

fn cut_document(
    put: &PutDocument,
    parsed: &ParsedDocument,
    longest: u32,
    tokens: &dyn TokenCounter,
) -> Result<(Vec<Chunk>, Vec<String>)> {
    let pieces = cut(&parsed.text, parsed.kind, put.chunking, longest, tokens)?;
    let chunks = (0u32..).zip(pieces).map(|(ordinal, (start, piece))| {
        let (start, end) = parsed.offsets.span(start, start + piece.len());
        Chunk {
            ordinal,
            content: piece.to_owned(),
            span: span(start, end),
            metadata: put.metadata.clone(),
        }
    });
    Ok((chunks.collect(), parsed.warnings.clone()))
}

/// A body fits into a message, far below 4 GiB.
fn span(start: usize, end: usize) -> Option<Span> {
    Some(Span {
        start: u32::try_from(start).ok()?,
        end: u32::try_from(end).ok()?,
    })
}

fn own_chunks(put: &PutChunks, parser: &dyn DocumentParser) -> Result<(Vec<Chunk>, Vec<String>)> {
    let mut chunks = Vec::with_capacity(put.chunks.len());
    let mut warnings: Vec<String> = Vec::new();
    for (ordinal, input) in (0u32..).zip(&put.chunks) {
        let parsed = parser.parse(input.content.as_bytes(), "text/plain", "")?;
        let field = format!("chunks[{ordinal}]");
        if parsed.text.trim().is_empty() {
            return Err(Error::invalid_field(
                format!("{field}.content"),
                "must not be blank",
            ));
        }
        warnings.extend(parsed.warnings.iter().map(|w| format!("{field}: {w}")));
        chunks.push(Chunk {
            ordinal,
            content: parsed.text,
            span: None,
            metadata: merged(&put.metadata, &input.metadata, &field)?,
        });
    }
    Ok((chunks, warnings))
}

fn merged(of_all: &Metadata, own: &Metadata, field: &str) -> Result<Metadata> {
    of_all.overlaid(&format!("{field}.metadata"), own)
}

/// Embeds chunks with the models of one generation.
#[derive(Debug, Clone)]
pub(super) struct Embedder(pub ModelSet);

/// What embedding cut off or could not read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    pub truncated_tokens: u32,
    truncated_chunks: u32,
    unknown_chunks: u32,
}

impl Losses {
    fn add(&mut self, dense: &Encoded<Vec<f32>>, sparse: &Encoded<SparseVector>) {
        let truncated = dense.truncated.max(sparse.truncated);
        self.truncated_tokens = self.truncated_tokens.saturating_add(truncated);
        self.truncated_chunks += u32::from(truncated > 0);
        // Two of the tokens are the model's own; an emoji or an over-long word counts as one unknown token.
        let own = dense.tokens.saturating_sub(2);
        self.unknown_chunks += u32::from(own > 0 && dense.unknown * 2 >= own);
    }

    pub(super) fn warnings(self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.truncated_tokens > 0 {
            warnings.push(format!(
                "{} tokens of {} chunks are beyond the model's length and were not embedded",
                self.truncated_tokens, self.truncated_chunks
            ));
        }
        if self.unknown_chunks > 0 {
            warnings.push(format!(
                "{} chunks consist mostly of words the model doesn't know",
                self.unknown_chunks
            ));
        }
        warnings
    }
}

impl Embedder {
    /// Embeds the chunks; those in `known` with the same content keep their vectors.
    pub(super) async fn embed(
        &self,
        prepared: Prepared,
        known: HashMap<ChunkId, Point>,
    ) -> Result<(Vec<Point>, Losses)> {
        let kept = |chunk: &StoredChunk| {
            known
                .get(&chunk.id)
                .filter(|point| point.stored.content_hash == chunk.content_hash)
        };
        let texts: Vec<String> = prepared
            .chunks
            .iter()
            .filter(|chunk| kept(chunk).is_none())
            .map(|chunk| chunk.chunk.content.clone())
            .collect();
        let mut losses = Losses::default();
        let mut fresh = self.encode(texts, &mut losses).await?.into_iter();
        let mut points = Vec::with_capacity(prepared.chunks.len());
        for stored in &prepared.chunks {
            let vectors = match kept(stored) {
                Some(point) => point.vectors.clone(),
                None => fresh
                    .next()
                    .ok_or_else(|| Error::internal("an encoder returned too few vectors"))?,
            };
            let expires_at = prepared.expires_at;
            points.push(Point {
                stored: stored.clone(),
                expires_at,
                vectors,
            });
        }
        Ok((points, losses))
    }

    async fn encode(&self, texts: Vec<String>, losses: &mut Losses) -> Result<Vec<Vectors>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let request = TextEncoding {
            texts,
            role: Role::Document,
            priority: Priority::Bulk,
            deadline: None,
        };
        let lexical = Arc::clone(&self.0.lexical);
        let texts = request.texts.clone();
        let terms = tokio::task::spawn_blocking(move || {
            let encode = |text: &String| lexical.encode_document(text);
            texts.iter().map(encode).collect::<Vec<_>>()
        });
        let terms = async {
            let stopped = |e| Error::internal("the lexical analysis was stopped").caused_by(e);
            terms.await.map_err(stopped)
        };
        let (dense, sparse, terms) = tokio::try_join!(
            self.0.dense.encode_dense(request.clone()),
            self.0.sparse.encode_sparse(request),
            terms
        )?;
        let mut vectors = Vec::with_capacity(dense.len());
        for ((dense, sparse), bm25) in dense.into_iter().zip(sparse).zip(terms) {
            let (dense, sparse) = (dense?, sparse?);
            losses.add(&dense, &sparse);
            vectors.push(Vectors {
                dense: dense.vector,
                sparse: sparse.vector,
                bm25,
            });
        }
        Ok(vectors)
    }
}
