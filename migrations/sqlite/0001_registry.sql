-- The document registry: who wrote what version, and what is being served. Times are microseconds since the epoch.
CREATE TABLE corpora (
    tenant     TEXT    NOT NULL,
    corpus     TEXT    NOT NULL,
    generation INTEGER NOT NULL DEFAULT 1,
    -- Jobs up to this sequence are superseded: the newest corpus deletion.
    fence      INTEGER NOT NULL DEFAULT 0,
    -- JSON: the ids of the models the generation is built with.
    models     TEXT    NOT NULL DEFAULT '{}',
    -- 'absent' until a put writes into it, then 'active', then 'absent' again when its generation is retired.
    state      TEXT    NOT NULL DEFAULT 'absent',
    -- JSON: the result of the corpus deletion at the fence.
    result     TEXT,
    PRIMARY KEY (tenant, corpus)
) STRICT;

CREATE TABLE documents (
    tenant        TEXT    NOT NULL,
    corpus        TEXT    NOT NULL,
    document_id   TEXT    NOT NULL,
    sequence      INTEGER NOT NULL DEFAULT 0,
    claimed       INTEGER NOT NULL DEFAULT 0,
    live          INTEGER NOT NULL DEFAULT 0,
    content_hash  TEXT    NOT NULL DEFAULT '',
    metadata_hash TEXT    NOT NULL DEFAULT '',
    pipeline_hash TEXT    NOT NULL DEFAULT '',
    chunks        INTEGER NOT NULL DEFAULT 0,
    deleted       INTEGER NOT NULL DEFAULT 1,
    expires_at    INTEGER,
    -- JSON: the result of the job `sequence`.
    result        TEXT,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant, corpus, document_id)
) STRICT, WITHOUT ROWID;
