//! How many documents a tenant may have. Must not know what becomes of a job that is refused.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{CorpusRef, DocumentId, LimitBook};
use crate::spi::DocumentRegistry;

/// Asks the registry, and only for tenants that have a limit.
#[derive(Debug, Clone)]
pub(super) struct DocumentLimit {
    registry: Arc<dyn DocumentRegistry>,
    book: Arc<LimitBook>,
}

impl DocumentLimit {
    /// Limits by this book.
    pub(super) fn new(registry: Arc<dyn DocumentRegistry>, book: Arc<LimitBook>) -> Self {
        Self { registry, book }
    }

    /// No limits.
    pub(super) fn none(registry: Arc<dyn DocumentRegistry>) -> Self {
        Self::new(registry, Arc::default())
    }

    /// Whether a put of this document may begin: a replacement always, a new one while there is room.
    ///
    /// Counting and writing are two steps, so jobs that run beside each other, on all workers together, may overshoot by as
    /// many as run. A lock around them would hold while models work.
    ///
    /// # Errors
    /// `TenantLimit`; nothing was written.
    pub(super) async fn check(&self, corpus: &CorpusRef, document: &DocumentId) -> Result<()> {
        let Some(most) = self.book.of(&corpus.tenant).documents else {
            return Ok(());
        };
        // The count first: it is one look into an index, and mostly there is room.
        if self.registry.document_count(&corpus.tenant).await? < most {
            return Ok(());
        }
        if self.registry.document(corpus, document).await?.is_some() {
            return Ok(());
        }
        let message = format!(
            "the tenant has its {most} documents already: delete some, then send the job again"
        );
        Err(Error::new(ErrorKind::TenantLimit, message))
    }
}
