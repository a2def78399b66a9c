-- Retention: its runs, legal holds, administrative acts. Times are microseconds since the epoch.
CREATE TABLE retention_runs (
    -- The same for every delivery of one tick.
    run_key      TEXT PRIMARY KEY,
    ordered_at   INTEGER NOT NULL,
    -- What it is limited to; empty = everything.
    tenant       TEXT NOT NULL DEFAULT '',
    corpus       TEXT NOT NULL DEFAULT '',
    days         INTEGER,
    force        INTEGER NOT NULL DEFAULT 0,
    actor        TEXT NOT NULL DEFAULT '',
    -- open, done, refused, failed.
    state        TEXT NOT NULL DEFAULT 'open',
    owner        TEXT NOT NULL DEFAULT '',
    leased_until INTEGER NOT NULL DEFAULT 0,
    -- Rows removed so far, counted in the transactions that removed them.
    retrievals   INTEGER NOT NULL DEFAULT 0,
    chunks       INTEGER NOT NULL DEFAULT 0,
    documents    INTEGER NOT NULL DEFAULT 0,
    feedback     INTEGER NOT NULL DEFAULT 0,
    expired      INTEGER NOT NULL DEFAULT 0,
    tombstones   INTEGER NOT NULL DEFAULT 0,
    -- JSON list: what failed, was refused or was spared.
    notes        TEXT NOT NULL DEFAULT '[]',
    ended_at     INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX retention_runs_open ON retention_runs (ordered_at) WHERE state = 'open';

CREATE TABLE legal_holds (
    tenant      TEXT NOT NULL,
    hold_id     TEXT NOT NULL,
    -- Empty = all of them.
    corpus      TEXT NOT NULL DEFAULT '',
    document_id TEXT NOT NULL DEFAULT '',
    reason      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    since       INTEGER NOT NULL,
    released_at INTEGER,
    released_by TEXT,
    PRIMARY KEY (tenant, hold_id)
) STRICT, WITHOUT ROWID;

-- Every administrative act, for ever.
CREATE TABLE admin_audit (
    act_id  INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    action  TEXT NOT NULL,
    actor   TEXT NOT NULL,
    tenant  TEXT NOT NULL,
    corpus  TEXT NOT NULL,
    -- JSON: numbers and names.
    details TEXT NOT NULL
) STRICT;
CREATE INDEX admin_audit_of_a_tenant ON admin_audit (tenant, act_id);

-- Documents that expired and whose points may still be in the store.
CREATE TABLE cleanups (
    tenant      TEXT NOT NULL,
    corpus      TEXT NOT NULL,
    document_id TEXT NOT NULL,
    PRIMARY KEY (tenant, corpus, document_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX documents_that_expire ON documents (expires_at) WHERE deleted = 0 AND expires_at IS NOT NULL;
CREATE INDEX documents_that_are_tombstones ON documents (updated_at) WHERE deleted = 1;
