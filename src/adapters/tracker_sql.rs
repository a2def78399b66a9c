//! The tracker's statements that SQLite and Postgres both understand. `$2` is the corpus wherever one may be named, else ''.
//!
//! Must not know how they are bound.

/// What `outcome` says of a request that failed.
pub(super) const FAILED: &str = "FAILED";

/// The same statement for one corpus and for all of a tenant: a condition that is decided at run time would lose the index.
pub(super) struct Scoped {
    pub(super) of_corpus: &'static str,
    pub(super) of_tenant: &'static str,
}

impl Scoped {
    pub(super) fn pick(&self, has_corpus: bool) -> &'static str {
        if has_corpus {
            self.of_corpus
        } else {
            self.of_tenant
        }
    }
}

/// Makes a [`Scoped`] of what stands before and after the condition on `$table`'s corpus.
macro_rules! scoped {
    ($before:expr, $table:literal, $after:expr) => {
        crate::adapters::tracker_sql::Scoped {
            of_corpus: concat!($before, " AND ", $table, ".corpus = $2", $after),
            of_tenant: concat!($before, " AND $2 = ''", $after),
        }
    };
}
pub(super) use scoped;

macro_rules! record_columns {
    () => {
        "SELECT r.retrieval_id, r.corpus, r.asked_at, r.request_id, r.worker, r.actor, r.purpose, r.query, r.query_hashed, \
         r.queries, r.result_limit, r.options, r.outcome, r.error, r.correct, r.ambiguous, r.incorrect, r.corrected, \
         r.degraded, r.warnings, r.stages, r.models, r.duration_us FROM retrievals r WHERE r.tenant = $1"
    };
}

pub(super) const RECORD: &str = concat!(record_columns!(), " AND r.retrieval_id = $2");

pub(super) const RECORDS: Scoped = scoped!(
    record_columns!(),
    "r",
    " AND r.asked_at >= $3 AND r.asked_at < $4 AND (r.asked_at, r.retrieval_id) > ($5, $6) \
     ORDER BY r.asked_at, r.retrieval_id LIMIT $7"
);

/// Selects chunks; the set of ids comes behind it.
macro_rules! chunks_of {
    ($ids:literal) => {
        concat!(
            "SELECT retrieval_id, chunk_id, document_id, document_sequence, ordinal, content_hash, rank, score, score_kind, \
             grade, fate, signals FROM retrieved_chunks WHERE tenant = $1 AND retrieval_id ",
            $ids,
            " ORDER BY retrieval_id, position"
        )
    };
}
pub(super) use chunks_of;

pub(super) const IN_REPLY: &str = "SELECT 1 FROM retrieved_documents \
    WHERE tenant = $1 AND retrieval_id = $2 AND document_id = $3";

pub(super) const SAVE_FEEDBACK: &str = "INSERT INTO retrieval_feedback \
    (tenant, retrieval_id, document_id, corpus, retrieved_at, outcome, actor, given_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, retrieval_id, document_id) DO UPDATE \
    SET outcome = excluded.outcome, actor = excluded.actor, given_at = excluded.given_at";

pub(super) const FEEDBACK_OF: &str = "SELECT retrieval_id, document_id, outcome, actor, given_at \
    FROM retrieval_feedback WHERE tenant = $1 AND retrieval_id = $2 ORDER BY document_id";

pub(super) const JUDGEMENTS: Scoped = scoped!(
    "SELECT f.corpus, f.retrieved_at, f.retrieval_id, f.document_id, f.outcome, f.actor, f.given_at, r.query, \
     r.query_hashed FROM retrieval_feedback f JOIN retrievals r \
     ON r.tenant = f.tenant AND r.retrieval_id = f.retrieval_id WHERE f.tenant = $1",
    "f",
    " AND f.retrieved_at >= $3 AND f.retrieved_at < $4 AND (f.retrieved_at, f.retrieval_id, f.document_id) > ($5, $6, $7) \
     ORDER BY f.retrieved_at, f.retrieval_id, f.document_id LIMIT $8"
);

pub(super) const RETRIEVED_DOCUMENTS: &str = "SELECT DISTINCT d.document_id FROM retrievals r \
    JOIN retrieved_documents d ON d.tenant = r.tenant AND d.retrieval_id = r.retrieval_id \
    WHERE r.tenant = $1 AND r.corpus = $2 AND r.asked_at >= $3 AND r.asked_at < $4 AND d.document_id > $5 \
    ORDER BY d.document_id LIMIT $6";

/// Jumps from one corpus to the next along the index, however many retrievals each has.
pub(super) const TRACKED_CORPORA: &str = "WITH RECURSIVE found(tenant, corpus) AS (\
    SELECT tenant, corpus FROM (SELECT tenant, corpus FROM retrievals ORDER BY tenant, corpus LIMIT 1) AS first_one \
    UNION ALL SELECT \
    (SELECT r.tenant FROM retrievals r WHERE (r.tenant, r.corpus) > (f.tenant, f.corpus) ORDER BY r.tenant, r.corpus LIMIT 1), \
    (SELECT r.corpus FROM retrievals r WHERE (r.tenant, r.corpus) > (f.tenant, f.corpus) ORDER BY r.tenant, r.corpus LIMIT 1) \
    FROM found f WHERE f.tenant IS NOT NULL) \
    SELECT tenant, corpus FROM found WHERE tenant IS NOT NULL ORDER BY tenant, corpus";

/// The same for one tenant.
pub(super) const CORPORA_OF: &str = "WITH RECURSIVE found(corpus) AS (\
    SELECT corpus FROM (SELECT corpus FROM retrievals WHERE tenant = $1 ORDER BY corpus LIMIT 1) AS first_one \
    UNION ALL SELECT \
    (SELECT r.corpus FROM retrievals r WHERE r.tenant = $1 AND r.corpus > f.corpus ORDER BY r.corpus LIMIT 1) \
    FROM found f WHERE f.corpus IS NOT NULL) \
    SELECT corpus FROM found WHERE corpus IS NOT NULL ORDER BY corpus";

/// 1 when the reply held one of the documents in the JSON list of `$4`, else 0. A scalar subquery: Postgres would answer an
/// `EXISTS` by reading every tenant's documents once, and a batch of a purge must not.
macro_rules! held {
    ($table:literal, $held:literal) => {
        concat!(
            "CAST(CASE WHEN $4 = '[]' THEN 0 ELSE COALESCE((SELECT 1 FROM retrieved_documents d WHERE d.tenant = ",
            $table,
            ".tenant AND d.retrieval_id = ",
            $table,
            ".retrieval_id AND d.document_id ",
            $held,
            " LIMIT 1), 0) END AS BIGINT)"
        )
    };
}
pub(super) use held;

pub(super) const TOTAL: Scoped = scoped!(
    "SELECT COUNT(*) AS total FROM retrievals r WHERE r.tenant = $1",
    "r",
    ""
);

/// Retrievals up to `$3`, and what hangs on them by their own counts. `$4` names the held documents.
macro_rules! due {
    ($held:literal) => {
        $crate::adapters::tracker_sql::scoped!(
            concat!(
                "SELECT CAST(COALESCE(SUM(held), 0) AS BIGINT) AS held, \
                 CAST(COALESCE(SUM(1 - held), 0) AS BIGINT) AS retrievals, \
                 CAST(COALESCE(SUM((1 - held) * chunks), 0) AS BIGINT) AS chunks, \
                 CAST(COALESCE(SUM((1 - held) * documents), 0) AS BIGINT) AS documents \
                 FROM (SELECT r.chunks, r.documents, ",
                $crate::adapters::tracker_sql::held!("r", $held),
                " AS held FROM retrievals r WHERE r.tenant = $1"
            ),
            "r",
            " AND r.asked_at <= $3) AS due"
        )
    };
}
pub(super) use due;

/// Judgements on them.
macro_rules! due_feedback {
    ($held:literal) => {
        $crate::adapters::tracker_sql::scoped!(
            "SELECT COUNT(*) AS feedback FROM retrieval_feedback f WHERE f.tenant = $1",
            "f",
            concat!(
                " AND f.retrieved_at <= $3 AND ",
                $crate::adapters::tracker_sql::held!("f", $held),
                " = 0"
            )
        )
    };
}
pub(super) use due_feedback;

/// A page of retrievals up to `$3`, behind `$5`, `$6`, under a lock.
macro_rules! purge_page {
    ($held:literal, $lock:literal) => {
        $crate::adapters::tracker_sql::scoped!(
            concat!(
                "SELECT r.retrieval_id, r.asked_at, ",
                $crate::adapters::tracker_sql::held!("r", $held),
                " AS held FROM retrievals r WHERE r.tenant = $1"
            ),
            "r",
            concat!(
                " AND r.asked_at <= $3 AND (r.asked_at, r.retrieval_id) > ($5, $6) \
                 ORDER BY r.asked_at, r.retrieval_id LIMIT $7",
                $lock
            )
        )
    };
}
pub(super) use purge_page;

/// Removes a set of retrievals' rows from a table.
macro_rules! remove {
    ($table:literal, $ids:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE tenant = $1 AND retrieval_id ",
            $ids
        )
    };
}
pub(super) use remove;

/// A run's counters, beside what they count.
pub(super) const COUNT_FOR_RUN: &str = "UPDATE retention_runs SET retrievals = retrievals + $2, chunks = chunks + $3, \
    documents = documents + $4, feedback = feedback + $5 WHERE run_key = $1";
