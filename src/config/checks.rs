//! What values must hold together, and what this version can't do yet: named, never ignored.

use super::sections::{
    Config, CorrectiveMode, ExpansionStrategy, Guarantee, LegName, LimitSection, StoreKind,
};
use crate::error::{Error, Result};

/// Checks a configuration as a whole.
///
/// # Errors
/// `InvalidField` naming the key.
pub(super) fn check(config: &Config) -> Result<()> {
    ranges(config)?;
    reply_prefixes(config)?;
    sql_url(config)?;
    unbuilt(config)
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
    if url.is_empty() || url.starts_with("sqlite:") {
        Ok(())
    } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        Err(Error::invalid_field(
            "sql.url",
            "names Postgres, which this version doesn't have yet",
        ))
    } else {
        Err(Error::invalid_field(
            "sql.url",
            "must begin with sqlite:// or postgres://",
        ))
    }
}

fn unbuilt(config: &Config) -> Result<()> {
    let limits = std::iter::once(&config.limits.default).chain(config.limits.tenants.values());
    let limited = limits
        .into_iter()
        .any(|limit| *limit != LimitSection::default());
    let asked = [
        ("store.kind", config.store.kind == StoreKind::Qdrant),
        (
            "retrieval.legs",
            config.retrieval.legs.contains(&LegName::Bm25),
        ),
        (
            "corrective.mode",
            config.corrective.mode != CorrectiveMode::Off,
        ),
        ("reranking.enabled", config.reranking.enabled),
        (
            "expansion.strategy",
            config.expansion.strategy != ExpansionStrategy::None,
        ),
        (
            "tracking.guarantee",
            config.tracking.guarantee == Guarantee::Required,
        ),
        ("limits", limited),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        Some((key, _)) => Err(Error::invalid_field(
            key,
            "asks for a part that this version doesn't have yet",
        )),
        None => Ok(()),
    }
}
