//! Starts the roles; ends them in the measured order: readiness, pulling and subscriptions, work in flight, replies,
//! acknowledgements, records of replies, and the connection last.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::tracking::{self, FEEDBACK_CONCURRENCY, Publishing, TrackingParts};
use super::{rebuilding, retention};
use crate::error::{Error, Result};
use crate::ingest::{ConsistencyParts, IngestProcessor};
use crate::model::{LimitBook, ModelIds};
use crate::retention::Schedule;
use crate::spi::{
    DocumentRegistry, ModelSets, RebuildRegistry, RetrievalAnalysis, RetrievalTracker, Retriever,
    VectorStore,
};
use crate::telemetry::{Health, Metrics};
use crate::tenancy::TenancyStrategy;
use crate::transport::nats::{
    ACK_WAIT, AdminEndpoint, AdminParts, AuditDesk, CatalogEndpoint, CatalogParts, Connection,
    Discovery, Endpoint, IngestConsumer, IngestContext, MARGIN, ReplyRule, RequestLimits,
    Responder, ResponderContext, RetentionDesk, RetrieveEndpoint, RetrieveParts, StatsEndpoint,
    StatsParts,
};
use crate::wire::{IngestLimits, RetrieveRules};

/// Time for work in flight after the signal to stop.
const GRACE: Duration = Duration::from_secs(20);
const CATALOG_CONCURRENCY: usize = 32;
/// How often a worker looks for rebuilds and runs that nobody works on.
pub(super) const LEFT_BEHIND_EVERY: Duration = Duration::from_secs(5);
/// Analyses read many rows, and share the database's connections with everybody.
const STATS_CONCURRENCY: usize = 2;
/// Operators' requests read whole corpora.
const ADMIN_CONCURRENCY: usize = 2;

/// What a worker can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Carries out ingest jobs.
    Ingest,
    /// Answers retrieval, catalog and statistics requests.
    Retrieve,
    /// Carries out retention.
    Retention,
    /// Stores tracked retrievals and takes judgements.
    Tracker,
}

/// What a worker is made of.
#[derive(Debug, Clone)]
pub struct WorkerParts {
    /// The worker's name in replies, results and discovery.
    pub worker: String,
    /// The connection.
    pub connection: Connection,
    /// The registry.
    pub registry: Arc<dyn DocumentRegistry>,
    /// Rebuilds of corpora.
    pub rebuilds: Arc<dyn RebuildRegistry>,
    /// The tracker of retrievals.
    pub tracker: Arc<dyn RetrievalTracker>,
    /// The analysis over its rows.
    pub analysis: Arc<dyn RetrievalAnalysis>,
    /// The models that are loaded.
    pub sets: ModelSets,
    /// Retention, and what operators ask about it.
    pub desk: RetentionDesk,
    /// The schedule, when workers make its ticks.
    pub own_ticks: Option<Schedule>,
    /// The store.
    pub store: Arc<dyn VectorStore>,
    /// Carries out jobs.
    pub processor: Arc<IngestProcessor>,
    /// The outermost stage of retrieval.
    pub retriever: Arc<dyn Retriever>,
    /// What retrieval requests may ask for.
    pub rules: RetrieveRules,
    /// The current models' ids.
    pub models: ModelIds,
    /// Longest input of the dense model in tokens.
    pub max_tokens: u32,
    /// The largest body that may lie in a bucket, in bytes.
    pub max_blob: u64,
    /// Where corpora live.
    pub tenancy: TenancyStrategy,
    /// Allowed reply addresses.
    pub reply_rule: ReplyRule,
    /// Tracking of retrievals.
    pub tracking: TrackingParts,
    /// What each tenant may take.
    pub limits: Arc<LimitBook>,
    /// Jobs at once.
    pub ingest_concurrency: usize,
    /// Requests at once.
    pub retrieve_concurrency: usize,
    /// Inference threads.
    pub threads: usize,
    /// Default and largest time budget in milliseconds.
    pub timeouts_ms: (u32, u32),
    /// Instruments.
    pub metrics: Metrics,
    /// Readiness.
    pub health: Health,
}

/// A redelivery that started while the store may still apply an earlier attempt's write could bring old chunks back.
fn check_delays(limit: Duration) -> Result<()> {
    if limit + MARGIN < ACK_WAIT {
        return Ok(());
    }
    Err(Error::invalid_field(
        "store",
        format!(
            "may apply a write {limit:?} late, but a killed worker's job is delivered again after {ACK_WAIT:?}: lower store.qdrant.timeout_ms"
        ),
    ))
}

/// Serves until `stop`, or until a role ends by itself; then ends cleanly. The connection is closed when this returns.
///
/// # Errors
/// `Internal` when a role ended by itself; `DependencyFailed` when a subscription is refused; `InvalidField` when redeliveries could overtake the store's writes.
pub async fn serve(parts: WorkerParts, roles: &[Role], stop: CancellationToken) -> Result<()> {
    check_delays(parts.store.write_limit())?;
    let mut running = tokio::task::JoinSet::new();
    let mut served = Vec::new();
    // One for all endpoints: a tenant's requests count together.
    let limits = RequestLimits::new(Arc::clone(&parts.limits), parts.metrics.clone());
    let limits = Arc::new(limits);
    let publishing = Publishing::start(&parts);
    if roles.contains(&Role::Retrieve) {
        let endpoints: [(Arc<dyn Endpoint>, usize); 3] = [
            (
                Arc::new(retrieve(&parts, &publishing)),
                parts.retrieve_concurrency,
            ),
            (Arc::new(catalog(&parts)), CATALOG_CONCURRENCY),
            (Arc::new(stats(&parts)), STATS_CONCURRENCY),
        ];
        for (endpoint, concurrency) in endpoints {
            let responder =
                Responder::subscribe(responder(&parts, &limits, concurrency), endpoint).await?;
            served.push(responder.stats());
            running.spawn(responder.run(stop.clone(), GRACE));
        }
    }
    if roles.contains(&Role::Ingest) {
        let begun = Arc::new(Notify::new());
        let admin = admin(&parts, Arc::clone(&begun));
        running.spawn(rebuilding::keep(
            rebuilding::rebuilder(&parts),
            begun,
            stop.clone(),
        ));
        let responder = Responder::subscribe(
            responder(&parts, &limits, ADMIN_CONCURRENCY),
            Arc::new(admin),
        )
        .await?;
        running.spawn(responder.run(stop.clone(), GRACE));
        // Not ready until the streams are verified: nothing could be pulled.
        parts.health.set(
            "ingest",
            Some("the streams are not verified yet".to_owned()),
        );
        running.spawn(IngestConsumer::new(ingest(&parts)).run(stop.clone(), GRACE));
    }
    if roles.contains(&Role::Retention) {
        retention::start(&parts, &mut running, &stop);
    }
    if roles.contains(&Role::Tracker) {
        let endpoint = Arc::new(tracking::feedback(&parts));
        let context = responder(&parts, &limits, FEEDBACK_CONCURRENCY);
        let responder = Responder::subscribe(context, endpoint).await?;
        served.push(responder.stats());
        running.spawn(responder.run(stop.clone(), GRACE));
        let unverified = "the tracking stream is not verified yet".to_owned();
        parts.health.set("tracking", Some(unverified));
        running.spawn(tracking::consumer(&parts).run(stop.clone()));
    }
    parts.health.set("start", None);
    let discovery = Discovery::new(
        parts.connection.clone(),
        parts.reply_rule.clone(),
        parts.health.clone(),
        parts.metrics.clone(),
        parts.worker.clone(),
        served,
    );
    let found = stop.clone();
    let discovered = tokio::spawn(async move {
        if let Err(error) = discovery.run(found).await {
            tracing::warn!(error = %error.chain(), "workers can't be discovered");
        }
    });
    let died = tokio::select! {
        () = stop.cancelled() => false,
        // A role may notice the signal before this does.
        Some(_) = running.join_next() => !stop.is_cancelled(),
    };
    stop.cancel();
    parts
        .health
        .set("draining", Some("the worker is going away".to_owned()));
    tracing::info!("draining");
    while running.join_next().await.is_some() {}
    publishing.end().await;
    discovered.abort();
    parts.connection.close().await;
    tracing::info!("drained");
    if died {
        return Err(Error::internal("a role ended by itself"));
    }
    Ok(())
}

fn responder(
    parts: &WorkerParts,
    limits: &Arc<RequestLimits>,
    concurrency: usize,
) -> ResponderContext {
    ResponderContext {
        connection: parts.connection.clone(),
        rule: parts.reply_rule.clone(),
        worker: parts.worker.clone(),
        metrics: parts.metrics.clone(),
        limits: Arc::clone(limits),
        concurrency,
        parallelism: parts.threads,
        default_budget: millis(parts.timeouts_ms.0),
    }
}

fn retrieve(parts: &WorkerParts, publishing: &Publishing) -> RetrieveEndpoint {
    RetrieveEndpoint::new(RetrieveParts {
        retriever: Arc::clone(&parts.retriever),
        rules: parts.rules.clone(),
        limits: Arc::clone(&parts.limits),
        models: parts.models.clone(),
        default_budget: millis(parts.timeouts_ms.0),
        max_budget: millis(parts.timeouts_ms.1),
        worker: parts.worker.clone(),
        tracking: publishing.publisher(),
        metrics: parts.metrics.clone(),
    })
}

fn catalog(parts: &WorkerParts) -> CatalogEndpoint {
    CatalogEndpoint::new(CatalogParts {
        registry: Arc::clone(&parts.registry),
        store: Arc::clone(&parts.store),
        tenancy: parts.tenancy,
        connection: parts.connection.clone(),
        models: parts.models.clone(),
        legs: parts.rules.legs.clone(),
        timeouts_ms: parts.timeouts_ms,
    })
}

fn stats(parts: &WorkerParts) -> StatsEndpoint {
    StatsEndpoint::new(StatsParts {
        registry: Arc::clone(&parts.registry),
        tracker: Arc::clone(&parts.tracker),
        analysis: Arc::clone(&parts.analysis),
        timeouts_ms: parts.timeouts_ms,
    })
}

fn admin(parts: &WorkerParts, begun: Arc<Notify>) -> AdminEndpoint {
    let consistency = ConsistencyParts {
        registry: Arc::clone(&parts.registry),
        store: Arc::clone(&parts.store),
        tenancy: parts.tenancy,
    };
    AdminEndpoint::new(AdminParts {
        consistency,
        rebuilder: rebuilding::rebuilder(parts),
        begun,
        retention: parts.desk.clone(),
        audit: AuditDesk::new(Arc::clone(&parts.tracker), Arc::clone(&parts.desk.registry)),
    })
}

fn ingest(parts: &WorkerParts) -> IngestContext {
    IngestContext {
        connection: parts.connection.clone(),
        processor: Arc::clone(&parts.processor),
        registry: Arc::clone(&parts.registry),
        store: Arc::clone(&parts.store),
        limits: IngestLimits {
            max_tokens: parts.max_tokens,
            max_blob: parts.max_blob,
        },
        concurrency: parts.ingest_concurrency,
        worker: parts.worker.clone(),
        metrics: parts.metrics.clone(),
        health: parts.health.clone(),
    }
}

pub(super) fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_slower_than_the_redelivery_is_refused() {
        assert!(check_delays(Duration::ZERO).is_ok());
        assert!(check_delays(Duration::from_secs(9)).is_ok());
        assert!(check_delays(ACK_WAIT - MARGIN).is_err());
    }
}
