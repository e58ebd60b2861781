-- What could not stay in a log: rows that were damaged, as they were found, each with its reason. Nothing here is ever
-- removed by itself; a mark in the log names the row that has its bytes.
CREATE TABLE quarantine (
    number   INTEGER PRIMARY KEY,
    session  INTEGER NOT NULL,
    -- Where the row said it stood, with its own time and checksum.
    seq      INTEGER NOT NULL,
    at       REAL    NOT NULL,
    crc32    INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    -- Why, and when it was set aside.
    why      TEXT    NOT NULL,
    since    REAL    NOT NULL
) STRICT;

CREATE INDEX quarantine_session ON quarantine (session);
