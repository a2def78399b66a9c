-- Retention: its runs, legal holds, administrative acts. Times are microseconds since the epoch.
CREATE TABLE retention_runs (
    -- The same for every delivery of one tick.
    run_key      TEXT COLLATE "C" PRIMARY KEY,
    ordered_at   BIGINT NOT NULL,
    -- What it is limited to; empty = everything.
    tenant       TEXT COLLATE "C" NOT NULL DEFAULT '',
    corpus       TEXT COLLATE "C" NOT NULL DEFAULT '',
    days         BIGINT,
    force        BIGINT NOT NULL DEFAULT 0,
    actor        TEXT NOT NULL DEFAULT '',
    -- open, done, refused, failed.
    state        TEXT NOT NULL DEFAULT 'open',
    owner        TEXT NOT NULL DEFAULT '',
    leased_until BIGINT NOT NULL DEFAULT 0,
    -- Rows removed so far, counted in the transactions that removed them.
    retrievals   BIGINT NOT NULL DEFAULT 0,
    chunks       BIGINT NOT NULL DEFAULT 0,
    documents    BIGINT NOT NULL DEFAULT 0,
    feedback     BIGINT NOT NULL DEFAULT 0,
    expired      BIGINT NOT NULL DEFAULT 0,
    tombstones   BIGINT NOT NULL DEFAULT 0,
    -- JSON list: what failed, was refused or was spared.
    notes        TEXT NOT NULL DEFAULT '[]',
    ended_at     BIGINT
);
CREATE INDEX retention_runs_open ON retention_runs (ordered_at) WHERE state = 'open';

CREATE TABLE legal_holds (
    tenant      TEXT COLLATE "C" NOT NULL,
    hold_id     TEXT COLLATE "C" NOT NULL,
    -- Empty = all of them.
    corpus      TEXT COLLATE "C" NOT NULL DEFAULT '',
    document_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    reason      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    since       BIGINT NOT NULL,
    released_at BIGINT,
    released_by TEXT,
    PRIMARY KEY (tenant, hold_id)
);

-- Every administrative act, for ever.
CREATE TABLE admin_audit (
    act_id  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      BIGINT NOT NULL,
    action  TEXT NOT NULL,
    actor   TEXT NOT NULL,
    tenant  TEXT COLLATE "C" NOT NULL,
    corpus  TEXT COLLATE "C" NOT NULL,
    -- JSON: numbers and names.
    details TEXT NOT NULL
);
CREATE INDEX admin_audit_of_a_tenant ON admin_audit (tenant, act_id);

-- Documents that expired and whose points may still be in the store.
CREATE TABLE cleanups (
    tenant      TEXT COLLATE "C" NOT NULL,
    corpus      TEXT COLLATE "C" NOT NULL,
    document_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, corpus, document_id)
);

CREATE INDEX documents_that_expire ON documents (expires_at) WHERE deleted = 0 AND expires_at IS NOT NULL;
CREATE INDEX documents_that_are_tombstones ON documents (updated_at) WHERE deleted = 1;
