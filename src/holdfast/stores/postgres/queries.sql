-- Queries of the PostgreSQL store. Format: a line with the name, a line with the purpose, the statement.
-- Rows of sessions have the columns that `batch.versioned_row` expects. A time parameter replaces the clock of the
-- server in tests; otherwise it is NULL.

-- ==== Sessions and records ====

-- read_page --
-- Read a page of records with the end of the log and of its sealed part, from one state of the database
WITH s AS MATERIALIZED (
    SELECT number, last_seq, coalesce(
        (SELECT last FROM holdfast.segments WHERE session = number ORDER BY first DESC LIMIT 1), 0
    ) AS sealed_until
    FROM holdfast.sessions WHERE key = $1
)
SELECT r.seq, r.at, r.crc32, r.body, s.number, s.last_seq, s.sealed_until
FROM s LEFT JOIN LATERAL (
    SELECT seq, at, crc32, body FROM holdfast.records WHERE session = s.number AND seq > $2 ORDER BY seq LIMIT $3
) AS r ON true
ORDER BY r.seq

-- list_segments --
-- List the sealed segments of a session
SELECT first, last, name, sha256, size FROM holdfast.segments
WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1) ORDER BY first

-- read_session --
-- Read the summary of one session
SELECT key, last_seq, owed, created_at, updated_at FROM holdfast.sessions
WHERE created_at IS NOT NULL AND key = $1

-- list_sessions --
-- Read a page of session summaries in order of their keys
SELECT key, last_seq, owed, created_at, updated_at FROM holdfast.sessions
WHERE created_at IS NOT NULL AND key > $1 ORDER BY key LIMIT $2

-- list_labelled --
-- Read sessions with their rows in the list; conditions and an order follow
SELECT key, last_seq, owed, created_at, updated_at, opening, title, tags, metadata, model, used_hour
FROM holdfast.sessions JOIN holdfast.labels ON session = number WHERE created_at IS NOT NULL

-- list_pending --
-- List the sessions with pending work
SELECT key FROM holdfast.sessions WHERE owed > 0 ORDER BY key

-- read_rows_of_sessions --
-- Read the rows of some sessions for the row cache of a writer
SELECT number, key, version, last_seq, owed, created_at, updated_at, fence, owner, instance::text, lease_until,
    coalesce((SELECT l.opening <> '' FROM holdfast.labels AS l WHERE l.session = number), false),
    coalesce((SELECT l.used_hour FROM holdfast.labels AS l WHERE l.session = number), -1)
FROM holdfast.sessions WHERE key = ANY ($1)

-- find_client_ids --
-- Look up client ids; run after the rows were read, so that a newer id implies a newer row version
SELECT key, asked.client_id, seq, sha256
FROM unnest($1::bytea[], $2::bytea[]) AS asked (key, client_id)
JOIN holdfast.sessions USING (key)
JOIN holdfast.client_ids ON session = number AND client_ids.client_id = asked.client_id

-- ==== Writers ====

-- register_writer --
-- Register a writer with the number of its last batch
INSERT INTO holdfast.writers (instance, batch) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- sweep_writers --
-- Remove the writers that ended without unregistering; a live one registers again
DELETE FROM holdfast.writers WHERE seen_at < now() - interval '1 day'

-- unregister_writer --
-- Remove a writer that ends
DELETE FROM holdfast.writers WHERE instance = $1

-- now --
-- Read the clock of the server
SELECT extract(epoch FROM clock_timestamp())::float8

-- settle_batch --
-- Find out whether a batch was written; if not, it never will be
SELECT is_known, refused FROM holdfast.settle($1, $2)

-- ==== Leases ====

-- acquire_lease --
-- Take a lease that is free, expired or our own; the clock is read after the row lock was granted
INSERT INTO holdfast.sessions AS s
    (number, key, version, last_seq, owed, updated_at, fence, owner, instance, lease_until)
VALUES (
    $1, $2, 1, 0, 0, 0, 1, $3, $4::text::uuid,
    coalesce($6::float8, extract(epoch FROM clock_timestamp())::float8) + $5
)
ON CONFLICT (key) DO UPDATE
SET version = s.version + 1, fence = s.fence + 1, owner = $3, instance = $4::text::uuid,
    lease_until = coalesce($6::float8, extract(epoch FROM clock_timestamp())::float8) + $5
WHERE s.owner IS NULL OR (s.owner = $3 AND s.instance = $4::text::uuid)
   OR s.lease_until <= coalesce($6::float8, extract(epoch FROM clock_timestamp())::float8)
RETURNING number, key, version, last_seq, owed, created_at, updated_at, fence, owner, instance::text, lease_until,
    coalesce((SELECT l.opening <> '' FROM holdfast.labels AS l WHERE l.session = number), false),
    coalesce((SELECT l.used_hour FROM holdfast.labels AS l WHERE l.session = number), -1)

-- renew_lease --
-- Extend a lease
UPDATE holdfast.sessions SET lease_until = coalesce($4::float8, extract(epoch FROM clock_timestamp())::float8) + $3
WHERE key = $1 AND fence = $2 AND owner IS NOT NULL
RETURNING owner, lease_until

-- release_lease --
-- Release a lease
UPDATE holdfast.sessions SET version = version + 1, owner = NULL, instance = NULL, lease_until = 0
WHERE key = $1 AND fence = $2 AND owner IS NOT NULL
RETURNING number, key, version, last_seq, owed, created_at, updated_at, fence, owner, instance::text, lease_until,
    coalesce((SELECT l.opening <> '' FROM holdfast.labels AS l WHERE l.session = number), false),
    coalesce((SELECT l.used_hour FROM holdfast.labels AS l WHERE l.session = number), -1)

-- list_lease_holders --
-- List the holders of leases; an expired lease belongs to its holder until it is taken
SELECT owner, bool_or(lease_until > coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8)) AS is_alive,
       count(*) AS sessions
FROM holdfast.sessions WHERE owner IS NOT NULL GROUP BY owner, instance ORDER BY owner, instance

-- ==== Snapshots ====

-- save_snapshot --
-- Replace the snapshot; the row lock keeps the lease from being taken meanwhile
WITH held AS (
    SELECT number FROM holdfast.sessions WHERE key = $1 AND fence = $2 AND owner IS NOT NULL FOR UPDATE
)
INSERT INTO holdfast.snapshots (session, seq, crc32, body) SELECT number, $3, $4, $5 FROM held
ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, crc32 = excluded.crc32, body = excluded.body
RETURNING session

-- load_snapshot --
-- Read the snapshot of a session by its key
SELECT snapshots.seq, crc32, body FROM holdfast.snapshots JOIN holdfast.sessions ON number = session WHERE key = $1

-- read_snapshot --
-- Read the snapshot of a session by its number
SELECT seq, crc32, body FROM holdfast.snapshots WHERE session = $1

-- set_snapshot_checksum --
-- Set the checksum of a snapshot
UPDATE holdfast.snapshots SET crc32 = $2 WHERE session = $1

-- ==== Changes of one session in several statements ====

-- lock_session --
-- Lock the row of a session
SELECT number, key, version, last_seq, owed, created_at, updated_at, fence, owner, instance::text, lease_until,
    coalesce((SELECT l.opening <> '' FROM holdfast.labels AS l WHERE l.session = number), false),
    coalesce((SELECT l.used_hour FROM holdfast.labels AS l WHERE l.session = number), -1)
FROM holdfast.sessions WHERE key = $1 FOR UPDATE

-- update_session --
-- Save the row of a session under a new version
UPDATE holdfast.sessions
SET version = version + 1, last_seq = $2, owed = $3, created_at = $4, updated_at = $5 WHERE number = $1
RETURNING number, key, version, last_seq, owed, created_at, updated_at, fence, owner, instance::text, lease_until,
    coalesce((SELECT l.opening <> '' FROM holdfast.labels AS l WHERE l.session = number), false),
    coalesce((SELECT l.used_hour FROM holdfast.labels AS l WHERE l.session = number), -1)

-- find_change --
-- Read the result of a change by its token
SELECT answer FROM holdfast.changes WHERE token = $1

-- record_change --
-- Record the result of a change under its token
INSERT INTO holdfast.changes (token, answer) VALUES ($1, $2)

-- sweep_changes --
-- Remove some old tokens, except those that another transaction has locked
DELETE FROM holdfast.changes WHERE token IN (
    SELECT token FROM holdfast.changes WHERE made_at < now() - interval '1 day'
    ORDER BY made_at LIMIT 100 FOR UPDATE SKIP LOCKED
)

-- insert_records --
-- Append records to a log
INSERT INTO holdfast.records (session, seq, at, crc32, body)
SELECT $1, a.* FROM unnest($2::bigint[], $3::float8[], $4::bigint[], $5::bytea[]) AS a

-- ==== Repairs and seals ====

-- read_sealed_until --
-- Read the last sealed seq of a session
SELECT coalesce(max(last), 0) FROM holdfast.segments WHERE session = $1

-- count_live --
-- Read the first, the last and the number of live records up to a seq
SELECT min(seq), max(seq), count(*) FROM holdfast.records WHERE session = $1 AND seq <= $2

-- insert_segment --
-- Record a sealed segment
INSERT INTO holdfast.segments (session, first, last, name, sha256, size) VALUES ($1, $2, $3, $4, $5, $6)

-- delete_records --
-- Delete a run of records
DELETE FROM holdfast.records WHERE session = $1 AND seq BETWEEN $2 AND $3

-- read_record --
-- Read one row
SELECT seq, at, crc32, body FROM holdfast.records WHERE session = $1 AND seq = $2

-- replace_record --
-- Write a row, or replace it
INSERT INTO holdfast.records (session, seq, at, crc32, body) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (session, seq) DO UPDATE SET at = excluded.at, crc32 = excluded.crc32, body = excluded.body

-- insert_quarantine --
-- Move a row to quarantine
INSERT INTO holdfast.quarantine (session, seq, at, crc32, body, why, since) VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING number

-- list_quarantine --
-- Read a page of quarantined rows
SELECT number, seq, why, since, body FROM holdfast.quarantine
WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1) AND number > $2 ORDER BY number LIMIT $3

-- first_index_row --
-- Find the first search row of the records above a seq
SELECT min(row) FROM holdfast.search_rows WHERE session = $1 AND seq > $2

-- reset_index_mark --
-- Set the search index back to a seq
UPDATE holdfast.search_marks SET until = $2, reread = $2 + 1 WHERE session = $1 AND until > $2

-- forget_word_slices --
-- Delete the word slices that begin after a row
DELETE FROM holdfast.search_words WHERE session = $1 AND first_row >= $2

-- trim_word_slice --
-- Cut the slice that begins before the row: three numbers of places are one posting
UPDATE holdfast.search_words SET places = ARRAY(
    SELECT part FROM unnest(places) WITH ORDINALITY AS a (part, place)
    WHERE places[place - (place - 1) % 3] < $2 ORDER BY place
)
WHERE session = $1 AND first_row = (
    SELECT max(first_row) FROM holdfast.search_words WHERE session = $1 AND first_row < $2
)

-- forget_rows --
-- Delete the index rows from a row on
DELETE FROM holdfast.search_rows WHERE session = $1 AND row >= $2

-- set_index_rows --
-- Set the number of indexed rows
UPDATE holdfast.search_marks SET rows = $2 WHERE session = $1

-- delete_snapshot --
-- Delete the snapshot of a session
DELETE FROM holdfast.snapshots WHERE session = $1

-- ==== Search index ====

-- read_index_mark --
-- Read the position of the search index of a session
SELECT number, last_seq, coalesce(until, 0) AS until, coalesce(reread, 1) AS reread, coalesce(rows, 0) AS rows
FROM holdfast.sessions LEFT JOIN holdfast.search_marks ON session = number WHERE key = $1

-- read_body_sizes --
-- Measure bodies before they are read, so that a slice of large records stays small
SELECT octet_length(body) FROM holdfast.records WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3

-- insert_slice --
-- Add rows and words to the index, unless another process did, or the session was deleted
WITH s AS (SELECT number FROM holdfast.sessions WHERE number = $1 FOR KEY SHARE), mark AS (
    INSERT INTO holdfast.search_marks AS m (session, until, reread, rows) SELECT number, $2, $3, $4 FROM s
    ON CONFLICT (session) DO UPDATE SET until = $2, reread = $3, rows = $4 WHERE m.until = $5
    RETURNING session
), rows AS (
    INSERT INTO holdfast.search_rows (session, row, seq, call, called_words, said_words)
    SELECT mark.session, a.* FROM mark, unnest($6::int[], $7::bigint[], $8::bigint[], $9::int[], $10::int[]) AS a
)
INSERT INTO holdfast.search_words (session, word, first_row, places)
SELECT mark.session, a.word, $11, string_to_array(a.places, ' ')::int[]
FROM mark, unnest($12::text[], $13::text[]) AS a (word, places)

-- list_index_rows --
-- Read the sizes of all indexed rows of a session
SELECT seq, call, called_words, said_words FROM holdfast.search_rows WHERE session = $1 ORDER BY row

-- find_words --
-- Read the postings of some words
SELECT word, places FROM holdfast.search_words WHERE session = $1 AND word = ANY ($2) ORDER BY first_row

-- find_candidates --
-- Filter sessions: those with a word of the query, or with records that are not indexed
SELECT key FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY AS asked (key, last_seq, place)
JOIN holdfast.sessions USING (key) LEFT JOIN holdfast.search_marks ON session = number
WHERE coalesce(until, 0) < asked.last_seq
OR EXISTS (SELECT FROM holdfast.search_words AS w WHERE w.session = number AND word = ANY ($3))
ORDER BY asked.place

-- find_session --
-- Read the number of a session
SELECT number FROM holdfast.sessions WHERE key = $1

-- ==== Blob references ====

-- insert_blob_refs --
-- Add blob references of a session
INSERT INTO holdfast.blob_names (session, sha256, size)
SELECT $1, a.* FROM unnest($2::bytea[], $3::bigint[]) AS a ON CONFLICT DO NOTHING

-- list_blob_refs --
-- Read the blob references of a session
SELECT sha256, size FROM holdfast.blob_names
WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1) ORDER BY sha256

-- list_unshared_blobs --
-- List the blobs that only these sessions reference
WITH leaving AS MATERIALIZED (SELECT number FROM holdfast.sessions WHERE key = ANY ($1))
SELECT DISTINCT own.sha256, own.size FROM holdfast.blob_names AS own
WHERE own.session IN (SELECT number FROM leaving)
  AND NOT EXISTS (
    SELECT FROM holdfast.blob_names AS other
    WHERE other.sha256 = own.sha256 AND other.session NOT IN (SELECT number FROM leaving)
  )
ORDER BY own.sha256

-- list_unscanned_sessions --
-- List the sessions whose blob references are incomplete
SELECT key FROM holdfast.blobs_unknown JOIN holdfast.sessions ON number = session ORDER BY key

-- add_blob_refs --
-- Add all blob references of a session and mark it as scanned; idempotent
WITH known AS (
    DELETE FROM holdfast.blobs_unknown WHERE session = (SELECT number FROM holdfast.sessions WHERE key = $1)
)
INSERT INTO holdfast.blob_names (session, sha256, size)
SELECT number, a.sha256, a.size
FROM holdfast.sessions, unnest($2::bytea[], $3::bigint[]) AS a (sha256, size) WHERE key = $1
ON CONFLICT DO NOTHING

-- ==== Whole sessions ====

-- insert_client_ids --
-- Add client ids of adopted inputs
INSERT INTO holdfast.client_ids (session, client_id, seq, sha256)
SELECT $1, a.* FROM unnest($2::bytea[], $3::bigint[], $4::bytea[]) AS a ON CONFLICT DO NOTHING

-- lock_key --
-- Lock the row of a key that a session shall get
SELECT number, created_at IS NOT NULL AS has_log FROM holdfast.sessions WHERE key = $1 FOR UPDATE

-- delete_session --
-- Delete the row of a session
DELETE FROM holdfast.sessions WHERE number = $1

-- set_key --
-- Rename a session
UPDATE holdfast.sessions SET key = $2 WHERE number = $1

-- upsert_listing --
-- Write the row of a session in the list of sessions
INSERT INTO holdfast.labels AS l (session, opening, title, tags, metadata, model, used_hour)
VALUES ($1, $2, '', '{}', '', '', $3)
ON CONFLICT (session) DO UPDATE SET used_hour = greatest(l.used_hour, excluded.used_hour),
    opening = CASE WHEN l.opening = '' THEN excluded.opening ELSE l.opening END

-- set_labels --
-- Set the labels of a session
UPDATE holdfast.labels SET title = $2, tags = $3, metadata = $4 WHERE session = $1

-- set_model --
-- Set the configured model of a session
UPDATE holdfast.labels SET model = $2 WHERE session = $1

-- ==== Notifications ====

-- send_notification --
-- Send a notification to all nodes
SELECT pg_notify($1, $2)

-- find_grown --
-- Find the sessions that have records after a position
SELECT key FROM unnest($1::bytea[], $2::bigint[]) AS asked (key, seq) JOIN holdfast.sessions USING (key)
WHERE last_seq > asked.seq

-- ==== Blobs ====

-- sweep_uploads --
-- Remove the chunks of dead uploads
DELETE FROM holdfast.blobs WHERE sha256 IS NULL AND begun_at < now() - interval '1 day'

-- begin_upload --
-- Begin an upload
INSERT INTO holdfast.blobs (upload) VALUES ($1) ON CONFLICT DO NOTHING

-- put_chunk --
-- Store a chunk; repeating it does no harm
INSERT INTO holdfast.blob_chunks (upload, place, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- finish_upload --
-- Give an upload its hash unless the blob exists
UPDATE holdfast.blobs SET sha256 = $2, size = $3, begun_at = now()
WHERE upload = $1 AND NOT EXISTS (SELECT FROM holdfast.blobs WHERE sha256 = $2)

-- touch_blob --
-- Renew the time of a blob: a reference to it is on its way
UPDATE holdfast.blobs SET begun_at = now() WHERE sha256 = $1

-- remove_blob --
-- Remove a blob that was not touched lately
DELETE FROM holdfast.blobs WHERE sha256 = $1 AND begun_at < now() - make_interval(secs => $2)

-- find_blob --
-- Find the upload of a blob
SELECT upload FROM holdfast.blobs WHERE sha256 = $1

-- drop_upload --
-- Remove an upload that did not get a hash
DELETE FROM holdfast.blobs WHERE upload = $1 AND sha256 IS NULL

-- read_chunk --
-- Read a range of a chunk
SELECT substring(body FROM $3 FOR $4) FROM holdfast.blob_chunks WHERE upload = $1 AND place = $2

-- ==== Schema ====

-- find_schema --
-- Look for the schema in the catalogue itself; to_regnamespace may use a cache that is older than the lock
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'holdfast') AS is_there,
       EXISTS (SELECT FROM pg_tables WHERE schemaname = 'holdfast' AND tablename = 'layout') AS is_ours

-- create_schema --
-- Create the schema
CREATE SCHEMA holdfast;
COMMENT ON SCHEMA holdfast IS 'sessions of Holdfast';
CREATE TABLE holdfast.layout (version integer NOT NULL);
INSERT INTO holdfast.layout VALUES (0);

-- == Gateway keys ==

-- list_keys --
-- All keys in the order of their creation
SELECT name, body, version FROM holdfast.gateway_keys ORDER BY created_at, name

-- insert_key --
-- A new key, unless there is one of this name
INSERT INTO holdfast.gateway_keys (name, version, body) VALUES ($1, 1, $2) ON CONFLICT DO NOTHING

-- update_key --
-- A changed key, if it has the version that the change saw
UPDATE holdfast.gateway_keys SET body = $2, version = version + 1 WHERE name = $1 AND version = $3

-- delete_key --
-- Remove a key, if it has the version that the removal saw
DELETE FROM holdfast.gateway_keys WHERE name = $1 AND version = $2
