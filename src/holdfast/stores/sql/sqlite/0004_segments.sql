-- The archive: which records of a session are no longer here, and where they are.

-- Sealed runs of old records. Those of a session follow each other without a gap from record 1 on; the live records follow
-- the last of them. Words of sealed records stay in the search index, which can no longer be made anew from this file
-- alone; client ids stay as well.
CREATE TABLE segments (
    session INTEGER NOT NULL,
    first   INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    -- In the archive; it ends in the SHA-256 of the bytes there.
    name    TEXT    NOT NULL,
    sha256  TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (session, first)
) STRICT, WITHOUT ROWID;
