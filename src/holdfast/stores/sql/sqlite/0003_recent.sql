-- The newest records without an index of their own: an append then writes one page less. The table is small enough to
-- be read through where a session's part of it is wanted, and is read through once where that of many sessions is.

INSERT INTO records SELECT session, seq, at, crc32, body FROM recent ORDER BY session, seq;

DROP TABLE recent;

CREATE TABLE recent (
    place   INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      REAL    NOT NULL,
    crc32   INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;
