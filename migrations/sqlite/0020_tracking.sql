-- What was retrieved, for whom, why, and how good it was. Times and durations are microseconds.
-- No foreign keys: a retrieval and what hangs on it are written by one statement and removed by one transaction, and a check
-- for each chunk would cost as much as the chunk. Ids are the 16 bytes of a UUID.
CREATE TABLE retrievals (
    tenant        TEXT    NOT NULL,
    -- Another tenant may bear the same id: neither sees the other's.
    retrieval_id  BLOB    NOT NULL,
    corpus        TEXT    NOT NULL,
    asked_at      INTEGER NOT NULL,
    request_id    TEXT    NOT NULL,
    worker        TEXT    NOT NULL,
    actor         TEXT    NOT NULL,
    purpose       TEXT    NOT NULL,
    -- The text, or with query_hashed = 1 a keyed hash.
    query         TEXT    NOT NULL,
    query_hashed  INTEGER NOT NULL,
    -- JSON: all queries that were asked, the original first.
    queries       TEXT    NOT NULL,
    result_limit  INTEGER NOT NULL,
    -- JSON: the resolved options.
    options       TEXT    NOT NULL,
    -- OK, NO_CORPUS, NO_MATCH, NO_RELEVANT_CONTEXT, or FAILED with the kind in error.
    outcome       TEXT    NOT NULL,
    error         TEXT    NOT NULL,
    correct       INTEGER NOT NULL,
    ambiguous     INTEGER NOT NULL,
    incorrect     INTEGER NOT NULL,
    corrected     INTEGER NOT NULL,
    -- Names of stages, separated by commas.
    degraded      TEXT    NOT NULL,
    -- JSON: a list of texts.
    warnings      TEXT    NOT NULL,
    -- JSON: what each stage did; its time stands beside it, for percentiles.
    stages        TEXT    NOT NULL,
    tracking_us   INTEGER,
    reranking_us  INTEGER,
    expansion_us  INTEGER,
    corrective_us INTEGER,
    hybrid_us     INTEGER,
    -- JSON: the models' ids and the calibration's.
    models        TEXT    NOT NULL,
    duration_us   INTEGER NOT NULL,
    returned      INTEGER NOT NULL,
    -- Rows of this retrieval in the tables below.
    chunks        INTEGER NOT NULL,
    documents     INTEGER NOT NULL,
    -- The first result's score.
    first_score   REAL,
    first_kind    TEXT    NOT NULL,
    PRIMARY KEY (tenant, retrieval_id)
) STRICT;
-- Windows and purges of a corpus, and of a whole tenant.
CREATE INDEX retrievals_of_a_corpus ON retrievals (tenant, corpus, asked_at, retrieval_id);
CREATE INDEX retrievals_of_a_tenant ON retrievals (tenant, asked_at, retrieval_id);

CREATE TABLE retrieved_chunks (
    tenant            TEXT    NOT NULL,
    retrieval_id      BLOB    NOT NULL,
    -- The place in the record, from 0; the rank is the place in the list the chunk was in last.
    position          INTEGER NOT NULL,
    chunk_id          BLOB    NOT NULL,
    document_id       TEXT    NOT NULL,
    document_sequence INTEGER NOT NULL,
    ordinal           INTEGER NOT NULL,
    content_hash      TEXT    NOT NULL,
    rank              INTEGER NOT NULL,
    -- NULL = no finite number.
    score             REAL,
    score_kind        TEXT    NOT NULL,
    grade             TEXT    NOT NULL,
    -- RETURNED, or DROPPED_ and why.
    fate              TEXT    NOT NULL,
    -- JSON, or empty.
    signals           TEXT    NOT NULL,
    PRIMARY KEY (tenant, retrieval_id, position)
) STRICT, WITHOUT ROWID;

-- The documents of replies, each by its best chunk.
CREATE TABLE retrieved_documents (
    tenant       TEXT    NOT NULL,
    retrieval_id BLOB    NOT NULL,
    document_id  TEXT    NOT NULL,
    rank         INTEGER NOT NULL,
    score        REAL,
    score_kind   TEXT    NOT NULL,
    PRIMARY KEY (tenant, retrieval_id, document_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE retrieval_feedback (
    tenant       TEXT    NOT NULL,
    retrieval_id BLOB    NOT NULL,
    document_id  TEXT    NOT NULL,
    -- The retrieval's.
    corpus       TEXT    NOT NULL,
    retrieved_at INTEGER NOT NULL,
    -- NOT_RELEVANT, PARTIALLY_RELEVANT, RELEVANT, HIGHLY_RELEVANT.
    outcome      TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    given_at     INTEGER NOT NULL,
    PRIMARY KEY (tenant, retrieval_id, document_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX feedback_of_a_corpus ON retrieval_feedback (tenant, corpus, retrieved_at, retrieval_id, document_id);
