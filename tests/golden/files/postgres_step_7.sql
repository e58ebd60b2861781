-- The list of sessions: labels, configured model, the beginning of the first message and the hour of the last change.
-- Every append that changes one of them writes the row in its own transaction. A page of the list reads its own rows.
CREATE TABLE holdfast.labels (
    session   bigint  PRIMARY KEY,
    -- The beginning of the first message; empty: none yet.
    opening   bytea   NOT NULL,
    -- Empty: none given.
    title     bytea   NOT NULL,
    tags      bytea[] NOT NULL,
    -- A JSON object; empty: none.
    metadata  bytea   NOT NULL,
    -- Empty: that of the process, or configured before this table was there.
    model     bytea   NOT NULL,
    -- The hour of the last change, since 1970: an index on the time would be written with every record.
    used_hour bigint  NOT NULL
);

CREATE INDEX labels_by_hour ON holdfast.labels (used_hour);
CREATE INDEX labels_by_tag ON holdfast.labels USING gin (tags);

-- Writes a batch as `holdfast.write_naming` does, and the rows of the list that its records change. A batch that changes
-- none is written by the others and pays nothing.
CREATE FUNCTION holdfast.write_listing(
    writer uuid, batch_number bigint, written_at double precision,
    keys bytea[], numbers bigint[], versions bigint[], last_seqs bigint[], oweds integer[],
    record_places integer[], seqs bigint[], checksums bigint[], bodies bytea[],
    id_places integer[], ids bytea[], id_seqs bigint[], digests bytea[],
    name_places integer[], names bytea[], sizes bigint[],
    -- One each per row of the list; the place is that of its session above, from 1. A title, metadata or a model that is
    -- NULL stays as it is.
    list_places integer[], hours bigint[], openings bytea[], titles bytea[], metadatas bytea[], models bytea[],
    -- One each per tag of a row that gets labels.
    tag_places integer[], tag_names bytea[],
    OUT refused integer[], OUT now double precision
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT w.refused, w.now INTO refused, now FROM holdfast.write_naming(
        writer, batch_number, written_at, keys, numbers, versions, last_seqs, oweds,
        record_places, seqs, checksums, bodies, id_places, ids, id_seqs, digests, name_places, names, sizes
    ) AS w;
    INSERT INTO holdfast.labels AS l (session, opening, title, tags, metadata, model, used_hour)
    SELECT numbers[a.place], a.opening, '', '{}', '', '', a.hour
    FROM unnest(list_places, hours, openings) AS a (place, hour, opening)
    WHERE NOT a.place = ANY (refused)
    ON CONFLICT (session) DO UPDATE SET used_hour = greatest(l.used_hour, excluded.used_hour),
        opening = CASE WHEN l.opening = '' THEN excluded.opening ELSE l.opening END;
    UPDATE holdfast.labels AS l SET title = a.title, metadata = a.metadata, tags = coalesce(
        (SELECT array_agg(t.tag) FROM unnest(tag_places, tag_names) AS t (place, tag) WHERE t.place = a.place), '{}')
    FROM unnest(list_places, titles, metadatas) AS a (place, title, metadata)
    WHERE l.session = numbers[a.place] AND a.title IS NOT NULL AND NOT a.place = ANY (refused);
    UPDATE holdfast.labels AS l SET model = a.model FROM unnest(list_places, models) AS a (place, model)
    WHERE l.session = numbers[a.place] AND a.model IS NOT NULL AND NOT a.place = ANY (refused);
END
$$;

-- Sessions that were here before. The first message is among the first records of nearly every log that is not sealed.
-- A text that PostgreSQL cannot hold, such as one with NUL, gives no title.
CREATE FUNCTION holdfast.opening_of(body bytea) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce(convert_to(left(btrim(
        convert_from(body, 'UTF8')::json -> 'parts' -> 0 ->> 'text', E' \t\r\n'), 200), 'UTF8'), '');
EXCEPTION WHEN OTHERS THEN
    RETURN '';
END
$$;

INSERT INTO holdfast.labels (session, opening, title, tags, metadata, model, used_hour)
SELECT number, coalesce((
    SELECT holdfast.opening_of(body) FROM holdfast.records AS r
    WHERE r.session = number AND seq <= 20 AND substring(body FROM 1 FOR 23) = '{"type":"InputAdmitted"'::bytea
    ORDER BY seq LIMIT 1
), ''), '', '{}', '', '', floor(updated_at / 3600)::bigint
FROM holdfast.sessions WHERE created_at IS NOT NULL;

DROP FUNCTION holdfast.opening_of;

UPDATE holdfast.layout SET version = 7;
