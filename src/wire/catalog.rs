//! Catalog requests from the wire. Answers are built by the catalog's handler out of generated messages.

use super::encoding::{Encoding, decode};
use super::v1::{self, catalog_request::Question};
use crate::error::{Error, Result};
use crate::model::{CorpusName, DocumentId, JobId};

/// Entries of a page when a request doesn't say.
pub const DEFAULT_PAGE_SIZE: u32 = 100;
const MAX_PAGE_SIZE: u32 = 1000;

/// A page of documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Entries at most.
    pub size: u32,
    /// The last document of the page before.
    pub after: Option<DocumentId>,
}

/// A validated catalog question.
#[derive(Debug, Clone, PartialEq)]
pub enum CatalogQuestion {
    /// What this worker is.
    Info,
    /// The tenant's corpora.
    Corpora,
    /// Documents of a corpus.
    Documents(CorpusName, Page),
    /// One document, with its chunks or not.
    Document(CorpusName, DocumentId, bool),
    /// The result of a job.
    Job(JobId),
}

/// Decodes and validates a catalog request.
///
/// # Errors
/// `Malformed` or `InvalidField`.
pub fn decode_catalog(body: &[u8], encoding: Encoding) -> Result<CatalogQuestion> {
    let request: v1::CatalogRequest = decode(body, encoding)?;
    match request.question {
        Some(Question::GetInfo(_)) => Ok(CatalogQuestion::Info),
        Some(Question::ListCorpora(_)) => Ok(CatalogQuestion::Corpora),
        Some(Question::ListDocuments(list)) => documents(list),
        Some(Question::GetDocument(get)) => Ok(CatalogQuestion::Document(
            CorpusName::new(&get.corpus)?,
            DocumentId::new(&get.document_id)?,
            get.chunks,
        )),
        Some(Question::GetJob(get)) => Ok(CatalogQuestion::Job(JobId::new(&get.job_id)?)),
        None => Err(Error::invalid_field(
            "question",
            "must be one of getInfo, listCorpora, listDocuments, getDocument, getJob",
        )),
    }
}

fn documents(list: v1::ListDocuments) -> Result<CatalogQuestion> {
    let size = match list.page_size.map(u32::try_from) {
        None => DEFAULT_PAGE_SIZE,
        Some(Ok(size)) if (1..=MAX_PAGE_SIZE).contains(&size) => size,
        Some(_) => return Err(Error::invalid_field("pageSize", "must be 1 to 1000")),
    };
    // The cursor is the last document id of the page before: stable while documents come and go.
    let after = match list.cursor.as_str() {
        "" => None,
        cursor => Some(
            DocumentId::new(cursor)
                .map_err(|_| Error::invalid_field("cursor", "is none of ours"))?,
        ),
    };
    Ok(CatalogQuestion::Documents(
        CorpusName::new(&list.corpus)?,
        Page { size, after },
    ))
}
