PRAGMA application_id = 1213156420;
PRAGMA user_version = 8;
CREATE TABLE sessions (
    number      INTEGER PRIMARY KEY,
    key         TEXT    NOT NULL UNIQUE,
    -- Inputs without an outcome.
    owed        INTEGER NOT NULL,
    -- When the first record came; NULL: none yet.
    created_at  REAL,
    -- The newest fence given out; it never goes back.
    fence       INTEGER NOT NULL,
    -- The holder of the lease, and the store instance it asked, whose file in the owners folder is locked while it
    -- lives. NULL: nobody.
    owner       TEXT,
    instance    TEXT,
    lease_until REAL    NOT NULL
) STRICT;
CREATE INDEX sessions_owing ON sessions (key) WHERE owed > 0;
CREATE TABLE records (
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      REAL    NOT NULL,
    -- Over session, seq, at and body.
    crc32   INTEGER NOT NULL,
    -- JSON, as `encode_record` wrote it.
    body    BLOB    NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT;
CREATE TABLE client_ids (
    session   INTEGER NOT NULL,
    client_id TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    -- SHA-256 of the record's body: tells the same message from another one.
    sha256    BLOB    NOT NULL,
    PRIMARY KEY (session, client_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots (
    session INTEGER PRIMARY KEY REFERENCES sessions (number),
    seq     INTEGER NOT NULL,
    crc32   INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;
CREATE TABLE search_marks (
    session INTEGER PRIMARY KEY,
    until   INTEGER NOT NULL,
    reread  INTEGER NOT NULL,
    rows    INTEGER NOT NULL
) STRICT;
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
CREATE VIRTUAL TABLE search_words USING fts5 (
    called, said,
    content = '', contentless_delete = 1,
    tokenize = "ascii tokenchars '|_./\:@~+#-$'"
);
CREATE VIRTUAL TABLE search_places USING fts5vocab (search_words, instance);
CREATE TABLE recent (
    place   INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      REAL    NOT NULL,
    crc32   INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;
CREATE TABLE segments (
    session INTEGER NOT NULL,
    first   INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    -- In the archive; it ends in the SHA-256 of the bytes there.
    name    TEXT    NOT NULL,
    sha256  TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (session, first)
) STRICT, WITHOUT ROWID;
CREATE TABLE quarantine (
    number   INTEGER PRIMARY KEY,
    session  INTEGER NOT NULL,
    -- Where the row said it stood, with its own time and checksum.
    seq      INTEGER NOT NULL,
    at       REAL    NOT NULL,
    crc32    INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    -- Why, and when it was set aside.
    why      TEXT    NOT NULL,
    since    REAL    NOT NULL
) STRICT;
CREATE INDEX quarantine_session ON quarantine (session);
CREATE TABLE blob_names (
    session INTEGER NOT NULL,
    sha256  TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (session, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_names_by_blob ON blob_names (sha256);
CREATE TABLE blobs_unknown (session INTEGER PRIMARY KEY) STRICT;
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
INSERT INTO sessions (number, key, owed, created_at, fence, owner, instance, lease_until) VALUES (1, 'telegram:42', 1, 1800001000.5, 2, NULL, NULL, 0.0);
INSERT INTO sessions (number, key, owed, created_at, fence, owner, instance, lease_until) VALUES (2, 'dropin:a-1', 1, 1800001000.5, 2, NULL, NULL, 0.0);
INSERT INTO sessions (number, key, owed, created_at, fence, owner, instance, lease_until) VALUES (3, 'holdfast:answers:0a', 0, 1800001000.5, 1, NULL, NULL, 0.0);
INSERT INTO sessions (number, key, owed, created_at, fence, owner, instance, lease_until) VALUES (4, 'frame:7', 0, 1800200000.0, 0, NULL, NULL, 0.0);
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 13, 1800013006.5, 1432900933, CAST('{"type":"AttemptStarted","turn":2,"attempt":2,"model":"test:deep","tokens_estimated":1602,"output_tokens_max":2048,"budgets":{"tokens":1602,"tokens_max":4096,"wire_bytes":50000,"wire_bytes_max":1000000,"media":2,"media_max":20},"tokens_raw":1500}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 14, 1800014007.0, 546076348, CAST('{"type":"AttemptFailed","turn":2,"attempt":2,"refusal":{"dialect":"openai-chat","phase":"response","status":429,"body":"{}"},"fault":{"kind":"rate_limit","confidence":"certain","retry_after_seconds":7.5,"said":"slow down"}}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 15, 1800015007.5, 215344091, CAST('{"type":"RungStarted","turn":2,"rung":"back_off","kind":"rate_limit","seconds":7.5}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 16, 1800016008.0, 3979155387, CAST('{"type":"RungFinished","turn":2,"rung":"back_off","result":"changed"}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 1, 1800001000.5, 1106662589, CAST('{"type":"InputAdmitted","parts":[{"type":"text","text":"What lies ahead?"}],"origin":0}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 2, 1800002001.0, 1658150849, CAST('{"type":"TurnStarted","turn":1}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 3, 1800003001.5, 3582236741, CAST('{"type":"AttemptStarted","turn":1,"attempt":1,"model":"gpt-deep","tokens_estimated":40}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 4, 1800004002.0, 1008616882, CAST('{"type":"ReplyRecorded","turn":1,"attempt":1,"reply":{"parts":[{"type":"text","text":""},{"type":"tool_call","call_id":"call_1","name":"look","arguments":"{}"}],"stop_reason":"tool_calls","usage":{"input_tokens":1000,"output_tokens":50,"cached_input_tokens":600,"reasoning_tokens":10},"model":"test:deep"},"origin":1}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 5, 1800005002.5, 2652305386, CAST('{"type":"ToolStarted","turn":1,"call_id":"call_1","name":"look","reply":4}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 6, 1800006003.0, 436410930, CAST('{"type":"ToolSettled","turn":1,"result":{"type":"tool_result","call_id":"call_1","parts":[{"type":"text","text":"A reef."}]},"origin":2}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 7, 1800007003.5, 4005704695, CAST('{"type":"AttemptStarted","turn":1,"attempt":2,"model":"gpt-deep","tokens_estimated":60}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 8, 1800008004.0, 1330284807, CAST('{"type":"ReplyRecorded","turn":1,"attempt":2,"reply":{"parts":[{"type":"text","text":"A reef lies ahead."}],"stop_reason":"end","usage":{"input_tokens":1000,"output_tokens":50,"cached_input_tokens":600,"reasoning_tokens":10},"model":"test:deep"},"origin":3}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 9, 1800009004.5, 1409090459, CAST('{"type":"TurnEnded","turn":1,"outcome":"answered"}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 10, 1800010005.0, 3655886449, CAST('{"type":"InputAdmitted","parts":[{"type":"text","text":"How far?"}],"client_id":"resp-2","origin":4}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 11, 1800011005.5, 3735821259, CAST('{"type":"TurnStarted","turn":10}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 12, 1800200000.0, 3383247726, CAST('{"type":"DamageSetAside","why":"its checksum does not match","kept":"quarantine:1","until":12}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 13, 1800200000.0, 2239432790, CAST('{"type":"NoticePosted","turn":1,"code":"test","sentence":"One record was set aside."}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (3, 1, 1800001000.5, 3196883836, CAST('{"type":"AnswerLinked","answer":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","session":"dropin:a-1","family":"dropin:a-1","count":4,"instructions":"{\"role\":\"developer\",\"content\":\"Be brief.\"}"}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (3, 2, 1800002001.0, 3777337478, CAST('{"type":"AnswerLinked","answer":"0a0b0a0b0a0b0a0b0a0b0a0b0a0b0a0b","session":"dropin:a-1~2","family":"dropin:a-1","count":6,"instructions_of":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","is_held":false}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (4, 1, 1800200000.0, 1408043987, x'01830b53684e4846aa42466251527e6991426e6271496a9142716265b195c2a1dd25e5a93965a90a69892519f9b9c50a89250a39f9e50ae5c0845b7468b58e42625e8a420950774e6a628a4232307e144a0b149281bc3c3d05da980a0e75e4d006067b51a5ae2138b4d0023dad08946210c1851cbfa010c612b5381d1d13536a60909484273cc02a1293c80c142a990f499a00');
INSERT INTO records (session, seq, at, crc32, body) VALUES (4, 2, 1800200000.0, 631397654, x'01830be33407ee0bac86610d6870901b02d543833b273f3f1bc8430bf2f28cd422584865a42602b30e727818620981b42250f421dc0e0a4200');
INSERT INTO records (session, seq, at, crc32, body) VALUES (4, 3, 1800200000.0, 2400236335, x'023c00000056010000830b13f4775a1128ec903dcfc0c8c4ccc2cac6cec1c9c5cdc3cbc72f2028242c222a262e2129252d232b27afa0a8a4aca2aaa6aea1a9a5ada3aba76f6068646c626a666e6169656d636b67efe0e8e4ece2eae6eee1e9e5ede3ebe71f1018141c121a161e1119151d131b179f9098949c929a969e9199959d939b975f5058545c525a565e5159555d535b57dfd0d8d4dcd2dad6ded1d9d5ddd3dbd73f61e2a4c953a64e9b3e63e6acd973e6ce9bbf60e1a2c54b962e5bbe62e5aad56bd6ae5bbf61e3a6cd5bb66edbbe63e7aedd7bf6eedb7fe0e0a1c3478e1e3b7ee2e4a9d367ce9e3b7fe1e2a5cb57ae5ebb7ee3e6addb77eedebbffe0e1a3c74f9e3e7bfee2e5abd76fdebe7bffe1e3a7cf5fbe7efbfee3e7afdf7ffefefb1f9291aa90915894945f5aa4909b585c925aa4509c58596ca570687749796a4e59aa425a6249467e6eb1426289424e7eb9423930b3161d5aada3909897a25002d49d939a98a2900c0c5785d2028564202f4f4f013d4901d34451a5ae91522d00');
INSERT INTO recent (place, session, seq, at, crc32, body) VALUES (17, 1, 17, 1800017008.5, 4059406507, CAST('{"type":"AttemptStarted","turn":2,"attempt":3,"model":"test:deep"}' AS BLOB));
INSERT INTO recent (place, session, seq, at, crc32, body) VALUES (18, 1, 18, 1800018009.0, 4124285249, CAST('{"type":"AttemptAbandoned","turn":2,"attempt":3,"reason":"interrupted"}' AS BLOB));
INSERT INTO recent (place, session, seq, at, crc32, body) VALUES (19, 1, 19, 1800019009.5, 1294651585, CAST('{"type":"AttemptStarted","turn":2,"attempt":4,"model":"test:deep","tokens_estimated":1700,"output_tokens_max":2048,"budgets":{"tokens":1700,"tokens_max":4096},"tokens_raw":1650}' AS BLOB));
INSERT INTO recent (place, session, seq, at, crc32, body) VALUES (20, 1, 20, 1800020010.0, 236169853, CAST('{"type":"ReplyRecorded","turn":2,"attempt":4,"reply":{"parts":[{"type":"reasoning","text":"One is known.","issuer":"issuer of test:deep","opaque":"c2ln"},{"type":"text","text":"Four fathoms at the pier."}],"stop_reason":"end","usage":{"input_tokens":1000,"output_tokens":50,"cached_input_tokens":600,"reasoning_tokens":10},"model":"test:deep"},"cost_usd":0.0015}' AS BLOB));
INSERT INTO recent (place, session, seq, at, crc32, body) VALUES (21, 1, 21, 1800021010.5, 615150976, CAST('{"type":"TurnEnded","turn":2,"outcome":"answered","cost_usd":0.0035}' AS BLOB));
INSERT INTO recent (place, session, seq, at, crc32, body) VALUES (22, 1, 22, 1800022011.0, 84003599, CAST('{"type":"WindowWarned","turn":2,"percent":70,"sentence":"The window is 72 % full."}' AS BLOB));
INSERT INTO recent (place, session, seq, at, crc32, body) VALUES (37, 1, 23, 1800200000.0, 3790221739, CAST('{"type":"SegmentSealed","first":1,"last":12,"name":"65d845547d3df3f13741413da574f3a2/000000000001-000000000012-3612e48e8bb9a9d7a5584a772ee7f6ef3f3cd44a0c198a4269134ae5c34bb38a","sha256":"3612e48e8bb9a9d7a5584a772ee7f6ef3f3cd44a0c198a4269134ae5c34bb38a","size":1188}' AS BLOB));
INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (1, 'm-1', 2, x'aeb804d158d3e3c45ee8eb7f47ac8fb4cf0c2a18241cf034832944bb7f171eea');
INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (1, 'm-2', 8, x'0606be66d8c6b5578b598c2159bd083bdc02720d47c74acf5eee21dbcbd19529');
INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (2, 'resp-2', 10, x'de565ebd5e34de9af23ebf256d9a46f1350161983995a9fb0e8e85a006a440df');
INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (4, 'entry-1', 1, x'84eb112dd679b522aee32bf74ab7d1c2911ba6cae0425f20d670ed7471af1cd5');
INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (4, 'entry-2', 3, x'3b40d758d8dcdce6d71c3d96bb3dbac00b6235943fd99440643fc83326379f99');
INSERT INTO snapshots (session, seq, crc32, body) VALUES (1, 20, 818302180, CAST('{"version":9,"turn":{"seq":20,"in_flight":"ready","waiting":[8],"model":"test:deep","system":"Be brief.","tools":[{"name":"ask_crew","description":"Ask the crew.","parameters":"{\"type\":\"object\"}"}],"opening":"How deep is the harbour?","last_turn":2,"budgets":{"tokens":1700,"tokens_max":4096},"spent":{"calls":2,"input_tokens":2000,"cached_input_tokens":1200,"output_tokens":100,"usd":0.0035},"asked":{"model":"test:deep","tokens":1700,"raw":1650},"answered":{"model":"test:deep","tokens":1700,"raw":1650,"reported":1000},"number":2,"attempts":4,"steps":2,"has_answer":true,"output_asked":2048,"spent_on_turn":{"calls":2,"input_tokens":2000,"cached_input_tokens":1200,"output_tokens":100,"usd":0.0035}},"kept":[]}' AS BLOB));
INSERT INTO search_marks (session, until, reread, rows) VALUES (1, 22, 23, 6);
INSERT INTO search_rows (session, row, seq, call, called_words, said_words) VALUES (1, 0, 2, 0, 0, 16);
INSERT INTO search_rows (session, row, seq, call, called_words, said_words) VALUES (1, 1, 5, 0, 0, 4);
INSERT INTO search_rows (session, row, seq, call, called_words, said_words) VALUES (1, 2, 8, 0, 0, 6);
INSERT INTO search_rows (session, row, seq, call, called_words, said_words) VALUES (1, 3, 9, 5, 2, 32);
INSERT INTO search_rows (session, row, seq, call, called_words, said_words) VALUES (1, 4, 12, 5, 2, 4);
INSERT INTO search_rows (session, row, seq, call, called_words, said_words) VALUES (1, 5, 20, 0, 0, 8);
INSERT INTO segments (session, first, last, name, sha256, size) VALUES (1, 1, 12, '65d845547d3df3f13741413da574f3a2/000000000001-000000000012-3612e48e8bb9a9d7a5584a772ee7f6ef3f3cd44a0c198a4269134ae5c34bb38a', '3612e48e8bb9a9d7a5584a772ee7f6ef3f3cd44a0c198a4269134ae5c34bb38a', 1188);
INSERT INTO quarantine (number, session, seq, at, crc32, body, why, since) VALUES (1, 2, 12, 1800012006.0, 693340163, CAST('{"type":"AttemptStarted","turn":10,"attempt":1,"model":"gpt-deep","tokens_estimated":80}' AS BLOB), 'its checksum does not match', 1800200000.0);
INSERT INTO blob_names (session, sha256, size) VALUES (1, '08ab7ff9919e95bb7b16356e17db21faf3201fe517e3271cad2d0fc9c3ad4579', 68);
INSERT INTO blob_names (session, sha256, size) VALUES (1, '30eeec92315b9e5246577ed144907a697d331b9183df3c991de9ebd33fa9798b', 1208);
INSERT INTO labels (session, opening, title, tags, metadata, model, used_hour) VALUES (1, 'How deep is the harbour?', '', '[]', '{}', 'test:deep', 500055);
INSERT INTO labels (session, opening, title, tags, metadata, model, used_hour) VALUES (2, 'What lies ahead?', '', '[]', '{}', NULL, 500003);
INSERT INTO labels (session, opening, title, tags, metadata, model, used_hour) VALUES (3, '', '', '[]', '{}', NULL, 500000);
INSERT INTO labels (session, opening, title, tags, metadata, model, used_hour) VALUES (4, 'The harbour master says: »twelve fathoms at low water«, and the lead came up clean. The harbour master says: »twelve fathoms at low water«, and the lead came up clean.', '', '[]', '{}', NULL, 500055);
DELETE FROM search_words_data;
INSERT INTO search_words_data (id, block) VALUES (1, x'060446');
INSERT INTO search_words_data (id, block) VALUES (10, x'00000000ff00000101010100010101010101000006');
INSERT INTO search_words_data (id, block) VALUES (137438953473, x'0000022b0530317c303190808080000601010b03013490808080000601010c0303616e649080808002060101020401749080808005060101070305636861727490808080000601011008042e706e6790808080000601010f0304646565709080808000060101030306666174686f6d90808080000601010d031401010a03030303030303020601010604036f75729080808003140101020303030303030302060101050307686172626f757290808080000601010604026f779080808000060101020301699080808001060101040401739080808000060101040406010104010601010303056b6e6f776e90808080050601010403046c65616490808080040601010304036f6f6b9080808001060101050502737490808080040601010503036d6f6c9080808004020303026f669080808003140101120303030303030304026e6590808080050601010203047069657290808080030203020601010904036c616390808080010601010304026e679080808000060101110206010107030473616e6490808080000601010e04046f756e6490808080000601010a0302020102020803696e679080808000060101080b05732e747874908080800006010107030374686590808080000601010502060101030206010102010601010804026964908080800208010104030605652e706e679080808002060101060402776f908080800106010102040278749080808000060101090305776174657290808080031401011a03030303030303040f0c0e0c100f0f221a120d0c16100f0e0d0c140d120e120f150e101d0e100d0d');
DELETE FROM search_words_idx;
INSERT INTO search_words_idx (segid, term, pgno) VALUES (1, x'', 2);
DELETE FROM search_words_docsize;
INSERT INTO search_words_docsize (id, sz, origin) VALUES (4294967296, x'0010', 1);
INSERT INTO search_words_docsize (id, sz, origin) VALUES (4294967297, x'0004', 1);
INSERT INTO search_words_docsize (id, sz, origin) VALUES (4294967298, x'0006', 1);
INSERT INTO search_words_docsize (id, sz, origin) VALUES (4294967299, x'0220', 1);
INSERT INTO search_words_docsize (id, sz, origin) VALUES (4294967300, x'0204', 1);
INSERT INTO search_words_docsize (id, sz, origin) VALUES (4294967301, x'0008', 1);
DELETE FROM search_words_config;
INSERT INTO search_words_config (k, v) VALUES ('version', 4);
