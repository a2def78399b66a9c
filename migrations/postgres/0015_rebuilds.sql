-- A corpus that is rebuilt into a new generation with other models. Times are microseconds since the epoch.
-- 1 = the registry has switched to a rebuilt generation, and the store may not have.
ALTER TABLE corpora ADD COLUMN unserved BIGINT NOT NULL DEFAULT 0;
CREATE TABLE rebuilds (
    tenant     TEXT COLLATE "C" NOT NULL,
    corpus     TEXT COLLATE "C" NOT NULL,
    -- The generation that is built, and the one it replaces.
    generation BIGINT NOT NULL,
    previous   BIGINT NOT NULL,
    -- JSON: the ids of the models it is built with.
    models     TEXT NOT NULL,
    -- building, switched, cancelling, done, cancelled.
    state      TEXT NOT NULL,
    -- The worker that works on it, and until when nobody else may.
    owner      TEXT NOT NULL DEFAULT '',
    leased_until BIGINT NOT NULL DEFAULT 0,
    -- When the replaced generation may go.
    drop_at    BIGINT,
    -- What stopped the last attempt; empty = nothing.
    problem    TEXT NOT NULL DEFAULT '',
    started_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, corpus)
);
-- What of a corpus stands in the generation that is built.
CREATE TABLE rebuilt_documents (
    tenant      TEXT COLLATE "C" NOT NULL,
    corpus      TEXT COLLATE "C" NOT NULL,
    document_id TEXT COLLATE "C" NOT NULL,
    -- The sequence of the points that were copied; 0 = begun.
    live        BIGINT NOT NULL,
    -- Chunks that the replaced generation lacked.
    missing     BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, corpus, document_id)
);
