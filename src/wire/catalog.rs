//! Catalog requests from the wire. Answers are built by the catalog's handler out of generated messages.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::encoding::{Encoding, decode};
use super::v1::{self, catalog_request::Question};
use crate::error::{Error, Result};
use crate::model::{CorpusName, DocumentId, JobId};

/// Entries of a page when a request doesn't say.
pub const DEFAULT_PAGE_SIZE: u32 = 100;
pub(super) const MAX_PAGE_SIZE: u32 = 1000;
const CURSOR: &str = "v1:";

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
    // Behind the cursor is the last document id of the page before: stable while documents come and go.
    let after = match list.cursor.as_str() {
        "" => None,
        cursor => Some(read_cursor(cursor)?),
    };
    Ok(CatalogQuestion::Documents(
        CorpusName::new(&list.corpus)?,
        Page { size, after },
    ))
}

/// The cursor behind which a page goes on. Opaque to callers.
pub fn cursor_after(document: &DocumentId) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR}{}", document.as_str()))
}

pub(super) fn read_cursor(cursor: &str) -> Result<DocumentId> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.as_deref()
        .and_then(|text| text.strip_prefix(CURSOR))
        .and_then(|id| DocumentId::new(id).ok())
        .ok_or_else(|| Error::invalid_field("cursor", "is none that a page gave"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(cursor: &str) -> Result<CatalogQuestion> {
        let body =
            format!(r#"{{"listDocuments":{{"corpus":"c","pageSize":7,"cursor":"{cursor}"}}}}"#);
        decode_catalog(body.as_bytes(), Encoding::Json)
    }

    #[test]
    fn a_cursor_comes_back_and_others_are_refused() {
        let id = DocumentId::new("ä/b.txt").expect("valid");
        let question = page(&cursor_after(&id)).expect("ours");
        let corpus = CorpusName::new("c").expect("valid");
        assert_eq!(
            question,
            CatalogQuestion::Documents(
                corpus,
                Page {
                    size: 7,
                    after: Some(id)
                }
            )
        );
        for bad in ["x", "a.txt", "bm90LW91cnM"] {
            assert_eq!(page(bad).expect_err(bad).field(), Some("cursor"));
        }
    }

    #[test]
    fn a_request_asks_exactly_one_question() {
        let decoded = |json: &str| decode_catalog(json.as_bytes(), Encoding::Json);
        assert_eq!(
            decoded(r#"{"getInfo":{}}"#).expect("valid"),
            CatalogQuestion::Info
        );
        assert!(decoded("{}").is_err());
        assert!(decoded(r#"{"getJob":{"jobId":"a.b"}}"#).is_err());
    }
}
