INSERT INTO holdfast.quarantine (session, seq, at, crc32, body, why, since) VALUES (2000006, 12, 1800012006.0, 3674308912, convert_to('{"type":"AttemptStarted","turn":10,"attempt":1,"model":"gpt-deep","tokens_estimated":80}', 'UTF8'), convert_to('its checksum does not match', 'UTF8'), 1800200000.0);
DELETE FROM holdfast.records WHERE session = 2000006 AND seq = 12;
INSERT INTO holdfast.records VALUES (2000006, 12, 1800200000.0, 2433889419, convert_to('{"type":"DamageSetAside","why":"its checksum does not match","kept":"quarantine:1","until":12}', 'UTF8'));
