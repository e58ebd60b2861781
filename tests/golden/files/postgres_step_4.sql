-- The archive, healing, and changes to a session as a whole: what makes a log shorter or sets it right.

-- Sealed runs of old records. Those of a session follow each other without a gap from record 1 on; the live records follow
-- the last of them. Words of sealed records stay in the search index, which can no longer be made anew from this database
-- alone; client ids stay as well.
CREATE TABLE holdfast.segments (
    session bigint NOT NULL,
    first   bigint NOT NULL,
    last    bigint NOT NULL,
    -- In the archive; it ends in the SHA-256 of the bytes there.
    name    text   NOT NULL,
    sha256  text   NOT NULL,
    size    bigint NOT NULL,
    PRIMARY KEY (session, first)
);

-- What could not stay in a log: rows that were damaged, as they were found, each with its reason. Nothing here is ever
-- removed by itself; a mark in the log names the row that has its bytes.
CREATE TABLE holdfast.quarantine (
    number  bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session bigint           NOT NULL,
    -- Where the row said it stood, with its own time and checksum.
    seq     bigint           NOT NULL,
    at      double precision NOT NULL,
    crc32   bigint           NOT NULL,
    body    bytea            NOT NULL,
    -- Why, and when it was set aside. Bytes, as keys are: a text here cannot hold everything.
    why     bytea            NOT NULL,
    since   double precision NOT NULL
);

CREATE INDEX quarantine_session ON holdfast.quarantine (session, number);

-- Changes that were made, by a name that whoever asked for them gave. One whose connection was lost in the middle asks
-- again under the same name, and finds here that it was made, or that it was not. Removed a day later.
CREATE TABLE holdfast.changes (
    token   uuid        PRIMARY KEY,
    answer  bigint      NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX changes_made_at ON holdfast.changes (made_at);

UPDATE holdfast.layout SET version = 4;
