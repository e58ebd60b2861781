-- Searching: which words stand in which rows of a session. Nothing here is written when records are appended; a search
-- first brings the index of its session up to date, slice by slice. All of this may be emptied at any time.

-- How far a session is indexed: the last record that was read for it, the one from which the next reading must begin
-- again (a call whose result is still to come), and how many rows there are.
CREATE TABLE holdfast.search_marks (
    session bigint  PRIMARY KEY,
    until   bigint  NOT NULL,
    reread  bigint  NOT NULL,
    rows    integer NOT NULL
);

-- The rows of a session by their place, with the record that each stands for and how many words it has.
CREATE TABLE holdfast.search_rows (
    session      bigint  NOT NULL,
    row          integer NOT NULL,
    seq          bigint  NOT NULL,
    -- The record with the call, for a tool step; 0: a message.
    call         bigint  NOT NULL,
    called_words integer NOT NULL,
    said_words   integer NOT NULL,
    PRIMARY KEY (session, row)
);

-- Where a word stands: one row for each slice of records that has it. The words are cut by Holdfast.
CREATE TABLE holdfast.search_words (
    session   bigint NOT NULL,
    word      text   COLLATE "C" NOT NULL,
    first_row integer NOT NULL,
    -- Three numbers each: row, times in the call, times in what was said.
    places    integer[] NOT NULL,
    PRIMARY KEY (session, word, first_row)
);

UPDATE holdfast.layout SET version = 2;
