//! `rag.admin.purge`, `rag.admin.hold`, `rag.admin.forget`: operators' requests about keeping and forgetting. Each act is
//! on record.

use std::sync::Arc;

use tokio::sync::Notify;
use uuid::Uuid;

use super::horizon::NatsJobs;
use super::responder::Call;
use super::subjects;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{Forgetter, Forgotten};
use crate::model::{
    AdminAct, CorpusName, DocumentId, Hold, HoldScope, Run, RunOrder, RunState, TenantId,
};
use crate::retention::{Forecast, Retention};
use crate::spi::{RetentionRegistry, RetrievalTracker};
use crate::wire::{decode, encode, v1};
use v1::retention_state::Kind as State;

const MAX_REASON: usize = 512;

/// What these requests are answered with.
#[derive(Debug, Clone)]
pub struct RetentionDesk {
    /// Forecasts.
    pub retention: Retention,
    /// Runs, holds, acts.
    pub registry: Arc<dyn RetentionRegistry>,
    /// The database's clock.
    pub tracker: Arc<dyn RetrievalTracker>,
    /// Forgets tenants.
    pub forgetter: Forgetter,
    /// The ingest stream.
    pub jobs: NatsJobs,
    /// Told when a run was ordered.
    pub ordered: Arc<Notify>,
}

impl RetentionDesk {
    /// Answers one of the three.
    pub(super) async fn answer(&self, verb: &str, call: &Call) -> Result<Vec<u8>> {
        match verb {
            "purge" => self.purge(call).await,
            "hold" => self.hold(call).await,
            _ => self.forget(call).await,
        }
    }

    /// Records an act of the caller's.
    pub(super) async fn record(
        &self,
        call: &Call,
        action: &str,
        whose: (&str, &str),
        details: &serde_json::Value,
    ) -> Result<()> {
        let act = AdminAct {
            action: action.to_owned(),
            actor: call.actor().to_owned(),
            tenant: whose.0.to_owned(),
            corpus: whose.1.to_owned(),
            details: details.to_string(),
        };
        self.registry.record_act(&act).await
    }

    async fn purge(&self, call: &Call) -> Result<Vec<u8>> {
        let request: v1::PurgeRequest = decode(&call.body, call.encoding)?;
        let _place = call.admitted()?;
        if !request.run.is_empty() {
            let run = self.registry.run(&request.run).await?;
            let run = run.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no such run"))?;
            return Ok(encode(&told(run), call.encoding));
        }
        let order = order(&request, call.actor())?;
        let forecast = self.retention.forecast(&order).await?;
        if request.dry_run {
            let refusal = self.retention.refusal(&order, &forecast);
            return Ok(encode(&foretold(forecast, refusal), call.encoding));
        }
        let run = self
            .registry
            .order_run(&format!("by-hand-{}", Uuid::now_v7()), &order)
            .await?;
        let whose = (request.tenant.as_str(), request.corpus.as_str());
        let details = serde_json::json!({
            "run": run.key, "olderThanDays": request.older_than_days, "force": request.force,
        });
        self.record(call, "purge", whose, &details).await?;
        self.ordered.notify_one();
        Ok(encode(&told(run), call.encoding))
    }

    async fn hold(&self, call: &Call) -> Result<Vec<u8>> {
        use v1::hold_request::Action;
        let request: v1::HoldRequest = decode(&call.body, call.encoding)?;
        let tenant = subjects::named_by_operator(&request.tenant)?;
        let _place = call.admitted()?;
        let hold_id = match request.action {
            None => {
                return Err(Error::invalid_field(
                    "action",
                    "must be one of add, list, release",
                ));
            }
            Some(Action::List(_)) => String::new(),
            Some(Action::Add(add)) => self.add_hold(call, &tenant, add).await?,
            Some(Action::Release(release)) => {
                let id = release.hold_id;
                let released = self
                    .registry
                    .release_hold(&tenant, &id, call.actor())
                    .await?;
                let released = released.ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, "the tenant has no such legal hold")
                })?;
                let corpus = released
                    .corpus
                    .map_or(String::new(), |c| c.as_str().to_owned());
                let details = serde_json::json!({ "hold": id });
                let whose = (tenant.as_str(), corpus.as_str());
                self.record(call, "hold.release", whose, &details).await?;
                id
            }
        };
        let holds = self.registry.holds(&tenant).await?;
        let response = v1::HoldResponse {
            holds: holds.into_iter().map(shown).collect(),
            hold_id,
        };
        Ok(encode(&response, call.encoding))
    }

    async fn add_hold(&self, call: &Call, tenant: &TenantId, add: v1::AddHold) -> Result<String> {
        if add.reason.trim().is_empty() || add.reason.len() > MAX_REASON {
            return Err(Error::invalid_field(
                "add.reason",
                "must say why, in at most 512 bytes",
            ));
        }
        let corpus = optional(&add.corpus, CorpusName::new)?;
        let document = optional(&add.document_id, DocumentId::new)?;
        if document.is_some() && corpus.is_none() {
            return Err(Error::invalid_field(
                "add.corpus",
                "must be named with a document",
            ));
        }
        let hold = Hold {
            id: Uuid::now_v7().to_string(),
            scope: HoldScope {
                tenant: tenant.clone(),
                corpus,
                document,
            },
            reason: add.reason,
            actor: call.actor().to_owned(),
            since: self.tracker.now().await?,
        };
        self.registry.add_hold(&hold).await?;
        let details = serde_json::json!({ "hold": hold.id, "documentId": add.document_id });
        let whose = (tenant.as_str(), add.corpus.as_str());
        self.record(call, "hold.add", whose, &details).await?;
        Ok(hold.id)
    }

    async fn forget(&self, call: &Call) -> Result<Vec<u8>> {
        let request: v1::ForgetRequest = decode(&call.body, call.encoding)?;
        let tenant = subjects::named_by_operator(&request.tenant)?;
        let _place = call.admitted()?;
        let whose = (tenant.as_str(), "");
        if let Some(messages) = request.messages {
            let details = serde_json::json!({
                "jobs": messages.jobs, "results": messages.results, "deadLetters": messages.dead_letters,
                "events": messages.events, "blobs": messages.blobs,
            });
            self.record(call, "forget.messages", whose, &details)
                .await?;
            return Ok(encode(&v1::ForgetResponse::default(), call.encoding));
        }
        self.forgetter.check_holds(&tenant).await?;
        let sequence = self.jobs.last_sequence().await?;
        let begun = serde_json::json!({ "upToSequence": sequence });
        self.record(call, "forget.begin", whose, &begun).await?;
        let forgotten = self.forgetter.forget(&tenant, sequence).await?;
        let response = receipt(forgotten);
        let details = serde_json::to_value(response)
            .map_err(|e| Error::internal("a receipt can't be recorded").caused_by(e))?;
        self.record(call, "forget.end", whose, &details).await?;
        tracing::info!("a tenant was forgotten");
        Ok(encode(&response, call.encoding))
    }
}

fn optional<T>(name: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
    match name {
        "" => Ok(None),
        name => read(name).map(Some),
    }
}

fn order(request: &v1::PurgeRequest, actor: &str) -> Result<RunOrder> {
    let tenant = optional(&request.tenant, subjects::named_by_operator)?;
    if tenant.is_none() && !request.corpus.is_empty() {
        return Err(Error::invalid_field(
            "tenant",
            "must be named with a corpus",
        ));
    }
    Ok(RunOrder {
        tenant,
        corpus: optional(&request.corpus, CorpusName::new)?,
        days: request.older_than_days,
        force: request.force,
        actor: actor.to_owned(),
    })
}

fn told(run: Run) -> v1::PurgeResponse {
    let tracking = run.counts.tracking;
    let state = match run.state {
        RunState::Open => State::Open,
        RunState::Done => State::Done,
        RunState::Refused => State::Refused,
        RunState::Failed => State::Failed,
    };
    v1::PurgeResponse {
        run: run.key,
        state: state.into(),
        retrievals: tracking.retrievals,
        chunks: tracking.chunks,
        documents: tracking.documents,
        feedback: tracking.feedback,
        expired: run.counts.expired,
        tombstones: run.counts.tombstones,
        total: 0,
        notes: run.notes,
    }
}

fn foretold(forecast: Forecast, refusal: Option<String>) -> v1::PurgeResponse {
    let mut response = v1::PurgeResponse {
        state: State::DryRun.into(),
        total: forecast.total(),
        ..v1::PurgeResponse::default()
    };
    for (_, due) in &forecast.corpora {
        response.retrievals += due.removed.retrievals;
        response.chunks += due.removed.chunks;
        response.documents += due.removed.documents;
        response.feedback += due.removed.feedback;
    }
    response.notes = forecast.notes;
    response.notes.extend(refusal);
    response
}

fn shown(hold: Hold) -> v1::LegalHold {
    let scope = hold.scope;
    v1::LegalHold {
        hold_id: hold.id,
        corpus: scope
            .corpus
            .map_or(String::new(), |c| c.as_str().to_owned()),
        document_id: scope
            .document
            .map_or(String::new(), |d| d.as_str().to_owned()),
        reason: hold.reason,
        actor: hold.actor,
        since: Some(hold.since.into()),
    }
}

fn receipt(forgotten: Forgotten) -> v1::ForgetResponse {
    v1::ForgetResponse {
        corpora: forgotten.corpora,
        documents: forgotten.documents,
        chunks: forgotten.chunks,
        tombstones: forgotten.tombstones,
        retrievals: forgotten.tracking.retrievals,
        retrieved_chunks: forgotten.tracking.chunks,
        feedback: forgotten.tracking.feedback,
    }
}
