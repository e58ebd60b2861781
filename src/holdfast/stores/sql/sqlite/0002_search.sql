-- Searching: which words stand in which rows of a session. Nothing here is written when records are appended; a search
-- first brings the index of its session up to date. A store from before this layout is therefore indexed session by
-- session, when each is first searched, and all of this may be emptied at any time.

-- How far a session is indexed: the last record that was read for it, the one from which the next reading must begin
-- again (a call whose result is still to come), and how many rows there are.
CREATE TABLE search_marks (
    session INTEGER PRIMARY KEY,
    until   INTEGER NOT NULL,
    reread  INTEGER NOT NULL,
    rows    INTEGER NOT NULL
) STRICT;

-- The rows of a session by their place, with the record that each stands for and how many words it has.
CREATE TABLE search_rows (
    session      INTEGER NOT NULL,
    row          INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    -- The record with the call, for a tool step; 0: a message.
    call         INTEGER NOT NULL,
    called_words INTEGER NOT NULL,
    said_words   INTEGER NOT NULL,
    PRIMARY KEY (session, row)
) STRICT, WITHOUT ROWID;

-- The words. Each begins with the number of its session, so that a search reads nothing of other sessions. They are cut by
-- Holdfast and come here separated by spaces, which is all that this tokenizer has to see. Texts are not kept again: the
-- records have them.
CREATE VIRTUAL TABLE search_words USING fts5 (
    called, said,
    content = '', contentless_delete = 1,
    tokenize = "ascii tokenchars '|_./\:@~+#-$'"
);

-- The same the other way round: where a word stands.
CREATE VIRTUAL TABLE search_places USING fts5vocab (search_words, instance);
