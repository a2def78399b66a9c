//! Where a corpus lives: corpus and generation to a collection name, and the tenant filter.
//!
//! Layer 0. Nothing else in the program branches on the strategy. Must not know a store.

use crate::model::{CorpusName, CorpusRef, TenantId};

/// How tenants share collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TenancyStrategy {
    /// One collection per tenant and corpus.
    #[default]
    Separate,
    /// One collection per corpus, tenants told apart by a filter.
    Shared,
}

/// The address of one generation of a corpus. The tenant filter always applies, in both strategies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The corpus it serves.
    pub corpus: CorpusRef,
    /// The generation.
    pub generation: u32,
    /// The collection's name, injective over what may not share one.
    pub collection: String,
    /// Whether other tenants' points may stand in the same collection.
    pub shared: bool,
}

impl Placement {
    /// The owner of everything read or written here.
    pub fn tenant(&self) -> &TenantId {
        &self.corpus.tenant
    }
}

impl TenancyStrategy {
    /// Where a generation of a corpus lives.
    ///
    /// Names are injective: the tenant's length stands before the tenant, so `a_b`/`c` and `a`/`b_c` differ, and
    /// the prefix keeps the strategies apart.
    pub fn place(self, corpus: &CorpusRef, generation: u32) -> Placement {
        Placement {
            corpus: corpus.clone(),
            generation,
            collection: self.collection(&corpus.tenant, &corpus.corpus, generation),
            shared: self == TenancyStrategy::Shared,
        }
    }

    fn collection(self, tenant: &TenantId, corpus: &CorpusName, generation: u32) -> String {
        match self {
            TenancyStrategy::Separate => {
                let length = tenant.as_str().len();
                format!("rag_t{length}_{tenant}_{corpus}_g{generation}")
            }
            TenancyStrategy::Shared => format!("rag_s_{corpus}_g{generation}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn corpus(tenant: &str, corpus: &str) -> CorpusRef {
        CorpusRef::new(
            TenantId::mint(tenant).expect("valid"),
            CorpusName::new(corpus).expect("valid"),
        )
    }

    #[test]
    fn crafted_names_do_not_meet() {
        let place = |t, c| TenancyStrategy::Separate.place(&corpus(t, c), 1).collection;
        assert_ne!(place("a_b", "c"), place("a", "b_c"));
        assert_ne!(place("a", "c_g1"), place("a", "c"));
    }

    proptest! {
        #[test]
        fn names_are_injective(
            a in ("[a-c0-1][a-c0-1_-]{0,5}", "[a-c0-1][a-c0-1_g-]{0,5}", 1u32..30),
            b in ("[a-c0-1][a-c0-1_-]{0,5}", "[a-c0-1][a-c0-1_g-]{0,5}", 1u32..30),
        ) {
            let place = |x: &(String, String, u32)| TenancyStrategy::Separate.place(&corpus(&x.0, &x.1), x.2).collection;
            let shared = |x: &(String, String, u32)| TenancyStrategy::Shared.place(&corpus(&x.0, &x.1), x.2).collection;
            prop_assert_eq!(place(&a) == place(&b), a == b);
            prop_assert_eq!(shared(&a) == shared(&b), (&a.1, a.2) == (&b.1, b.2));
            prop_assert_ne!(place(&a), shared(&b));
        }
    }
}
