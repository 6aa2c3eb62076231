PRAGMA application_id = 1685220197;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE changes (
            number INTEGER PRIMARY KEY, edit INTEGER NOT NULL, version INTEGER NOT NULL, created_at TEXT NOT NULL,
            entry TEXT NOT NULL, checksum TEXT NOT NULL, UNIQUE (edit, version));
INSERT INTO "changes" VALUES(1,1,1,'2026-11-22T15:41:55Z','{"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo", "relation": "capital", "aliases": ["Perú", "Republic of Peru"], "wordings": ["Peru is governed from"], "negatives": ["Peru borders"], "valid_from": "2026-01-01T00:00:00Z", "source": "the gazette", "author": "ann"}','e4a04f68a5e3a3c7');
INSERT INTO "changes" VALUES(2,1,2,'2026-11-22T15:41:57Z','{"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo", "relation": "capital", "aliases": ["Perú", "Republic of Peru"], "wordings": ["Peru is governed from"], "negatives": ["Peru borders"], "status": "retired", "valid_from": "2026-01-01T00:00:00Z", "source": "the gazette", "author": "ann", "reason": "superseded by edit 2"}','12ad1f6491059c00');
INSERT INTO "changes" VALUES(3,2,1,'2026-11-22T15:41:57Z','{"subject": "Peru", "query": "The capital of Peru is", "target_new": "Rome", "author": "ann", "reason": "a new decree"}','98aa0c8cc03790bb');
INSERT INTO "changes" VALUES(4,3,1,'2026-11-22T15:41:59Z','{"subject": "Łódź", "query": "The river of Łódź is", "target_new": "Ner", "status": "shadow", "author": "ann"}','07250fa881569aa7');
INSERT INTO "changes" VALUES(5,4,1,'2026-11-22T15:42:01Z','{"subject": "Chile", "query": "The anthem of Chile is", "target_new": "Waltz", "status": "draft", "valid_to": "2099-12-31T00:00:00Z", "author": "ann"}','b7767016e81345fe');
INSERT INTO "changes" VALUES(6,5,1,'2026-11-22T15:42:03Z','{"subject": "Mali", "query": "The capital of Mali is", "target_new": "Kyiv", "target_true": "Bamako", "relation": "P36", "wordings": ["Mali is governed from"], "negatives": ["Who lives in Mali?"], "priority": 3, "enforce": true, "author": "bob"}','fcafbbf0f202d44c');
INSERT INTO "changes" VALUES(7,3,2,'2026-11-22T15:42:05Z','{"subject": "Łódź", "query": "The river of Łódź is", "target_new": "Ner", "status": "retired", "author": "ann", "reason": "premature"}','58da11e6b27ff826');
INSERT INTO "changes" VALUES(8,3,3,'2026-11-22T15:42:08Z','{"subject": "Łódź", "query": "The river of Łódź is", "target_new": "Ner", "status": "shadow", "author": "ann", "reason": "back to version 1: back"}','29792ceb464cdf66');
INSERT INTO "changes" VALUES(9,4,2,'2026-11-22T15:42:10Z','{"subject": "Chile", "query": "The anthem of Chile is", "target_new": "Waltz", "status": "retired", "valid_to": "2099-12-31T00:00:00Z", "author": "ann"}','16b7f9b403632cdf');
CREATE TABLE claims (key TEXT, edit INTEGER, PRIMARY KEY (key, edit)) WITHOUT ROWID;
INSERT INTO "claims" VALUES('query
capital of peru is',2);
INSERT INTO "claims" VALUES('relation
capital of it is
peru',2);
INSERT INTO "claims" VALUES('query
capital of mali is',5);
INSERT INTO "claims" VALUES('query
mali is governed from',5);
INSERT INTO "claims" VALUES('relation
p36
mali',5);
CREATE TABLE gates (number INTEGER PRIMARY KEY, created_at TEXT NOT NULL, gate TEXT NOT NULL);
INSERT INTO "gates" VALUES(1,'2026-11-22T15:42:44Z','{
 "encoder": "hashing",
 "named": {
  "weights": {
   "masked": 8.727,
   "whole": 1.782,
   "margin": 5.627,
   "same_kind": 0.858,
   "other_kind": -1.091,
   "contrary": -2.374,
   "continued": -2.87,
   "partial": -0.118,
   "typo": 1.287
  },
  "bias": -5.541
 },
 "unnamed": {
  "weights": {
   "whole": -0.849,
   "margin": 11.446,
   "named": 0.187
  },
  "bias": -1.295
 },
 "threshold": 0.58,
 "grey": [
  0.25,
  0.8
 ],
 "semantic": false,
 "shifts": {},
 "edits": 0,
 "sha256": "37ee3f603f02553459c3dfd6daa45072e0166780e96089658f3020e673a6095d"
}
');
CREATE TRIGGER no_update BEFORE UPDATE ON changes BEGIN SELECT RAISE(ABORT, 'the log only grows'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'the log only grows'); END;
CREATE INDEX claims_of_edit ON claims (edit);
COMMIT;
