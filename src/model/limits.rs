//! What a tenant may take: limits by name, each with a default. Must not know who asks or how a refusal is told.

use std::collections::BTreeMap;

use super::TenantId;

/// One tenant's limits; unset = none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TenantLimits {
    /// Requests in work at once, on one worker.
    pub in_flight: Option<u32>,
    /// Requests a second on one worker, as a long-term mean; a second's worth may come at once.
    pub requests_per_second: Option<f64>,
    /// Documents over all corpora.
    pub documents: Option<u64>,
    /// Whether queries may be expanded.
    pub expansion: Option<bool>,
}

impl TenantLimits {
    /// These limits, with `default`'s where they say nothing.
    #[must_use]
    pub fn or(self, default: Self) -> Self {
        Self {
            in_flight: self.in_flight.or(default.in_flight),
            requests_per_second: self.requests_per_second.or(default.requests_per_second),
            documents: self.documents.or(default.documents),
            expansion: self.expansion.or(default.expansion),
        }
    }

    /// Expansion is allowed unless it is forbidden.
    pub fn may_expand(self) -> bool {
        self.expansion != Some(false)
    }
}

/// The limits of every tenant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LimitBook {
    /// What holds where a tenant's own entry says nothing.
    pub default: TenantLimits,
    /// Own entries, by the tenant's token.
    pub tenants: BTreeMap<String, TenantLimits>,
}

impl LimitBook {
    /// What holds for this tenant.
    pub fn of(&self, tenant: &TenantId) -> TenantLimits {
        match self.tenants.get(tenant.as_str()) {
            Some(own) => own.or(self.default),
            None => self.default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_key_wins_and_an_absent_one_is_the_defaults() {
        let own = TenantLimits {
            in_flight: Some(2),
            expansion: Some(true),
            ..TenantLimits::default()
        };
        let book = LimitBook {
            default: TenantLimits {
                in_flight: Some(9),
                documents: Some(100),
                expansion: Some(false),
                ..TenantLimits::default()
            },
            tenants: BTreeMap::from([("acme".to_owned(), own)]),
        };
        let of = |token: &str| book.of(&TenantId::mint(token).expect("valid"));
        assert_eq!(
            (of("acme").in_flight, of("other").in_flight),
            (Some(2), Some(9))
        );
        assert_eq!(of("acme").documents, Some(100));
        assert_eq!(of("acme").requests_per_second, None);
        assert!(of("acme").may_expand() && !of("other").may_expand());
        assert!(TenantLimits::default().may_expand());
    }
}
