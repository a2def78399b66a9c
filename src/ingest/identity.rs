//! Deterministic ids of chunks. Must not change: stored points are found by them.

use uuid::Uuid;

use crate::model::{ChunkId, CorpusRef, DocumentId};

/// The namespace of all chunk ids.
const NAMESPACE: Uuid = Uuid::from_u128(0x8a2c_7f0e_5b1d_4c63_9f4e_2d70_6b8a_1c35);

/// UUIDv5 (RFC 9562) over the length-prefixed tenant, corpus, document and ordinal, so that no two addresses meet.
pub fn chunk_id(corpus: &CorpusRef, document: &DocumentId, ordinal: u32) -> ChunkId {
    let mut name = Vec::new();
    for part in [
        corpus.tenant.as_str(),
        corpus.corpus.as_str(),
        document.as_str(),
    ] {
        name.extend_from_slice(&(part.len() as u64).to_be_bytes());
        name.extend_from_slice(part.as_bytes());
    }
    name.extend_from_slice(&ordinal.to_be_bytes());
    ChunkId(Uuid::new_v5(&NAMESPACE, &name).as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CorpusName, TenantId};

    fn id(tenant: &str, corpus: &str, document: &str, ordinal: u32) -> String {
        let corpus = CorpusRef::new(
            TenantId::mint(tenant).expect("valid"),
            CorpusName::new(corpus).expect("valid"),
        );
        chunk_id(&corpus, &DocumentId::new(document).expect("valid"), ordinal).to_string()
    }

    #[test]
    fn ids_never_change() {
        assert_eq!(id("t", "c", "d", 0), id("t", "c", "d", 0));
        assert_eq!(
            id("acme", "docs", "a.txt", 3),
            "f640bdd5-1a7b-5a8d-9226-daf863634b82"
        );
    }

    #[test]
    fn no_two_addresses_meet() {
        let ids = [
            id("a_b", "c", "d", 0),
            id("a", "b_c", "d", 0),
            id("a", "b", "cd", 0),
            id("a", "bc", "d", 0),
            id("a", "b", "cd", 1),
        ];
        let unique: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len());
    }
}
