//! Subjects: the tenant is a token of what a message came on, validated every time; what we publish is built from it.

use crate::error::{Error, Result};
use crate::model::{JobId, TenantId};

/// The tenant of `rag.<verb>.<tenant>` (and of nothing else).
///
/// # Errors
/// `TenantInvalid`, also for wildcards that a publisher wrote literally.
pub(super) fn request_tenant(subject: &str) -> Result<TenantId> {
    let mut tokens = subject.split('.');
    match (tokens.next(), tokens.next(), tokens.next(), tokens.next()) {
        (Some("rag"), Some(_), Some(tenant), None) => TenantId::mint(tenant),
        _ => Err(Error::tenant_invalid()),
    }
}

/// The last token of `rag.<verb>.<token>`.
pub(super) fn last_token(subject: &str) -> &str {
    subject.rsplit('.').next().unwrap_or_default()
}

/// A tenant that an operator names: whoever may publish operators' requests may name any.
///
/// # Errors
/// `InvalidField` on `tenant`.
pub(super) fn named_by_operator(name: &str) -> Result<TenantId> {
    TenantId::mint(name)
        .map_err(|_| Error::invalid_field("tenant", "must match ^[a-z0-9][a-z0-9_-]{0,62}$"))
}

/// Where an operator asks.
pub(super) fn admin(verb: &str) -> String {
    format!("rag.admin.{verb}")
}

/// The tenant of a stored job, `rag.work.<lane>.<tenant>`.
///
/// # Errors
/// `TenantInvalid`.
pub(super) fn work_tenant(subject: &str) -> Result<TenantId> {
    let mut tokens = subject.split('.');
    let tokens = (
        tokens.next(),
        tokens.next(),
        tokens.next(),
        tokens.next(),
        tokens.next(),
    );
    match tokens {
        (Some("rag"), Some("work"), Some(_), Some(tenant), None) => TenantId::mint(tenant),
        _ => Err(Error::tenant_invalid()),
    }
}

/// Where a tenant publishes jobs.
pub(super) fn ingest(tenant: &TenantId) -> String {
    format!("rag.ingest.{tenant}")
}

/// Where a tenant asks.
pub(super) fn request(verb: &str, tenant: &TenantId) -> String {
    format!("rag.{verb}.{tenant}")
}

/// Where the result of a job goes.
pub(super) fn result(tenant: &TenantId, job: &JobId) -> String {
    format!("rag.result.{tenant}.{job}")
}

/// Where a tenant's dead letters go.
pub(super) fn dead_letters(tenant: Option<&TenantId>) -> String {
    match tenant {
        Some(tenant) => format!("rag.dlq.{tenant}"),
        None => "rag.dlq._invalid".to_owned(),
    }
}

/// The lane of a hint subject, `rag.hint.<lane>`.
pub(super) fn hinted_lane(subject: &str) -> Option<usize> {
    subject.strip_prefix("rag.hint.")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tenant_is_exactly_one_token_of_a_known_subject() {
        assert!(request_tenant("rag.retrieve.t1").is_ok());
        assert!(work_tenant("rag.work.3.t1").is_ok());
        for bad in [
            "rag.retrieve.*",
            "rag.retrieve.>",
            "rag.retrieve.",
            "rag.retrieve",
            "rag.retrieve.T1",
            "rag.retrieve.a.b",
            "x.retrieve.t1",
        ] {
            assert!(request_tenant(bad).is_err(), "{bad}");
        }
        for bad in [
            "rag.work.3.*",
            "rag.work.3.>",
            "rag.work.3",
            "rag.work.3.a.b",
            "rag.ingest.t1",
        ] {
            assert!(work_tenant(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_subject_panics_and_only_patterns_pass(token in "\\PC{0,70}") {
            if let Ok(tenant) = request_tenant(&format!("rag.retrieve.{token}")) {
                prop_assert_eq!(tenant.as_str(), token.as_str());
                prop_assert!(!token.contains(['.', '*', '>', ' ']));
            }
        }
    }
}
