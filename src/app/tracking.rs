//! From the configuration to tracking: how records are published.

use crate::config::{Config, Guarantee};
use crate::error::Result;
use crate::tracking::QueryHasher;
use crate::transport::nats::{TrackingConfig, TrackingGuarantee};

/// How this worker publishes records; `None` = it tracks nothing.
pub(super) fn publishing(config: &Config) -> Result<Option<TrackingConfig>> {
    let section = &config.tracking;
    if !section.enabled {
        return Ok(None);
    }
    let hasher = match section.hash_queries {
        true => Some(QueryHasher::new(section.hash_key.expose().as_bytes())?),
        false => None,
    };
    Ok(Some(TrackingConfig {
        guarantee: match section.guarantee {
            Guarantee::BestEffort => TrackingGuarantee::BestEffort,
            Guarantee::Required => TrackingGuarantee::Required,
        },
        buffer: section.buffer,
        hasher,
    }))
}
