-- The schema of a store in SQLite, by steps from each version to the next: statements between blank lines.

-- to version 1
CREATE TABLE changes (
            number INTEGER PRIMARY KEY, edit INTEGER NOT NULL, version INTEGER NOT NULL, created_at TEXT NOT NULL,
            entry TEXT NOT NULL, checksum TEXT NOT NULL, UNIQUE (edit, version))

CREATE TRIGGER no_update BEFORE UPDATE ON changes BEGIN SELECT RAISE(ABORT, 'the log only grows'); END

CREATE TRIGGER no_delete BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'the log only grows'); END

-- The questions that active edits answer; follows from the changes.
CREATE TABLE claims (key TEXT, edit INTEGER, PRIMARY KEY (key, edit)) WITHOUT ROWID

CREATE INDEX claims_of_edit ON claims (edit)

-- to version 2
CREATE TABLE gates (number INTEGER PRIMARY KEY, created_at TEXT NOT NULL, gate TEXT NOT NULL)

-- to version 3
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID

INSERT INTO settings VALUES ('head', coalesce(
    (SELECT number || ' ' || checksum FROM changes ORDER BY number DESC LIMIT 1), '')), ('claims', '')

-- to version 4
-- Nothing changes, but earlier drikes would take a proposed version for the edit.
