//! Reply addresses. A caller chooses them, so they are used only under an allowed prefix: an unrestricted worker
//! would publish wherever a caller likes, and an empty message to the wrong subject deletes a stream.

use crate::model::TenantId;

const TENANT: &str = "{tenant}";

/// The allowed prefixes (`nats.reply_prefixes`).
#[derive(Debug, Clone)]
pub struct ReplyRule {
    prefixes: Vec<String>,
}

impl ReplyRule {
    /// From configured prefixes; `{tenant}` stands for the tenant of the request.
    pub fn new(prefixes: &[String]) -> Self {
        Self {
            prefixes: prefixes.to_vec(),
        }
    }

    /// Whether a request of this tenant may be answered at `address`. Without a tenant (`$SRV`), a prefix counts up to
    /// where the tenant would stand.
    pub fn allows(&self, address: &str, tenant: Option<&TenantId>) -> bool {
        let plain = !address.contains(['*', '>', ' ', '\t', '\r', '\n'])
            && address.split('.').all(|token| !token.is_empty());
        let under = |prefix: &String| {
            let prefix = match tenant {
                Some(tenant) => prefix.replace(TENANT, tenant.as_str()),
                None => prefix.split(TENANT).next().unwrap_or_default().to_owned(),
            };
            !prefix.is_empty() && address.len() > prefix.len() && address.starts_with(&prefix)
        };
        plain && self.prefixes.iter().any(under)
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
    fn a_tenant_prefix_keeps_tenants_apart() {
        let rule = ReplyRule::new(&["_INBOX.{tenant}.".into()]);
        assert!(rule.allows("_INBOX.t1.x", Some(&tenant("t1"))));
        assert!(!rule.allows("_INBOX.t2.x", Some(&tenant("t1"))));
        assert!(!rule.allows("_INBOX.t11.x", Some(&tenant("t1"))));
        assert!(rule.allows("_INBOX.any.x", None));
        assert!(!rule.allows("$JS.API.x", None));
        assert_eq!(rule.inbox(&tenant("t1")), "_INBOX.t1");
    }
}
