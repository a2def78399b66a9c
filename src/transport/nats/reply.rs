//! Reply addresses. A caller chooses them, so they are used only under an allowed prefix: an unrestricted worker
//! would publish wherever a caller likes, and an empty message to the wrong subject deletes a stream.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::model::TenantId;

const TENANT: &str = "{tenant}";

/// Refusals are told at most this often: a caller must not fill the log. All are counted.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The allowed prefixes (`nats.reply_prefixes`).
#[derive(Debug, Clone)]
pub struct ReplyRule {
    prefixes: Vec<String>,
    told: Arc<Mutex<Option<Instant>>>,
}

impl ReplyRule {
    /// From configured prefixes; `{tenant}` stands for the tenant of the request.
    pub fn new(prefixes: &[String]) -> Self {
        Self {
            prefixes: prefixes.to_vec(),
            told: Arc::default(),
        }
    }

    /// Whether a request of this tenant may be answered at `address`. Without a valid tenant (`$SRV`, a 403) only prefixes
    /// count that don't depend on one: any other choice would be another tenant's inbox.
    pub fn allows(&self, address: &str, tenant: Option<&TenantId>) -> bool {
        let plain = !address.contains(['*', '>', ' ', '\t', '\r', '\n'])
            && address.split('.').all(|token| !token.is_empty());
        let under = |prefix: &String| {
            let prefix = match tenant {
                Some(tenant) => prefix.replace(TENANT, tenant.as_str()),
                None if prefix.contains(TENANT) => return false,
                None => prefix.clone(),
            };
            address.len() > prefix.len() && address.starts_with(&prefix)
        };
        plain && self.prefixes.iter().any(under)
    }

    /// Whether a refusal should be logged now.
    pub(super) fn worth_telling(&self) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let worth = told.is_none_or(|told| told.elapsed() >= TELL_EVERY);
        if worth {
            *told = Some(Instant::now());
        }
        worth
    }

    /// The inbox prefix an operator's tool should use: the first that depends on no tenant.
    pub fn operator_inbox(&self) -> String {
        let free = self.prefixes.iter().find(|prefix| !prefix.contains(TENANT));
        free.map_or("_INBOX", String::as_str)
            .trim_end_matches('.')
            .to_owned()
    }

    /// The inbox prefix a client of this tenant should use: the first rule's, without the last dot.
    pub fn inbox(&self, tenant: &TenantId) -> String {
        let first = self.prefixes.first().map_or("_INBOX.", String::as_str);
        first
            .replace(TENANT, tenant.as_str())
            .trim_end_matches('.')
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::mint(name).expect("valid")
    }

    #[test]
    fn only_addresses_under_a_prefix_are_used() {
        let rule = ReplyRule::new(&["_INBOX.".into(), "_R_.".into()]);
        assert!(rule.allows("_INBOX.abc.1", Some(&tenant("t1"))));
        assert!(rule.allows("_R_.x", Some(&tenant("t1"))));
        for bad in [
            "$JS.API.STREAM.DELETE.RAG_INGEST",
            "rag.ingest.t2",
            "_INBOX.",
            "_INBOX.*",
            "_INBOX.a.>",
            "_INBOX..a",
            "_INBOXa.b",
            "",
        ] {
            assert!(!rule.allows(bad, Some(&tenant("t1"))), "{bad}");
        }
    }

    #[test]
    fn refusals_are_told_once_in_a_while() {
        let rule = ReplyRule::new(&["_INBOX.".into()]);
        assert!(rule.worth_telling());
        assert!(!rule.clone().worth_telling());
    }

    #[test]
    fn a_tenant_prefix_keeps_tenants_apart() {
        let rule = ReplyRule::new(&["_INBOX.{tenant}.".into()]);
        assert!(rule.allows("_INBOX.t1.x", Some(&tenant("t1"))));
        assert!(!rule.allows("_INBOX.t2.x", Some(&tenant("t1"))));
        assert!(!rule.allows("_INBOX.t11.x", Some(&tenant("t1"))));
        assert!(
            !rule.allows("_INBOX.any.x", None),
            "no tenant, no tenant's inbox"
        );
        assert_eq!(rule.operator_inbox(), "_INBOX");
        let both = ReplyRule::new(&["_INBOX.{tenant}.".into(), "_INBOX_OPS.".into()]);
        assert!(both.allows("_INBOX_OPS.x", None) && !both.allows("_INBOX.t1.x", None));
        assert_eq!(both.operator_inbox(), "_INBOX_OPS");
        assert_eq!(rule.inbox(&tenant("t1")), "_INBOX.t1");
    }
}
