-- What was retrieved, for whom, why, and how good it was. Times and durations are microseconds.
-- No foreign keys: a retrieval and what hangs on it are written by one statement and removed by one transaction, and a check
-- for each chunk would cost as much as the chunk.
CREATE TABLE retrievals (
    tenant         TEXT COLLATE "C" NOT NULL,
    -- Another tenant may bear the same id: neither sees the other's.
    retrieval_id   UUID   NOT NULL,
    corpus         TEXT COLLATE "C" NOT NULL,
    asked_at       BIGINT NOT NULL,
    request_id     TEXT   NOT NULL,
    worker         TEXT   NOT NULL,
    actor          TEXT   NOT NULL,
    purpose        TEXT   NOT NULL,
    -- The text, or with query_hashed = 1 a keyed hash.
    query          TEXT COLLATE "C" NOT NULL,
    query_hashed   BIGINT NOT NULL,
    -- JSON: all queries that were asked, the original first.
    queries        TEXT   NOT NULL,
    result_limit   BIGINT NOT NULL,
    -- JSON: the resolved options.
    options        TEXT   NOT NULL,
    -- OK, NO_CORPUS, NO_MATCH, NO_RELEVANT_CONTEXT, or FAILED with the kind in error.
    outcome        TEXT   NOT NULL,
    error          TEXT   NOT NULL,
    correct        BIGINT NOT NULL,
    ambiguous      BIGINT NOT NULL,
    incorrect      BIGINT NOT NULL,
    corrected      BIGINT NOT NULL,
    -- Names of stages, separated by commas.
    degraded       TEXT   NOT NULL,
    -- JSON: a list of texts.
    warnings       TEXT   NOT NULL,
    -- JSON: what each stage did; its time stands beside it, for percentiles.
    stages         TEXT   NOT NULL,
    tracking_us    BIGINT,
    reranking_us   BIGINT,
    expansion_us   BIGINT,
    corrective_us  BIGINT,
    hybrid_us      BIGINT,
    -- JSON: the models' ids and the calibration's.
    models         TEXT   NOT NULL,
    duration_us    BIGINT NOT NULL,
    returned       BIGINT NOT NULL,
    -- Rows of this retrieval in the tables below.
    chunks         BIGINT NOT NULL,
    documents      BIGINT NOT NULL,
    -- The first result's score.
    first_score    DOUBLE PRECISION,
    first_kind     TEXT   NOT NULL,
    PRIMARY KEY (tenant, retrieval_id)
);
-- Windows and purges of a corpus, and of a whole tenant.
CREATE INDEX retrievals_of_a_corpus ON retrievals (tenant, corpus, asked_at, retrieval_id);
CREATE INDEX retrievals_of_a_tenant ON retrievals (tenant, asked_at, retrieval_id);

CREATE TABLE retrieved_chunks (
    tenant            TEXT COLLATE "C" NOT NULL,
    retrieval_id      UUID   NOT NULL,
    -- The place in the record, from 0; the rank is the place in the list the chunk was in last.
    position          BIGINT NOT NULL,
    chunk_id          UUID   NOT NULL,
    document_id       TEXT COLLATE "C" NOT NULL,
    document_sequence BIGINT NOT NULL,
    ordinal           BIGINT NOT NULL,
    content_hash      TEXT   NOT NULL,
    rank              BIGINT NOT NULL,
    -- NULL = no finite number.
    score             DOUBLE PRECISION,
    score_kind        TEXT   NOT NULL,
    grade             TEXT   NOT NULL,
    -- RETURNED, or DROPPED_ and why.
    fate              TEXT   NOT NULL,
    -- JSON, or empty.
    signals           TEXT   NOT NULL,
    PRIMARY KEY (tenant, retrieval_id, position)
);

-- The documents of replies, each by its best chunk.
CREATE TABLE retrieved_documents (
    tenant       TEXT COLLATE "C" NOT NULL,
    retrieval_id UUID   NOT NULL,
    document_id  TEXT COLLATE "C" NOT NULL,
    rank         BIGINT NOT NULL,
    score        DOUBLE PRECISION,
    score_kind   TEXT   NOT NULL,
    PRIMARY KEY (tenant, retrieval_id, document_id)
);

CREATE TABLE retrieval_feedback (
    tenant       TEXT COLLATE "C" NOT NULL,
    retrieval_id UUID   NOT NULL,
    document_id  TEXT COLLATE "C" NOT NULL,
    -- The retrieval's.
    corpus       TEXT COLLATE "C" NOT NULL,
    retrieved_at BIGINT NOT NULL,
    -- NOT_RELEVANT, PARTIALLY_RELEVANT, RELEVANT, HIGHLY_RELEVANT.
    outcome      TEXT   NOT NULL,
    actor        TEXT   NOT NULL,
    given_at     BIGINT NOT NULL,
    PRIMARY KEY (tenant, retrieval_id, document_id)
);
CREATE INDEX feedback_of_a_corpus ON retrieval_feedback (tenant, corpus, retrieved_at, retrieval_id, document_id);
