-- The schema of a store in PostgreSQL, by steps from each version to the next.

-- to version 1
CREATE TABLE drike_schema (version BIGINT NOT NULL);
INSERT INTO drike_schema VALUES (0);
CREATE TABLE drike_changes (
    number BIGINT PRIMARY KEY, edit BIGINT NOT NULL, version BIGINT NOT NULL, created_at TEXT NOT NULL,
    entry TEXT NOT NULL, checksum TEXT NOT NULL, UNIQUE (edit, version));
CREATE FUNCTION drike_refuse() RETURNS TRIGGER LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the log only grows'; END $$;
CREATE TRIGGER drike_log_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON drike_changes
    FOR EACH STATEMENT EXECUTE FUNCTION drike_refuse();
CREATE FUNCTION drike_tell() RETURNS TRIGGER LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify('drike', TG_TABLE_SCHEMA); RETURN NULL; END $$;
CREATE TRIGGER drike_tell AFTER INSERT ON drike_changes FOR EACH STATEMENT EXECUTE FUNCTION drike_tell();
-- Hashes of the questions that active edits answer; follow from the changes.
CREATE TABLE drike_claims (key BYTEA, edit BIGINT, PRIMARY KEY (key, edit));
CREATE INDEX drike_claims_of_edit ON drike_claims (edit);

-- to version 2
CREATE TABLE drike_gates (number BIGINT PRIMARY KEY, created_at TEXT NOT NULL, gate TEXT NOT NULL);

-- to version 3
CREATE TABLE drike_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO drike_settings VALUES ('head', coalesce(
    (SELECT number || ' ' || checksum FROM drike_changes ORDER BY number DESC LIMIT 1), '')), ('claims', '');

-- to version 4
-- Nothing changes, but earlier drikes would take a proposed version for the edit.
