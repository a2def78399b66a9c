//! What values limits may have, and whose they may be. Must not know what is done when one is reached.

use super::sections::{Config, LimitSection};
use crate::error::{Error, Result};
use crate::model::is_slug;

/// More than any worker does at once or in a second.
const MOST_REQUESTS: u32 = 1_000_000;
/// One request in some 11 days: what is slower is a mistake.
const SLOWEST: f64 = 0.000_001;
/// What both databases and JSON numbers count exactly.
const MOST_DOCUMENTS: u64 = 1 << 53;

/// Checks every tenant's limits.
///
/// # Errors
/// `InvalidField` naming the key.
pub(super) fn limits(config: &Config) -> Result<()> {
    let limits = &config.limits;
    one("limits.default", &limits.default)?;
    for (tenant, section) in &limits.tenants {
        if !is_slug(tenant) {
            return Err(Error::invalid_field(
                "limits.tenants",
                "must name tenants that match ^[a-z0-9][a-z0-9_-]{0,62}$",
            ));
        }
        one(&format!("limits.tenants.{tenant}"), section)?;
    }
    Ok(())
}

fn one(place: &str, limit: &LimitSection) -> Result<()> {
    let checks = [
        (
            "in_flight",
            limit
                .in_flight
                .is_none_or(|n| (1..=MOST_REQUESTS).contains(&n)),
            "must be 1 to 1000000",
        ),
        (
            "requests_per_second",
            limit
                .requests_per_second
                .is_none_or(|rate| (SLOWEST..=f64::from(MOST_REQUESTS)).contains(&rate)),
            "must be 0.000001 to 1000000",
        ),
        (
            "documents",
            limit.documents.is_none_or(|n| n <= MOST_DOCUMENTS),
            "must be at most 2^53",
        ),
    ];
    match checks.into_iter().find(|(_, ok, _)| !ok) {
        Some((key, _, problem)) => Err(Error::invalid_field(format!("{place}.{key}"), problem)),
        None => Ok(()),
    }
}
