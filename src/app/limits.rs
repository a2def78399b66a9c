//! From the configuration's limits to the book that the worker's parts ask.

use crate::config::{Config, LimitSection};
use crate::model::{LimitBook, TenantLimits};

/// The limits of every tenant.
pub(super) fn book(config: &Config) -> LimitBook {
    let tenants = config.limits.tenants.iter();
    LimitBook {
        default: limits(&config.limits.default),
        tenants: tenants
            .map(|(tenant, section)| (tenant.clone(), limits(section)))
            .collect(),
    }
}

fn limits(section: &LimitSection) -> TenantLimits {
    TenantLimits {
        in_flight: section.in_flight,
        requests_per_second: section.requests_per_second,
        documents: section.documents,
        expansion: section.expansion,
    }
}
