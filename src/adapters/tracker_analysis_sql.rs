//! The analysis' statements, the same for SQLite and Postgres: `$1` tenant, `$2` corpus, `$3` and `$4` the window.
//!
//! Must not know how they are bound.

use crate::model::ScoreKind;

/// Kinds of score and the column of each one's mean.
pub(super) const MEANS: [(ScoreKind, &str); 6] = [
    (ScoreKind::Cosine, "cosine"),
    (ScoreKind::SparseDot, "sparse_dot"),
    (ScoreKind::Bm25, "bm25"),
    (ScoreKind::Rrf, "rrf"),
    (ScoreKind::Dbsf, "dbsf"),
    (ScoreKind::CrossEncoder, "cross_encoder"),
];

/// Means within each kind; what is no number is left out.
macro_rules! means {
    ($score:literal, $kind:literal) => {
        concat!(
            means!($score, $kind, "COSINE", "cosine"),
            ", ",
            means!($score, $kind, "SPARSE_DOT", "sparse_dot"),
            ", ",
            means!($score, $kind, "BM25", "bm25"),
            ", ",
            means!($score, $kind, "RRF", "rrf"),
            ", ",
            means!($score, $kind, "DBSF", "dbsf"),
            ", ",
            means!($score, $kind, "CROSS_ENCODER", "cross_encoder")
        )
    };
    ($score:literal, $kind:literal, $name:literal, $column:literal) => {
        concat!(
            "AVG(CASE WHEN ",
            $kind,
            " = '",
            $name,
            "' THEN ",
            $score,
            " END) AS ",
            $column
        )
    };
}

/// How many rows fulfil a condition.
macro_rules! number_of {
    ($condition:literal, $column:literal) => {
        concat!(
            "CAST(COALESCE(SUM(CASE WHEN ",
            $condition,
            " THEN 1 ELSE 0 END), 0) AS BIGINT) AS ",
            $column
        )
    };
}

macro_rules! judged {
    () => {
        concat!(
            number_of!("outcome = 'NOT_RELEVANT'", "not_relevant"),
            ", ",
            number_of!("outcome = 'PARTIALLY_RELEVANT'", "partially_relevant"),
            ", ",
            number_of!("outcome = 'RELEVANT'", "relevant"),
            ", ",
            number_of!("outcome = 'HIGHLY_RELEVANT'", "highly_relevant"),
            " FROM retrieval_feedback WHERE tenant = $1 AND corpus = $2 AND retrieved_at >= $3 AND retrieved_at < $4"
        )
    };
}

macro_rules! window {
    () => {
        "r.tenant = $1 AND r.corpus = $2 AND r.asked_at >= $3 AND r.asked_at < $4"
    };
}

pub(super) const DOCUMENT_STATS: &str = concat!(
    "WITH shown AS (SELECT d.document_id, COUNT(*) AS retrievals, MIN(r.asked_at) AS first_at, MAX(r.asked_at) AS last_at, ",
    means!("d.score", "d.score_kind"),
    " FROM retrievals r JOIN retrieved_documents d ON d.tenant = r.tenant AND d.retrieval_id = r.retrieval_id WHERE ",
    window!(),
    " GROUP BY d.document_id), judged AS (SELECT document_id, ",
    judged!(),
    " GROUP BY document_id), counted AS (SELECT s.document_id, s.retrievals, s.first_at, s.last_at, s.cosine, s.sparse_dot, \
     s.bm25, s.rrf, s.dbsf, s.cross_encoder, COALESCE(j.not_relevant, 0) AS not_relevant, \
     COALESCE(j.partially_relevant, 0) AS partially_relevant, COALESCE(j.relevant, 0) AS relevant, \
     COALESCE(j.highly_relevant, 0) AS highly_relevant FROM shown s LEFT JOIN judged j ON j.document_id = s.document_id) \
     SELECT * FROM counted WHERE retrievals >= $5 AND not_relevant + partially_relevant + relevant + highly_relevant >= $6 \
     AND not_relevant + partially_relevant >= $7 * (not_relevant + partially_relevant + relevant + highly_relevant) \
     ORDER BY retrievals DESC, document_id LIMIT $8"
);

macro_rules! query_stats {
    ($having_and_order:literal) => {
        concat!(
            "SELECT r.query, r.query_hashed, COUNT(*) AS retrievals, ",
            number_of!("r.outcome = 'FAILED'", "failed"),
            ", ",
            number_of!(
                "r.outcome IN ('NO_MATCH', 'NO_RELEVANT_CONTEXT')",
                "zero_hits"
            ),
            ", MIN(r.asked_at) AS first_at, MAX(r.asked_at) AS last_at, ",
            means!("r.first_score", "r.first_kind"),
            " FROM retrievals r WHERE ",
            window!(),
            " GROUP BY r.query, r.query_hashed ",
            $having_and_order,
            ", r.query, r.query_hashed LIMIT $5"
        )
    };
}

pub(super) const QUERIES: &str = query_stats!("ORDER BY retrievals DESC");
pub(super) const ZERO_HIT_QUERIES: &str = query_stats!(
    "HAVING SUM(CASE WHEN r.outcome IN ('NO_MATCH', 'NO_RELEVANT_CONTEXT') THEN 1 ELSE 0 END) > 0 ORDER BY zero_hits DESC"
);
pub(super) const LOW_QUERIES: &str = query_stats!(
    "HAVING AVG(CASE WHEN r.first_kind = $6 THEN r.first_score END) < $7 \
     ORDER BY AVG(CASE WHEN r.first_kind = $6 THEN r.first_score END)"
);

/// Questions are counted where they stand. Joining them with their counts would compare every retrieval with every question
/// while Postgres has no statistics yet.
pub(super) const QUERY_DOCUMENTS: &str = concat!(
    "WITH asked AS (SELECT r.tenant, r.retrieval_id, r.query, r.query_hashed, COUNT(*) OVER same AS retrievals, \
     SUM(r.documents) OVER same AS found FROM retrievals r WHERE ",
    window!(),
    " WINDOW same AS (PARTITION BY r.query, r.query_hashed)), placed AS (SELECT a.tenant, a.retrieval_id, a.query, \
     a.query_hashed, a.retrievals, DENSE_RANK() OVER (ORDER BY a.retrievals DESC, a.query, a.query_hashed) AS place \
     FROM asked a WHERE a.found > 0) \
     SELECT DISTINCT p.retrievals, p.query, p.query_hashed, d.document_id FROM placed p \
     JOIN retrieved_documents d ON d.tenant = p.tenant AND d.retrieval_id = p.retrieval_id WHERE p.place <= $5 \
     ORDER BY p.retrievals DESC, p.query, p.query_hashed, d.document_id"
);

pub(super) const TOTALS: &str = concat!(
    "SELECT COUNT(*) AS retrievals, MIN(r.asked_at) AS first_at, MAX(r.asked_at) AS last_at, \
     CAST(COALESCE(SUM(r.returned), 0) AS BIGINT) AS returned, \
     CAST(COALESCE(SUM(r.chunks - r.returned), 0) AS BIGINT) AS dropped, ",
    number_of!("r.outcome = 'FAILED'", "failed"),
    ", ",
    number_of!("r.outcome = 'OK'", "ok"),
    ", ",
    number_of!("r.outcome = 'NO_CORPUS'", "no_corpus"),
    ", ",
    number_of!("r.outcome = 'NO_MATCH'", "no_match"),
    ", ",
    number_of!("r.outcome = 'NO_RELEVANT_CONTEXT'", "no_relevant_context"),
    ", ",
    number_of!("r.degraded <> ''", "degraded"),
    ", ",
    number_of!("r.degraded LIKE '%tracking%'", "tracking"),
    ", ",
    number_of!("r.degraded LIKE '%reranking%'", "reranking"),
    ", ",
    number_of!("r.degraded LIKE '%expansion%'", "expansion"),
    ", ",
    number_of!("r.degraded LIKE '%corrective%'", "corrective"),
    ", ",
    number_of!("r.degraded LIKE '%hybrid%'", "hybrid"),
    " FROM retrievals r WHERE ",
    window!()
);

pub(super) const FAILURES: &str = concat!(
    "SELECT r.error, COUNT(*) AS failed FROM retrievals r WHERE r.outcome = 'FAILED' AND ",
    window!(),
    " GROUP BY r.error"
);

pub(super) const FEEDBACK_TOTALS: &str = concat!("SELECT ", judged!());

/// Durations of one stage; the whole request's name is empty.
macro_rules! samples {
    ($stage:literal, $column:literal) => {
        concat!(
            "SELECT '",
            $stage,
            "' AS stage, ",
            $column,
            " AS us FROM retrievals r WHERE ",
            window!(),
            " AND ",
            $column,
            " IS NOT NULL"
        )
    };
}

/// The value at the nearest rank: the smallest with at least `$percent` of 100 at or below it.
macro_rules! percentile {
    ($percent:literal) => {
        concat!(
            "MAX(CASE WHEN place = (samples * ",
            $percent,
            " + 99) / 100 THEN us END) AS p",
            $percent
        )
    };
}

pub(super) const LATENCIES: &str = concat!(
    "WITH taken AS (",
    samples!("", "duration_us"),
    " UNION ALL ",
    samples!("tracking", "tracking_us"),
    " UNION ALL ",
    samples!("reranking", "reranking_us"),
    " UNION ALL ",
    samples!("expansion", "expansion_us"),
    " UNION ALL ",
    samples!("corrective", "corrective_us"),
    " UNION ALL ",
    samples!("hybrid", "hybrid_us"),
    "), placed AS (SELECT stage, us, ROW_NUMBER() OVER (PARTITION BY stage ORDER BY us) AS place, \
     COUNT(*) OVER (PARTITION BY stage) AS samples FROM taken) \
     SELECT stage, MAX(samples) AS samples, MAX(us) AS longest, ",
    percentile!(50),
    ", ",
    percentile!(90),
    ", ",
    percentile!(95),
    ", ",
    percentile!(99),
    " FROM placed GROUP BY stage"
);
