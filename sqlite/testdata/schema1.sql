CREATE TABLE IF NOT EXISTS "idem_keys" (
	tenant              TEXT    NOT NULL,
	actor               TEXT    NOT NULL,
	key                 TEXT    NOT NULL,
	operation           TEXT    NOT NULL,
	method              TEXT    NOT NULL,
	path                TEXT    NOT NULL,
	fingerprint         BLOB    NOT NULL,
	fingerprint_version TEXT    NOT NULL,
	status              TEXT    NOT NULL CHECK (status IN ('started', 'completed')),
	recovery_point      TEXT    NOT NULL,
	locked_until        INTEGER,          -- all times: microseconds since 1970
	claim_id            BLOB    NOT NULL,
	token               INTEGER NOT NULL,
	sequence            INTEGER NOT NULL,
	attempt             INTEGER NOT NULL,
	lease               INTEGER NOT NULL, -- all durations: microseconds
	retention           INTEGER NOT NULL,
	abandon             INTEGER NOT NULL,
	created_at          INTEGER NOT NULL,
	updated_at          INTEGER NOT NULL,
	completed_at        INTEGER,
	expires_at          INTEGER,          -- when a sweep looks at the record
	tombstone           TEXT    NOT NULL,
	response_status     INTEGER NOT NULL,
	response_header     BLOB,
	response_body       BLOB,
	state               BLOB,
	payload             BLOB,
	PRIMARY KEY (tenant, actor, key)
) STRICT;

CREATE INDEX IF NOT EXISTS "idem_keys_expires_at" ON "idem_keys" (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS "idem_keys_started" ON "idem_keys" (tenant, actor, key) WHERE status = 'started';

CREATE TABLE IF NOT EXISTS "idem_keys_meta" (
	one         INTEGER PRIMARY KEY CHECK (one = 1),
	version     INTEGER NOT NULL,
	token_floor INTEGER NOT NULL
) STRICT;

INSERT INTO "idem_keys_meta" (one, version, token_floor) VALUES (1, 1, 0)
	ON CONFLICT (one) DO UPDATE SET version = max(version, excluded.version);
