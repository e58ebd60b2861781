-- The first layout: sessions with their leases, records, client ids and snapshots.

-- What is known of a session besides its log. A row exists from the first record or the first lease on; a session
-- exists for callers from its first record on. How far its log goes and when it grew last is what the log says: an
-- append changes this row only where it changes what is owed.
CREATE TABLE sessions (
    number      INTEGER PRIMARY KEY,
    key         TEXT    NOT NULL UNIQUE,
    -- Inputs without an outcome.
    owed        INTEGER NOT NULL,
    -- When the first record came; NULL: none yet.
    created_at  REAL,
    -- The newest fence given out; it never goes back.
    fence       INTEGER NOT NULL,
    -- The holder of the lease, and the store instance it asked, whose file in the owners folder is locked while it
    -- lives. NULL: nobody.
    owner       TEXT,
    instance    TEXT,
    lease_until REAL    NOT NULL
) STRICT;

-- What a start must resume, without looking at every session.
CREATE INDEX sessions_owing ON sessions (key) WHERE owed > 0;

-- The newest records of all sessions. The table is kept small, so that a commit for many sessions writes few pages; from
-- time to time all its rows are moved into `records` in one transaction. The log of a session is what `records` holds of
-- it, followed by what `recent` holds.
CREATE TABLE recent (
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      REAL    NOT NULL,
    crc32   INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT;

-- All older records.
CREATE TABLE records (
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      REAL    NOT NULL,
    -- Over session, seq, at and body.
    crc32   INTEGER NOT NULL,
    -- JSON, as `encode_record` wrote it.
    body    BLOB    NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT;

-- Which input was admitted under which name, so that one sent twice is stored once.
CREATE TABLE client_ids (
    session   INTEGER NOT NULL,
    client_id TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    -- SHA-256 of the record's body: tells the same message from another one.
    sha256    BLOB    NOT NULL,
    PRIMARY KEY (session, client_id)
) STRICT, WITHOUT ROWID;

-- The newest fold of each session; any of these may be deleted at any time.
CREATE TABLE snapshots (
    session INTEGER PRIMARY KEY REFERENCES sessions (number),
    seq     INTEGER NOT NULL,
    crc32   INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;
