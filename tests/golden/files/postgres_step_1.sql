CREATE SCHEMA holdfast;
COMMENT ON SCHEMA holdfast IS 'sessions of Holdfast';
CREATE TABLE holdfast.layout (version integer NOT NULL);
INSERT INTO holdfast.layout VALUES (0);
-- The first layout: sessions with their leases, records, client ids, snapshots, and the function that writes a batch.
-- Keys and texts are kept as bytes: PostgreSQL's text has no NUL, and bytes are in the order of code points everywhere.

-- What is known of a session besides its log. A row exists from the first record or the first lease on; a session exists
-- for callers from its first record on. Room is left on each page, so that a row is changed where it stands.
CREATE TABLE holdfast.sessions (
    -- Chosen at random by whoever makes the row, so that checksums can be computed before it is there.
    number      bigint           PRIMARY KEY,
    key         bytea            NOT NULL UNIQUE,
    -- Grows with every change that a writer must know of: all but the prolonging of a lease.
    version     bigint           NOT NULL,
    last_seq    bigint           NOT NULL,
    -- Inputs without an outcome.
    owed        integer          NOT NULL,
    -- When the first record came; NULL: none yet.
    created_at  double precision,
    updated_at  double precision NOT NULL,
    -- The newest fence given out; it never goes back.
    fence       bigint           NOT NULL,
    -- The holder of the lease, and the store instance it asked. NULL: nobody.
    owner       text,
    instance    uuid,
    -- By the clock of this server.
    lease_until double precision NOT NULL
) WITH (fillfactor = 60);

-- What a start must resume, without looking at every session.
CREATE INDEX sessions_owing ON holdfast.sessions (key) WHERE owed > 0;

CREATE TABLE holdfast.records (
    session bigint           NOT NULL,
    seq     bigint           NOT NULL,
    at      double precision NOT NULL,
    -- Over session, seq, at and body.
    crc32   bigint           NOT NULL,
    -- JSON, as `encode_record` wrote it.
    body    bytea            NOT NULL,
    PRIMARY KEY (session, seq)
);

-- Which input was admitted under which name, so that one sent twice is stored once.
CREATE TABLE holdfast.client_ids (
    session   bigint NOT NULL,
    -- SHA-256 of the name, which may be longer than an index takes.
    client_id bytea  NOT NULL,
    seq       bigint NOT NULL,
    -- SHA-256 of the record's body: tells the same message from another one.
    sha256    bytea  NOT NULL,
    PRIMARY KEY (session, client_id)
);

-- The newest fold of each session; any of these may be deleted at any time.
CREATE TABLE holdfast.snapshots (
    session bigint PRIMARY KEY,
    seq     bigint NOT NULL,
    crc32   bigint NOT NULL,
    body    bytea  NOT NULL
);

-- Each open store, the number of its newest batch, and which sessions of that batch were refused. A writer that lost its
-- connection reads here what came of the batch that was under way, and with the same stroke makes sure that it cannot
-- come later: see `holdfast.settle`.
CREATE TABLE holdfast.writers (
    instance uuid        PRIMARY KEY,
    batch    bigint      NOT NULL,
    -- NULL: that batch was declared void.
    refused  integer[],
    seen_at  timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Writes the changes of many sessions in one go. Whoever computed a change names the version of the session that it was
-- computed from (NULL: there is no such session); where that is no longer the version, nothing of this change is
-- written and its place is returned. Rows are taken in order of their keys, those that exist before those that are
-- made, so that two writers never wait for each other.
CREATE FUNCTION holdfast.write(
    writer uuid, batch_number bigint, written_at double precision,
    -- One each per session.
    keys bytea[], numbers bigint[], versions bigint[], last_seqs bigint[], oweds integer[],
    -- One each per record; the place is that of its session above, from 1.
    record_places integer[], seqs bigint[], checksums bigint[], bodies bytea[],
    -- One each per client id.
    id_places integer[], ids bytea[], id_seqs bigint[], digests bytea[],
    OUT refused integer[], OUT now double precision
) LANGUAGE plpgsql AS $$
DECLARE
    fits boolean[];
    made bigint[];
BEGIN
    UPDATE holdfast.writers AS w SET batch = batch_number, refused = '{}', seen_at = now()
    WHERE w.instance = writer AND w.batch < batch_number;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this batch was declared void' USING ERRCODE = 'HF001';
    END IF;

    WITH taken AS MATERIALIZED (
        SELECT s.number, s.version FROM holdfast.sessions AS s WHERE s.number = ANY (numbers) ORDER BY s.key FOR UPDATE
    )
    SELECT array_agg(t.version IS NOT DISTINCT FROM a.version ORDER BY a.place) INTO fits
    FROM unnest(numbers, versions) WITH ORDINALITY AS a (number, version, place) LEFT JOIN taken AS t USING (number);

    IF array_position(versions, NULL) IS NOT NULL THEN
        WITH inserted AS (
            INSERT INTO holdfast.sessions (number, key, version, last_seq, owed, updated_at, fence, lease_until)
            SELECT a.number, a.key, 0, 0, 0, 0, 0, 0
            FROM unnest(numbers, keys, versions) AS a (number, key, version)
            WHERE a.version IS NULL ORDER BY a.key
            ON CONFLICT (key) DO NOTHING RETURNING number
        )
        SELECT coalesce(array_agg(i.number), '{}') INTO made FROM inserted AS i;
        SELECT array_agg(fits[a.place] AND (a.version IS NOT NULL OR a.number = ANY (made)) ORDER BY a.place) INTO fits
        FROM unnest(numbers, versions) WITH ORDINALITY AS a (number, version, place);
    END IF;

    UPDATE holdfast.sessions AS s
    SET version = s.version + 1, last_seq = a.last_seq, owed = a.owed,
        created_at = coalesce(s.created_at, written_at), updated_at = written_at
    FROM unnest(numbers, last_seqs, oweds) WITH ORDINALITY AS a (number, last_seq, owed, place)
    WHERE s.number = a.number AND fits[a.place];

    INSERT INTO holdfast.records (session, seq, at, crc32, body)
    SELECT numbers[a.place], a.seq, written_at, a.checksum, a.body
    FROM unnest(record_places, seqs, checksums, bodies) AS a (place, seq, checksum, body)
    WHERE fits[a.place];

    IF cardinality(ids) > 0 THEN
        INSERT INTO holdfast.client_ids (session, client_id, seq, sha256)
        SELECT numbers[a.place], a.id, a.seq, a.digest
        FROM unnest(id_places, ids, id_seqs, digests) AS a (place, id, seq, digest)
        WHERE fits[a.place];
    END IF;

    refused := '{}';
    IF NOT true = ALL (fits) THEN
        SELECT array_agg(f.place) INTO refused FROM unnest(fits) WITH ORDINALITY AS f (fit, place) WHERE NOT f.fit;
        UPDATE holdfast.writers AS w SET refused = write.refused WHERE w.instance = writer;
    END IF;
    now := extract(epoch FROM clock_timestamp());
END
$$;

-- Says what came of a batch whose writer lost its connection. Where it has not been written it never will be: the number
-- is used up. May be asked any number of times.
CREATE FUNCTION holdfast.settle(writer uuid, batch_number bigint, OUT is_known boolean, OUT refused integer[])
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holdfast.writers AS w SET batch = batch_number, refused = NULL
    WHERE w.instance = writer AND w.batch < batch_number;
    SELECT w.refused INTO refused FROM holdfast.writers AS w WHERE w.instance = writer AND w.batch = batch_number;
    is_known := FOUND;
END
$$;

UPDATE holdfast.layout SET version = 1;
