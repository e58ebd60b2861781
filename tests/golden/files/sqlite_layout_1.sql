PRAGMA application_id = 1213156420;
PRAGMA user_version = 1;
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
CREATE TABLE recent (
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    at      REAL    NOT NULL,
    crc32   INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT;
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
INSERT INTO sessions (number, key, owed, created_at, fence, owner, instance, lease_until) VALUES (1, 'telegram:42', 1, 1800001000.5, 1, NULL, NULL, 0.0);
INSERT INTO sessions (number, key, owed, created_at, fence, owner, instance, lease_until) VALUES (2, 'dropin:a-1', 1, 1800001000.5, 1, NULL, NULL, 0.0);
INSERT INTO sessions (number, key, owed, created_at, fence, owner, instance, lease_until) VALUES (3, 'holdfast:answers:0a', 0, 1800001000.5, 1, NULL, NULL, 0.0);
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 1, 1800001000.5, 1581449445, CAST('{"type":"SessionConfigured","model":"test:deep","system":"Be brief.","tools":[{"name":"ask_crew","description":"Ask the crew.","parameters":"{\"type\":\"object\"}"}]}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 2, 1800002001.0, 3728335353, CAST('{"type":"InputAdmitted","parts":[{"type":"text","text":"How deep is the harbour?"},{"type":"large_text","blob":{"sha256":"30eeec92315b9e5246577ed144907a697d331b9183df3c991de9ebd33fa9798b","size_bytes":1208},"head":"Sounding 01: 4 fathoms, sand.","name":"soundings.txt"},{"type":"media","blob":{"sha256":"08ab7ff9919e95bb7b16356e17db21faf3201fe517e3271cad2d0fc9c3ad4579","size_bytes":68},"media_type":"image/png","name":"chart.png","width_pixels":2,"height_pixels":1}],"client_id":"m-1"}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 3, 1800003001.5, 756154620, CAST('{"type":"TurnStarted","turn":2}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 4, 1800004002.0, 723795624, CAST('{"type":"AttemptStarted","turn":2,"attempt":1,"model":"test:deep","tokens_estimated":1500,"output_tokens_max":2048,"budgets":{"tokens":1500,"tokens_max":4096,"wire_bytes":40000,"wire_bytes_max":1000000,"media":1,"media_max":20},"tokens_raw":1400}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 5, 1800005002.5, 1582334228, CAST('{"type":"ReplyRecorded","turn":2,"attempt":1,"reply":{"parts":[{"type":"reasoning","text":"Two places.","issuer":"issuer of test:deep","opaque":"c2ln"},{"type":"text","text":"I look."},{"type":"tool_call","call_id":"c-1","name":"sound","arguments":"{\"at\":\"pier\"}"},{"type":"tool_call","call_id":"c-2","name":"sound","arguments":"{\"at\":\"mole\"}"}],"stop_reason":"tool_calls","usage":{"input_tokens":1000,"output_tokens":50,"cached_input_tokens":600,"reasoning_tokens":10},"model":"test:deep"},"cost_usd":0.002}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 6, 1800006003.0, 3029233683, CAST('{"type":"ToolStarted","turn":2,"call_id":"c-1","name":"sound"}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 7, 1800007003.5, 228480124, CAST('{"type":"ToolStarted","turn":2,"call_id":"c-2","name":"sound","is_idempotent":true}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 8, 1800008004.0, 1856287298, CAST('{"type":"InputAdmitted","parts":[{"type":"text","text":"And the tide?"},{"type":"media","blob":{"sha256":"08ab7ff9919e95bb7b16356e17db21faf3201fe517e3271cad2d0fc9c3ad4579","size_bytes":68},"media_type":"image/png","name":"tide.png","width_pixels":2,"height_pixels":1}],"client_id":"m-2"}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 9, 1800009004.5, 329739294, CAST('{"type":"ToolSettled","turn":2,"result":{"type":"tool_result","call_id":"c-1","parts":[{"type":"text","text":"four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; four fathoms of water; "}],"originals":[{"sha256":"30eeec92315b9e5246577ed144907a697d331b9183df3c991de9ebd33fa9798b","size_bytes":1208}]}}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 10, 1800010005.0, 1007945103, CAST('{"type":"ToolInterrupted","turn":2,"call_id":"c-2"}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 11, 1800011005.5, 3812490620, CAST('{"type":"ToolStarted","turn":2,"call_id":"c-2","name":"sound","is_idempotent":true}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (1, 12, 1800012006.0, 2441413133, CAST('{"type":"ToolSettled","turn":2,"result":{"type":"tool_result","call_id":"c-2","parts":[{"type":"text","text":"the lead is lost"}],"outcome":"failed"}}' AS BLOB));
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
INSERT INTO records (session, seq, at, crc32, body) VALUES (2, 12, 1800012006.0, 693340163, CAST('{"type":"AttemptStarted","turn":10,"attempt":1,"model":"gpt-deep","tokens_estimated":80}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (3, 1, 1800001000.5, 3196883836, CAST('{"type":"AnswerLinked","answer":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","session":"dropin:a-1","family":"dropin:a-1","count":4,"instructions":"{\"role\":\"developer\",\"content\":\"Be brief.\"}"}' AS BLOB));
INSERT INTO records (session, seq, at, crc32, body) VALUES (3, 2, 1800002001.0, 3777337478, CAST('{"type":"AnswerLinked","answer":"0a0b0a0b0a0b0a0b0a0b0a0b0a0b0a0b","session":"dropin:a-1~2","family":"dropin:a-1","count":6,"instructions_of":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","is_held":false}' AS BLOB));
INSERT INTO recent (session, seq, at, crc32, body) VALUES (1, 17, 1800017008.5, 4059406507, CAST('{"type":"AttemptStarted","turn":2,"attempt":3,"model":"test:deep"}' AS BLOB));
INSERT INTO recent (session, seq, at, crc32, body) VALUES (1, 18, 1800018009.0, 4124285249, CAST('{"type":"AttemptAbandoned","turn":2,"attempt":3,"reason":"interrupted"}' AS BLOB));
INSERT INTO recent (session, seq, at, crc32, body) VALUES (1, 19, 1800019009.5, 1294651585, CAST('{"type":"AttemptStarted","turn":2,"attempt":4,"model":"test:deep","tokens_estimated":1700,"output_tokens_max":2048,"budgets":{"tokens":1700,"tokens_max":4096},"tokens_raw":1650}' AS BLOB));
INSERT INTO recent (session, seq, at, crc32, body) VALUES (1, 20, 1800020010.0, 236169853, CAST('{"type":"ReplyRecorded","turn":2,"attempt":4,"reply":{"parts":[{"type":"reasoning","text":"One is known.","issuer":"issuer of test:deep","opaque":"c2ln"},{"type":"text","text":"Four fathoms at the pier."}],"stop_reason":"end","usage":{"input_tokens":1000,"output_tokens":50,"cached_input_tokens":600,"reasoning_tokens":10},"model":"test:deep"},"cost_usd":0.0015}' AS BLOB));
INSERT INTO recent (session, seq, at, crc32, body) VALUES (1, 21, 1800021010.5, 615150976, CAST('{"type":"TurnEnded","turn":2,"outcome":"answered","cost_usd":0.0035}' AS BLOB));
INSERT INTO recent (session, seq, at, crc32, body) VALUES (1, 22, 1800022011.0, 84003599, CAST('{"type":"WindowWarned","turn":2,"percent":70,"sentence":"The window is 72 % full."}' AS BLOB));
INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (1, 'm-1', 2, x'aeb804d158d3e3c45ee8eb7f47ac8fb4cf0c2a18241cf034832944bb7f171eea');
INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (1, 'm-2', 8, x'0606be66d8c6b5578b598c2159bd083bdc02720d47c74acf5eee21dbcbd19529');
INSERT INTO client_ids (session, client_id, seq, sha256) VALUES (2, 'resp-2', 10, x'de565ebd5e34de9af23ebf256d9a46f1350161983995a9fb0e8e85a006a440df');
INSERT INTO snapshots (session, seq, crc32, body) VALUES (1, 20, 2166200279, CAST('{"version":4,"turn":{"seq":20,"in_flight":"ready","waiting":[8],"model":"test:deep","system":"Be brief.","tools":[{"name":"ask_crew","description":"Ask the crew.","parameters":"{\"type\":\"object\"}"}],"last_turn":2,"budgets":{"tokens":1700,"tokens_max":4096},"spent":{"calls":2,"input_tokens":2000,"cached_input_tokens":1200,"output_tokens":100,"usd":0.0035},"asked":{"model":"test:deep","tokens":1700,"raw":1650},"answered":{"model":"test:deep","tokens":1700,"raw":1650,"reported":1000},"number":2,"attempts":4,"steps":2,"has_answer":true,"output_asked":2048,"spent_on_turn":{"calls":2,"input_tokens":2000,"cached_input_tokens":1200,"output_tokens":100,"usd":0.0035}}}' AS BLOB));
