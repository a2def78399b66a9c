//! Rebuilds a corpus into a new generation with the current models, while queries and jobs go on.
//!
//! - A collection is prepared beside the served one.
//! - Documents are copied, again and again, until every copy is of the version that is served.
//! - One transaction of the registry, which no job can overtake, checks just that and makes the new generation the corpus';
//!   jobs that were writing into the old one notice it in their last step and start again.
//! - The store serves it, and after the longest time a request may take the old one is dropped.
//!
//! Any worker can go on where another stopped. Must not know NATS.

mod copying;
mod lease;
mod working;

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::model::CorpusRef;
use crate::spi::{
    DocumentRegistry, ModelSets, Rebuild, RebuildProgress, RebuildRegistry, VectorStore,
};
use crate::tenancy::TenancyStrategy;

/// What a rebuilder is made of.
#[derive(Debug, Clone)]
pub struct RebuildParts {
    /// Rebuilds.
    pub rebuilds: Arc<dyn RebuildRegistry>,
    /// Documents.
    pub documents: Arc<dyn DocumentRegistry>,
    /// The store.
    pub store: Arc<dyn VectorStore>,
    /// The models; the current ones are those that corpora are rebuilt with.
    pub models: ModelSets,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
    /// This worker's name.
    pub owner: String,
    /// For how long a worker that says nothing keeps a rebuild. Longer than the store's limit for a write.
    pub lease: Duration,
    /// How long the old generation stays after the switch: as long as a request may take.
    pub grace: Duration,
}

/// How a corpus stands.
#[derive(Debug, Clone, PartialEq)]
pub enum RebuildStatus {
    /// Built with the current models; nothing was ever rebuilt.
    Current,
    /// Built with others; nothing is being rebuilt.
    Outdated,
    /// The newest rebuild.
    Rebuild(Box<Rebuild>, RebuildProgress),
}

/// Rebuilds corpora, one at a time.
#[derive(Debug, Clone)]
pub struct Rebuilder {
    parts: RebuildParts,
}

impl Rebuilder {
    /// A rebuilder over these parts.
    pub fn new(parts: RebuildParts) -> Self {
        Self { parts }
    }

    /// Begins the rebuild of a corpus with the current models, unless it is built with them or one is under way.
    ///
    /// # Errors
    /// `NotFound` when the corpus doesn't exist; `SchemaConflict` when a rebuild with other models is under way.
    pub async fn begin(&self, corpus: &CorpusRef) -> Result<RebuildStatus> {
        let status = self.status(corpus).await?;
        let open = |rebuild: &Rebuild| !rebuild.state.is_over();
        match status {
            RebuildStatus::Rebuild(rebuild, progress) if open(&rebuild) => {
                self.same_models(&rebuild)?;
                return Ok(RebuildStatus::Rebuild(rebuild, progress));
            }
            _ if self.is_current(corpus).await? => return Ok(status),
            _ => {}
        }
        let models = self.parts.models.current().ids();
        let begun = self.parts.rebuilds.begin_rebuild(corpus, &models).await?;
        self.same_models(&begun.ok_or_else(no_corpus)?)?;
        tracing::info!(
            corpus = corpus.corpus.as_str(),
            "a rebuild of the corpus begins"
        );
        self.status(corpus).await
    }

    /// How a corpus stands.
    ///
    /// # Errors
    /// `NotFound` when it doesn't exist.
    pub async fn status(&self, corpus: &CorpusRef) -> Result<RebuildStatus> {
        let current = self.is_current(corpus).await?;
        Ok(match self.parts.rebuilds.rebuild(corpus).await? {
            Some((rebuild, progress)) => RebuildStatus::Rebuild(Box::new(rebuild), progress),
            None if current => RebuildStatus::Current,
            None => RebuildStatus::Outdated,
        })
    }

    /// Calls a rebuild off. After the switch there is nothing to call off.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn cancel(&self, corpus: &CorpusRef) -> Result<RebuildStatus> {
        self.parts.rebuilds.cancel_rebuild(corpus).await?;
        self.status(corpus).await
    }

    /// Whether the served generation was built with just what this worker builds with.
    async fn is_current(&self, corpus: &CorpusRef) -> Result<bool> {
        let info = self.parts.store.describe(corpus).await?;
        Ok(info.ok_or_else(no_corpus)?.schema == self.parts.models.current().schema())
    }

    fn same_models(&self, rebuild: &Rebuild) -> Result<()> {
        let own = self.parts.models.current().ids();
        if rebuild.models == own {
            return Ok(());
        }
        let message = format!(
            "a rebuild with {} and {} is under way, this worker builds with {} and {}",
            rebuild.models.dense, rebuild.models.sparse, own.dense, own.sparse
        );
        Err(Error::new(ErrorKind::SchemaConflict, message))
    }
}

fn no_corpus() -> Error {
    Error::new(ErrorKind::NotFound, "the corpus does not exist")
}
