CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: the number of the last event.
CREATE TABLE head (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seq INTEGER NOT NULL
) STRICT;
INSERT INTO head (one, seq) VALUES (1, 0);

CREATE TABLE event (
  seq      INTEGER PRIMARY KEY,
  at       INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  batch_id TEXT NOT NULL,
  body     TEXT NOT NULL
) STRICT;

CREATE TABLE snapshot (
  seq  INTEGER PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;

-- Leases and waits that ended, and the statements that Helpers signed.
CREATE TABLE archive (
  kind TEXT NOT NULL,
  id   TEXT NOT NULL,
  at   INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) STRICT;
CREATE INDEX archive_by_age ON archive (at);

CREATE TABLE idempotency (
  n         INTEGER PRIMARY KEY,
  principal TEXT NOT NULL,
  key       TEXT NOT NULL,
  args_hash TEXT NOT NULL,
  reply     TEXT NOT NULL,
  at        INTEGER NOT NULL,
  UNIQUE (principal, key)
) STRICT;
CREATE INDEX idempotency_by_age ON idempotency (principal, n);
