//! The jobs that delete: a document, or a whole corpus.
//!
//! The steps and why each is there: `ARCHITECTURE.md`, "Replace, delete, fence". Must not know how puts write.

use futures::stream::{self, TryStreamExt};

use super::processor::IngestProcessor;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Decision, DocumentId, IngestJob, IngestResult};
use crate::spi::IngestStep;
use crate::tenancy::Placement;

const FENCE_PAGE: u32 = 256;
const DROPPED_AGAIN: usize = 4;
const FENCE_CONCURRENCY: usize = 16;

impl IngestProcessor {
    pub(super) async fn delete(
        &self,
        job: &IngestJob,
        document: &DocumentId,
    ) -> Result<IngestResult> {
        let begun = self
            .parts
            .registry
            .begin_delete(&job.corpus, document, &job.template())
            .await
            .map_err(|e| e.at_stage("begin"))?;
        self.reached(IngestStep::Begun).await;
        let Decision::Finished(result) = begun.decision else {
            return Err(Error::internal("a delete is decided in its first step"));
        };
        let at = self.place(&job.corpus, begun.generation);
        self.served(&at, begun.unserved).await?;
        self.clean_up(&at, document, begun.live).await?;
        Ok(*result)
    }

    /// A rebuilt generation that the registry has switched to, and the store hasn't: readers would go on seeing in the old
    /// one what this job, or an earlier delivery of it, removed or was about to remove.
    pub(super) async fn served(&self, at: &Placement, unserved: bool) -> Result<()> {
        if !unserved {
            return Ok(());
        }
        match self.parts.store.serve(at).await {
            Ok(()) => Ok(()),
            // Dropped meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.at_stage("clean")),
        }
    }

    #[tracing::instrument(target = "ragbus", name = "delete corpus", skip_all)]
    pub(super) async fn delete_corpus(&self, job: &IngestJob) -> Result<IngestResult> {
        let registry = &self.parts.registry;
        let fenced = registry
            .raise_fence(&job.corpus, &job.template())
            .await
            .map_err(|e| e.at_stage("begin"))?;
        self.reached(IngestStep::Begun).await;
        let mut after: Option<DocumentId> = None;
        loop {
            let page = registry
                .documents_below(&job.corpus, job.sequence, after.as_ref(), FENCE_PAGE)
                .await?;
            after = page.last().cloned();
            stream::iter(page.iter().map(Ok))
                .try_for_each_concurrent(FENCE_CONCURRENCY, |document| {
                    self.fence_document(job, document)
                })
                .await?;
            if after.is_none() {
                break;
            }
        }
        self.reached(IngestStep::Committed).await;
        if let Some(generation) = registry
            .retire_generation(&job.corpus, job.sequence)
            .await?
        {
            // A crash may have come between an earlier raise and its drop: a few older ones are dropped again.
            for old in (1..=generation).rev().take(DROPPED_AGAIN) {
                let at = self.place(&job.corpus, old);
                let dropped = self.parts.store.drop_generation(&at).await;
                dropped.map_err(|e| e.at_stage("clean"))?;
            }
        }
        self.reached(IngestStep::Cleaned).await;
        Ok(fenced.result)
    }

    async fn fence_document(&self, job: &IngestJob, document: &DocumentId) -> Result<()> {
        let fenced = self
            .parts
            .registry
            .fence_document(&job.corpus, document, job.sequence)
            .await?;
        if let Some(buried) = fenced {
            let at = self.place(&job.corpus, buried.generation);
            self.served(&at, buried.unserved).await?;
            self.parts
                .store
                .delete_below(&at, document, buried.live)
                .await?;
        }
        Ok(())
    }
}
