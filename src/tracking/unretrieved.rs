//! Documents of a corpus that no reply of a window held: the registry's list without the tracker's.
//!
//! Must not know where either is kept: both list by document id in byte order.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::model::{CorpusRef, DocumentId, TimeWindow};
use crate::spi::{DocumentEntry, DocumentRegistry, RetrievalTracker};

/// Documents that are looked at in one go.
const BATCH: u32 = 500;
/// Documents that one page looks at: most of a busy corpus was retrieved, and a page must not read all of it.
const MOST: usize = 20_000;

/// A page of documents, and where the next one begins.
#[derive(Debug, Clone, PartialEq)]
pub struct UnretrievedPage {
    /// The documents, by id.
    pub documents: Vec<DocumentEntry>,
    /// The last document that was looked at; `None` = there are no more.
    pub next: Option<DocumentId>,
}

/// Up to `limit` documents behind `after`. A page may hold fewer and still have a next one.
///
/// # Errors
/// `DependencyFailed`.
pub async fn unretrieved_documents(
    registry: &dyn DocumentRegistry,
    tracker: &dyn RetrievalTracker,
    corpus: &CorpusRef,
    window: TimeWindow,
    after: Option<DocumentId>,
    limit: u32,
) -> Result<UnretrievedPage> {
    let mut documents = Vec::new();
    let (mut after, mut seen) = (after, 0);
    while seen < MOST {
        let batch = registry.documents(corpus, after.as_ref(), BATCH).await?;
        let Some(last) = batch.last().map(|entry| entry.document_id.clone()) else {
            return Ok(UnretrievedPage {
                documents,
                next: None,
            });
        };
        let shown = retrieved(tracker, corpus, window, after.as_ref(), &last).await?;
        for entry in batch {
            seen += 1;
            if shown.contains(&entry.document_id) {
                continue;
            }
            let id = entry.document_id.clone();
            documents.push(entry);
            if documents.len() >= limit as usize {
                return Ok(UnretrievedPage {
                    documents,
                    next: Some(id),
                });
            }
        }
        after = Some(last);
    }
    Ok(UnretrievedPage {
        documents,
        next: after,
    })
}

/// Documents of replies behind `after`, up to and with `last`.
async fn retrieved(
    tracker: &dyn RetrievalTracker,
    corpus: &CorpusRef,
    window: TimeWindow,
    after: Option<&DocumentId>,
    last: &DocumentId,
) -> Result<BTreeSet<DocumentId>> {
    let mut found = BTreeSet::new();
    let mut after = after.cloned();
    loop {
        let page = tracker
            .retrieved_documents(corpus, window, after.as_ref(), BATCH)
            .await?;
        after = page.last().cloned();
        found.extend(page);
        if after.as_ref().is_none_or(|end| end >= last) {
            return Ok(found);
        }
    }
}
