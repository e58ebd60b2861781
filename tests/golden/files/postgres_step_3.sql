-- Original bytes, so that every node can read them.

-- A blob, or one on its way in: it has no name until its last byte is here. What its writer left half done is removed a
-- day later.
CREATE TABLE holdfast.blobs (
    upload   uuid        PRIMARY KEY,
    begun_at timestamptz NOT NULL DEFAULT now(),
    sha256   bytea       UNIQUE,
    size     bigint
);

CREATE INDEX blobs_unfinished ON holdfast.blobs (begun_at) WHERE sha256 IS NULL;

CREATE TABLE holdfast.blob_chunks (
    upload uuid    NOT NULL REFERENCES holdfast.blobs (upload) ON DELETE CASCADE,
    place  integer NOT NULL,
    body   bytea   NOT NULL,
    PRIMARY KEY (upload, place)
);

-- Images and archives do not get smaller, and a range of what is not compressed is read without the rest.
ALTER TABLE holdfast.blob_chunks ALTER COLUMN body SET STORAGE EXTERNAL;

UPDATE holdfast.layout SET version = 3;
