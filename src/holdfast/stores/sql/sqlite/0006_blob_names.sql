-- Which blobs the records of each session name: kept in the transaction that appends a record, so that whoever deletes a
-- session knows what no other one names without reading their logs. A row stays as long as its session, whether its
-- record was sealed or set aside: one too many keeps a blob for longer, one too few would lose it.
CREATE TABLE blob_names (
    session INTEGER NOT NULL,
    sha256  TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (session, sha256)
) STRICT, WITHOUT ROWID;

-- The same the other way round. Both are asked before a blob goes, so that a bit which is flipped in one of them is not
-- taken for the word that nobody names it.
CREATE INDEX blob_names_by_blob ON blob_names (sha256);

-- Sessions whose records were not all looked at for blobs: those that were here before this layout. The first deletion
-- reads each of them once, and takes it out of here in the transaction that notes what it names.
CREATE TABLE blobs_unknown (session INTEGER PRIMARY KEY) STRICT;

INSERT INTO blobs_unknown SELECT number FROM sessions WHERE created_at IS NOT NULL;
