//! What both databases' retention statements share: their longer texts, and how optional names are stored.
//!
//! Must not know which database it is.

use crate::error::Result;

/// Documents that are due, in the order they are gone through.
pub(super) const EXPIRED: &str = "SELECT tenant, corpus, document_id FROM documents WHERE deleted = 0 \
    AND expires_at IS NOT NULL AND expires_at <= $1 AND (tenant, corpus, document_id) > ($2, $3, $4) \
    ORDER BY tenant, corpus, document_id LIMIT $5";
/// Begun rows are tombstones too: their claim says which job may still come.
pub(super) const DROP_TOMBSTONES: &str = "DELETE FROM documents WHERE (tenant, corpus, document_id) IN \
    (SELECT d.tenant, d.corpus, d.document_id FROM documents d WHERE d.deleted = 1 AND d.updated_at < $2 \
    AND d.sequence < $1 AND d.claimed < $1 \
    AND NOT EXISTS (SELECT 1 FROM rebuilds r WHERE r.tenant = d.tenant AND r.corpus = d.corpus \
    AND r.state NOT IN ('done', 'cancelled')) \
    AND NOT EXISTS (SELECT 1 FROM cleanups c WHERE c.tenant = d.tenant AND c.corpus = d.corpus \
    AND c.document_id = d.document_id) LIMIT $3)";
/// Runs by a condition.
macro_rules! runs {
    ($rest:expr) => {
        concat!(
            "SELECT run_key, ordered_at, tenant, corpus, days, force, actor, state, retrievals, chunks, documents, \
             feedback, expired, tombstones, notes, owner, leased_until FROM retention_runs ",
            $rest
        )
    };
}
pub(super) use runs;

/// A tombstone tells a rebuild that a copy it has begun must go: it stays while one is under way.
pub(super) const FORGET_TOMBSTONES: &str = "DELETE FROM documents WHERE tenant = $1 AND deleted = 1 \
    AND sequence <= $2 AND claimed <= $2 AND NOT EXISTS (SELECT 1 FROM rebuilds r WHERE r.tenant = documents.tenant \
    AND r.corpus = documents.corpus AND r.state NOT IN ('done', 'cancelled'))";

/// What else names a tenant's documents or jobs, once these are gone.
pub(super) const FORGET: [&str; 2] = [
    "DELETE FROM cleanups WHERE tenant = $1 AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.tenant = cleanups.tenant \
     AND d.corpus = cleanups.corpus AND d.document_id = cleanups.document_id)",
    "DELETE FROM job_starts WHERE tenant = $1",
];

/// Whether a hold covers a document.
pub(super) const IS_HELD: &str = "SELECT 1 FROM legal_holds WHERE tenant = $1 AND released_at IS NULL \
    AND (corpus = '' OR corpus = $2) AND (document_id = '' OR document_id = $3) LIMIT 1";

/// More of them tell nobody more.
pub(super) const MOST_NOTES: usize = 200;

/// A stored name; empty = none.
pub(super) fn named<T>(name: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
    match name {
        "" => Ok(None),
        name => read(name).map(Some),
    }
}
