//! What values must hold together, and what this version can't do yet: named, never ignored.

use super::limit_checks::limits;
use super::sections::{Config, CorrectiveMode, ExpansionStrategy, LegName, StoreKind, TenancyKind};
use super::tracking_checks::tracking;
use crate::error::{Error, Result};

/// The most chunks a stage may read for one request.
const MOST: u32 = 1000;

/// Checks a configuration as a whole.
///
/// # Errors
/// `InvalidField` naming the key.
pub(super) fn check(config: &Config) -> Result<()> {
    ranges(config)?;
    reply_prefixes(config)?;
    sql_url(config)?;
    hub_endpoint(config)?;
    lexical_leg(config)?;
    stages(config)?;
    limits(config)?;
    tracking(config)
}

fn ranges(config: &Config) -> Result<()> {
    let retrieval = &config.retrieval;
    let checks = [
        (
            "retrieval.legs",
            !retrieval.legs.is_empty(),
            "must name at least one leg",
        ),
        (
            "retrieval.depth",
            (1..=10_000).contains(&retrieval.depth),
            "must be 1 to 10000",
        ),
        (
            "retrieval.rrf_k",
            (1..=1000).contains(&retrieval.rrf_k),
            "must be 1 to 1000",
        ),
        (
            "retrieval.default_timeout_ms",
            retrieval.default_timeout_ms >= 1,
            "must be at least 1",
        ),
        (
            "retrieval.max_timeout_ms",
            retrieval.max_timeout_ms >= retrieval.default_timeout_ms,
            "must not be below retrieval.default_timeout_ms",
        ),
        (
            "worker.roles",
            !config.worker.roles.is_empty(),
            "must name at least one role",
        ),
        (
            "worker.ingest_concurrency",
            config.worker.ingest_concurrency >= 1,
            "must be at least 1",
        ),
        (
            "worker.retrieve_concurrency",
            config.worker.retrieve_concurrency >= 1,
            "must be at least 1",
        ),
        (
            "nats.replicas",
            (1..=5).contains(&config.nats.replicas),
            "must be 1 to 5",
        ),
        (
            "models.dense",
            !config.models.dense.is_empty(),
            "must name a model folder",
        ),
        (
            "models.sparse",
            !config.models.sparse.is_empty(),
            "must name a model folder",
        ),
        (
            "models.previous",
            earlier_models_differ(config),
            "must name each earlier model once, and not the current ones",
        ),
        (
            "corrective.pool",
            (1..=MOST).contains(&config.corrective.pool),
            "must be 1 to 1000",
        ),
        (
            "corrective.depth_factor",
            (1..=10).contains(&config.corrective.depth_factor),
            "must be 1 to 10",
        ),
        (
            "reranking.pool",
            (1..=MOST).contains(&config.reranking.pool),
            "must be 1 to 1000",
        ),
        (
            "expansion.hypotheticals",
            (1..=5).contains(&config.expansion.hypotheticals),
            "must be 1 to 5",
        ),
        (
            "expansion.timeout_ms",
            config.expansion.timeout_ms >= 1,
            "must be at least 1",
        ),
        (
            "inference.max_pairs_per_request",
            config.inference.max_pairs_per_request >= 1,
            "must be at least 1",
        ),
        (
            "store.qdrant.timeout_ms",
            (2000..=60_000).contains(&config.store.qdrant.timeout_ms),
            "must be 2000 to 60000",
        ),
        (
            "sql.max_connections",
            (1..=1000).contains(&config.sql.max_connections),
            "must be 1 to 1000",
        ),
        (
            "retention.batch_rows",
            (1..=10_000).contains(&config.retention.batch_rows),
            "must be 1 to 10000",
        ),
        (
            "retention.max_run_minutes",
            (1..=1_440).contains(&config.retention.max_run_minutes),
            "must be 1 to 1440",
        ),
        (
            "retention.max_share",
            (0.0..=1.0).contains(&config.retention.max_share),
            "must be 0 to 1",
        ),
    ];
    match checks.into_iter().find(|(_, ok, _)| !ok) {
        Some((key, _, problem)) => Err(Error::invalid_field(key, problem)),
        None => Ok(()),
    }
}

/// The embedded store counts words over a whole collection, so tenants must not share one.
fn lexical_leg(config: &Config) -> Result<()> {
    let mixes = config.retrieval.legs.contains(&LegName::Bm25)
        && config.tenancy.strategy == TenancyKind::Shared
        && config.store.kind == StoreKind::Edge;
    if mixes {
        return Err(Error::invalid_field(
            "retrieval.legs",
            "must not have bm25 with tenancy.strategy = shared on the embedded store",
        ));
    }
    Ok(())
}

/// A stage that is switched on needs its part.
fn stages(config: &Config) -> Result<()> {
    let judge = !config.models.cross_encoder.is_empty();
    let writer = !config.llm.base_url.is_empty();
    let grades = config.corrective.mode != CorrectiveMode::Off;
    let writes = !matches!(
        config.expansion.strategy,
        ExpansionStrategy::None | ExpansionStrategy::Template
    );
    let needs = [
        ("corrective.mode", grades && !judge, "models.cross_encoder"),
        (
            "reranking.enabled",
            config.reranking.enabled && !judge,
            "models.cross_encoder",
        ),
        ("expansion.strategy", writes && !writer, "llm.base_url"),
        (
            "store.kind",
            config.store.kind == StoreKind::Qdrant && config.store.qdrant.url.is_empty(),
            "store.qdrant.url",
        ),
        (
            "llm.model",
            writer && config.llm.model.is_empty(),
            "a name, because llm.base_url is set",
        ),
    ];
    match needs.into_iter().find(|(_, lacking, _)| *lacking) {
        Some((key, _, part)) => Err(Error::invalid_field(key, format!("needs {part}"))),
        None => Ok(()),
    }
}

/// A prefix must end in a dot and must not reach into subjects that mean something.
fn reply_prefixes(config: &Config) -> Result<()> {
    const KEY: &str = "nats.reply_prefixes";
    if config.nats.reply_prefixes.is_empty() {
        return Err(Error::invalid_field(KEY, "must name at least one prefix"));
    }
    for prefix in &config.nats.reply_prefixes {
        let sane = prefix.ends_with('.')
            && prefix.len() > 1
            && !prefix.contains(['*', '>', ' '])
            && !prefix.starts_with('$')
            && !prefix.starts_with("rag.");
        if !sane {
            let problem = "must each end in a dot, without wildcards, outside $… and rag.…";
            return Err(Error::invalid_field(KEY, problem));
        }
    }
    Ok(())
}

fn sql_url(config: &Config) -> Result<()> {
    let url = config.sql.url.expose();
    let known = ["sqlite:", "postgres:", "postgresql:"];
    if url.is_empty() || known.iter().any(|scheme| url.starts_with(scheme)) {
        Ok(())
    } else {
        Err(Error::invalid_field(
            "sql.url",
            "must begin with sqlite:// or postgres://",
        ))
    }
}

/// The endpoint is printed, so it must not be where a secret stands.
fn hub_endpoint(config: &Config) -> Result<()> {
    let url = &config.models.hub_endpoint;
    let rest = url.strip_prefix("https://").or(url.strip_prefix("http://"));
    let sane = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#', ' ']));
    if sane {
        return Ok(());
    }
    Err(Error::invalid_field(
        "models.hub_endpoint",
        "must be http://… or https://… without a user; models.hub_token is for secrets",
    ))
}

fn earlier_models_differ(config: &Config) -> bool {
    let models = &config.models;
    let mut seen = vec![&models.dense, &models.sparse];
    models.previous.iter().all(|id| {
        let new = !id.is_empty() && !seen.contains(&id);
        seen.push(id);
        new
    })
}
