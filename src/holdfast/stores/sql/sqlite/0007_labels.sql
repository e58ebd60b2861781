-- The list of sessions: labels, configured model, the beginning of the first message and the hour of the last change.
-- Every append that changes one of them writes the row in its own transaction. A page of the list reads its own rows.
CREATE TABLE labels (
    session   INTEGER PRIMARY KEY,
    -- The beginning of the first message; '': none yet.
    opening   TEXT    NOT NULL,
    -- '': none given.
    title     TEXT    NOT NULL,
    -- A JSON list and a JSON object.
    tags      TEXT    NOT NULL,
    metadata  TEXT    NOT NULL,
    -- NULL: that of the process, or configured before this table was there.
    model     TEXT,
    -- The hour of the last change, since 1970: an index on the time would be written with every record.
    used_hour INTEGER NOT NULL
) STRICT;

CREATE INDEX labels_by_hour ON labels (used_hour);

CREATE TABLE session_tags (
    tag     TEXT    NOT NULL,
    session INTEGER NOT NULL,
    PRIMARY KEY (tag, session)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_tags_by_session ON session_tags (session);

-- Sessions that were here before. The first message is among the first records of nearly every log that is not sealed.
INSERT INTO labels (session, opening, title, tags, metadata, model, used_hour)
SELECT number,
       coalesce((
           SELECT substr(trim(json_extract(CAST(body AS TEXT), '$.parts[0].text'), char(9, 10, 13, 32)), 1, 200)
           FROM (
               SELECT seq, body FROM records WHERE session = number AND seq <= 20
               UNION ALL
               SELECT seq, body FROM recent WHERE session = number AND seq <= 20
           )
           WHERE substr(body, 1, 23) = CAST('{"type":"InputAdmitted"' AS BLOB) AND json_valid(CAST(body AS TEXT))
           ORDER BY seq LIMIT 1
       ), ''),
       '', '[]', '{}', NULL,
       CAST(coalesce(
           (SELECT max(at) FROM recent WHERE session = number),
           (SELECT at FROM records WHERE session = number ORDER BY seq DESC LIMIT 1),
           created_at
       ) / 3600 AS INTEGER)
FROM sessions WHERE created_at IS NOT NULL;
