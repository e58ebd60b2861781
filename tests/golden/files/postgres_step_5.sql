-- Which blobs the records of each session name: kept in the transaction that appends a record, so that whoever deletes a
-- session knows what no other one names without reading their logs. A row stays as long as its session, whether its
-- record was sealed or set aside: one too many keeps a blob for longer, one too few would lose it.
CREATE TABLE holdfast.blob_names (
    session bigint NOT NULL,
    -- As the record has it, in hex; bytes, as keys are.
    sha256  bytea  NOT NULL,
    size    bigint NOT NULL,
    PRIMARY KEY (session, sha256)
);

CREATE INDEX blob_names_by_blob ON holdfast.blob_names (sha256);

-- Sessions whose records were not all looked at for blobs: those that were here before this layout. The first deletion
-- reads each of them once, and takes it out of here in the transaction that notes what it names.
CREATE TABLE holdfast.blobs_unknown (session bigint PRIMARY KEY);

INSERT INTO holdfast.blobs_unknown SELECT number FROM holdfast.sessions WHERE created_at IS NOT NULL;

-- Writes a batch as `holdfast.write` does, and which blobs its records name. One that names none is written by the other
-- and pays nothing.
CREATE FUNCTION holdfast.write_naming(
    writer uuid, batch_number bigint, written_at double precision,
    keys bytea[], numbers bigint[], versions bigint[], last_seqs bigint[], oweds integer[],
    record_places integer[], seqs bigint[], checksums bigint[], bodies bytea[],
    id_places integer[], ids bytea[], id_seqs bigint[], digests bytea[],
    -- One each per blob that a record names; the place is that of its session above, from 1.
    name_places integer[], names bytea[], sizes bigint[],
    OUT refused integer[], OUT now double precision
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT w.refused, w.now INTO refused, now FROM holdfast.write(
        writer, batch_number, written_at, keys, numbers, versions, last_seqs, oweds,
        record_places, seqs, checksums, bodies, id_places, ids, id_seqs, digests
    ) AS w;
    INSERT INTO holdfast.blob_names (session, sha256, size)
    SELECT DISTINCT ON (numbers[a.place], a.name) numbers[a.place], a.name, a.size
    FROM unnest(name_places, names, sizes) AS a (place, name, size)
    WHERE NOT a.place = ANY (refused)
    ON CONFLICT DO NOTHING;
END
$$;

UPDATE holdfast.layout SET version = 5;
