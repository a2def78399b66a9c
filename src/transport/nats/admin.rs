//! `rag.admin.<verb>`: operators' requests. The tenant is named in the body, because an operator may name any; replies go to
//! operators' addresses only.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::admin_retention::RetentionDesk;
use super::audit::AuditDesk;
use super::responder::{Call, Caller, Endpoint};
use super::subjects;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{ConsistencyParts, CorpusCheck, RebuildStatus, Rebuilder};
use crate::model::{CorpusName, CorpusRef};
use crate::spi::RebuildState;
use crate::wire::{decode, encode, v1};

/// The operators' endpoint.
#[derive(Debug)]
pub struct AdminEndpoint {
    parts: AdminParts,
}

/// What the operators' endpoint is made of.
#[derive(Debug)]
pub struct AdminParts {
    /// Compares registry and store.
    pub consistency: ConsistencyParts,
    /// Rebuilds corpora.
    pub rebuilder: Rebuilder,
    /// Told when there is something to rebuild.
    pub begun: Arc<Notify>,
    /// Keeps and forgets.
    pub retention: RetentionDesk,
    /// Shows what was retrieved.
    pub audit: AuditDesk,
}

impl AdminEndpoint {
    /// An endpoint over these parts.
    pub fn new(parts: AdminParts) -> Self {
        Self { parts }
    }

    async fn recorded(
        &self,
        call: &Call,
        act: &str,
        corpus: &CorpusRef,
        details: &serde_json::Value,
    ) -> Result<()> {
        if act.is_empty() {
            return Ok(());
        }
        let whose = (corpus.tenant.as_str(), corpus.corpus.as_str());
        self.parts.retention.record(call, act, whose, details).await
    }

    async fn reindex(&self, call: &Call) -> Result<Vec<u8>> {
        use v1::reindex_action::Kind;
        let request: v1::ReindexRequest = decode(&call.body, call.encoding)?;
        let tenant = subjects::named_by_operator(&request.tenant)?;
        let corpus = CorpusRef::new(tenant, CorpusName::new(&request.corpus)?);
        let action = Kind::try_from(request.action)
            .map_err(|_| Error::invalid_field("action", "must be STATUS, START or CANCEL"))?;
        let _place = call.admitted()?;
        let rebuilder = &self.parts.rebuilder;
        let (act, status) = match action {
            Kind::Unspecified | Kind::Status => ("", rebuilder.status(&corpus).await?),
            Kind::Start => ("reindex.start", rebuilder.begin(&corpus).await?),
            Kind::Cancel => ("reindex.cancel", rebuilder.cancel(&corpus).await?),
        };
        self.recorded(call, act, &corpus, &serde_json::json!({}))
            .await?;
        self.parts.begun.notify_one();
        Ok(encode(&rebuilt(status), call.encoding))
    }

    async fn verify(&self, call: &Call) -> Result<Vec<u8>> {
        let request: v1::VerifyRequest = decode(&call.body, call.encoding)?;
        let tenant = subjects::named_by_operator(&request.tenant)?;
        let corpus = CorpusRef::new(tenant, CorpusName::new(&request.corpus)?);
        let _place = call.admitted()?;
        let check = self
            .parts
            .consistency
            .verify(&corpus, request.repair)
            .await?;
        if request.repair {
            let details = serde_json::json!({ "removed": check.removed });
            self.recorded(call, "verify.repair", &corpus, &details)
                .await?;
        }
        tracing::info!(
            corpus = corpus.corpus.as_str(),
            clean = check.is_clean(),
            removed = check.removed,
            damaged = check.damaged_documents,
            "registry and store compared"
        );
        Ok(encode(&verified(check), call.encoding))
    }
}

fn rebuilt(status: RebuildStatus) -> v1::ReindexResponse {
    use v1::reindex_state::Kind;
    let (rebuild, progress) = match status {
        RebuildStatus::Current => return bare(Kind::Current),
        RebuildStatus::Outdated => return bare(Kind::Outdated),
        RebuildStatus::Rebuild(rebuild, progress) => (rebuild, progress),
    };
    let state = match rebuild.state {
        RebuildState::Building => Kind::Building,
        RebuildState::Switched => Kind::Switched,
        RebuildState::Cancelling => Kind::Cancelling,
        RebuildState::Done => Kind::Done,
        RebuildState::Cancelled => Kind::Cancelled,
    };
    v1::ReindexResponse {
        generation: rebuild.generation,
        dense_model: rebuild.models.dense,
        sparse_model: rebuild.models.sparse,
        documents: progress.documents,
        built: progress.built,
        missing_chunks: progress.missing,
        problem: rebuild.problem,
        ..bare(state)
    }
}

fn bare(state: v1::reindex_state::Kind) -> v1::ReindexResponse {
    v1::ReindexResponse {
        state: state.into(),
        ..v1::ReindexResponse::default()
    }
}

fn verified(check: CorpusCheck) -> v1::VerifyResponse {
    let damaged = check.damaged.iter().map(|document| v1::DamagedDocument {
        document_id: document.document_id.as_str().to_owned(),
        expected_chunks: document.expected,
        found_chunks: document.found,
    });
    v1::VerifyResponse {
        clean: check.is_clean(),
        documents: check.documents,
        registry_chunks: check.registry_chunks,
        stored_points: check.stored_points,
        damaged: damaged.collect(),
        damaged_documents: check.damaged_documents,
        removed: check.removed,
    }
}

#[async_trait]
impl Endpoint for AdminEndpoint {
    fn verb(&self) -> &'static str {
        "admin"
    }

    fn caller(&self) -> Caller {
        Caller::Operator
    }

    async fn answer(&self, call: &Call) -> Result<Vec<u8>> {
        call.check_audit()?;
        match call.last_token.as_str() {
            "verify" => self.verify(call).await,
            "reindex" => self.reindex(call).await,
            verb @ ("purge" | "hold" | "forget") => self.parts.retention.answer(verb, call).await,
            "audit" => self.parts.audit.answer(call).await,
            _ => Err(Error::new(
                ErrorKind::NotFound,
                "there is no such request; rag.admin.verify, reindex, audit, purge, hold and forget are some",
            )),
        }
    }
}
