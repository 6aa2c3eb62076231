-- The schema of a file with the inbox beside a store in SQLite, as in sqlite.sql. `Inbox` makes its own table.

-- to version 1
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
