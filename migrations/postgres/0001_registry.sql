-- The document registry: who wrote what version, and what is being served. Times are microseconds since the epoch.
-- Names and ids compare byte by byte, as everywhere in ragbus.
CREATE TABLE corpora (
    tenant     TEXT COLLATE "C" NOT NULL,
    corpus     TEXT COLLATE "C" NOT NULL,
    generation BIGINT NOT NULL DEFAULT 1,
    -- Jobs up to this sequence are superseded: the newest corpus deletion.
    fence      BIGINT NOT NULL DEFAULT 0,
    -- JSON: the ids of the models the generation is built with.
    models     TEXT   NOT NULL DEFAULT '{}',
    -- 'absent' until a put writes into it, then 'active', then 'absent' again when its generation is retired.
    state      TEXT   NOT NULL DEFAULT 'absent',
    -- JSON: the result of the corpus deletion at the fence.
    result     TEXT,
    PRIMARY KEY (tenant, corpus)
);

CREATE TABLE documents (
    tenant        TEXT COLLATE "C" NOT NULL,
    corpus        TEXT COLLATE "C" NOT NULL,
    document_id   TEXT COLLATE "C" NOT NULL,
    sequence      BIGINT NOT NULL DEFAULT 0,
    claimed       BIGINT NOT NULL DEFAULT 0,
    live          BIGINT NOT NULL DEFAULT 0,
    content_hash  TEXT   NOT NULL DEFAULT '',
    metadata_hash TEXT   NOT NULL DEFAULT '',
    pipeline_hash TEXT   NOT NULL DEFAULT '',
    chunks        BIGINT NOT NULL DEFAULT 0,
    -- 1 = a tombstone.
    deleted       BIGINT NOT NULL DEFAULT 1,
    expires_at    BIGINT,
    -- JSON: the metadata of the document itself. Chunks carry theirs in the store.
    metadata      TEXT   NOT NULL DEFAULT '{}',
    -- JSON: the result of the job `sequence`.
    result        TEXT,
    updated_at    BIGINT NOT NULL,
    PRIMARY KEY (tenant, corpus, document_id)
);

-- Deliveries of a job that began and have not ended in order: what is left when a worker dies is a crash.
CREATE TABLE job_starts (
    tenant   TEXT COLLATE "C" NOT NULL,
    -- The stream sequence of the job.
    sequence BIGINT NOT NULL,
    starts   BIGINT NOT NULL,
    PRIMARY KEY (tenant, sequence)
);
