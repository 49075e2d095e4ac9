package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// Version of the schema that this package writes. Later ones only add to it, so
// that two versions of the library work on one table while a deploy rolls.
const Version = 2

// The PRAGMA user_version belongs to the file's owner; the version of this
// table's schema has a table of its own. Beside it is the highest token of a
// record that was deleted, so that tokens grow whatever the clock does. A table of an
// older version is left as it is, and says so.
const schema = `CREATE TABLE IF NOT EXISTS {table} (
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
	remember            INTEGER NOT NULL DEFAULT 0,
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

CREATE INDEX IF NOT EXISTS {index} ON {table} (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS {started} ON {table} (tenant, actor, key) WHERE status = 'started';

CREATE TABLE IF NOT EXISTS {meta} (
	one         INTEGER PRIMARY KEY CHECK (one = 1),
	version     INTEGER NOT NULL,
	token_floor INTEGER NOT NULL
) STRICT;

INSERT INTO {meta} (one, version, token_floor)
	SELECT 1, CASE WHEN EXISTS (SELECT 1 FROM pragma_table_info({name}) WHERE name = 'remember') THEN {version} ELSE 1 END, 0 WHERE true
	ON CONFLICT (one) DO UPDATE SET version = max(version, excluded.version);
`

// upgrade makes version 2 of version 1.
const upgrade = `ALTER TABLE {table} ADD COLUMN remember INTEGER NOT NULL DEFAULT 0;
`

// Schema returns the SQL of a new table, for those who keep their schema
// with a tool of their own. It can be run any number of times. Of the options
// only WithTable matters.
//
// It makes nothing of a table of version 1, since SQLite adds a column or fails. [Migrate] does, and
// so does this, once, before the SQL of Schema:
//
//	ALTER TABLE idem_keys ADD COLUMN remember INTEGER NOT NULL DEFAULT 0
func Schema(opts ...Option) string {
	c, _ := configure("", opts) // quoted, a bad name does no harm; New and Migrate refuse it
	return fill(schema, c.table)
}

func fill(text, table string) string {
	return strings.NewReplacer(
		"{table}", quote(table),
		"{index}", quote(table+"_expires_at"),
		"{started}", quote(table+"_started"),
		"{meta}", quote(metaOf(table)),
		"{name}", "'"+strings.ReplaceAll(table, "'", "''")+"'",
		"{version}", fmt.Sprint(Version),
	).Replace(text)
}

// Migrate creates the table or brings it up to date, in one transaction. Any
// number of processes may do so at once.
func Migrate(ctx context.Context, db *sql.DB, opts ...Option) error {
	const op = "sqlite: migrate"
	cfg, err := configure(op, opts)
	if err != nil {
		return err
	}
	if db == nil {
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "the pool is nil; make one with sqlite.Open"}
	}
	if err := backend.ContextDone(ctx, op); err != nil {
		return err
	}
	for start := time.Now(); ; {
		err := migrate(ctx, db, op, cfg.table)
		if !isBusy(err) || time.Since(start) > cfg.budget || !pause(ctx) {
			return err
		}
	}
}

func migrate(ctx context.Context, db *sql.DB, op, table string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return notApplied(op, err)
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return notApplied(op, err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, fill(schema, table)); err != nil {
		return notApplied(op, err)
	}
	v, err := schemaVersion(ctx, tx, table)
	if err == nil && v < Version {
		_, err = tx.ExecContext(ctx, fill(upgrade+schema, table))
	}
	if err != nil {
		return notApplied(op, err)
	}
	if err := tx.Commit(); err != nil {
		return commitError(op, err)
	}
	return nil
}

// schemaVersion returns 0 if the table isn't there.
func schemaVersion(ctx context.Context, q querier, table string) (int, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN (?, ?)", table, metaOf(table)).Scan(&n)
	if err != nil || n < 2 {
		return 0, err
	}
	var v int
	err = q.QueryRowContext(ctx, "SELECT version FROM "+quote(metaOf(table))).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return v, err
}

func metaOf(table string) string { return table + "_meta" }

// quote makes an identifier of any name.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func checkTable(name string) error {
	if name == "" || len(name) > 64 {
		return errors.New("the table's name must have 1 to 64 bytes")
	}
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return errors.New("the table's name must consist of letters, digits and underscores")
		}
	}
	if strings.HasPrefix(strings.ToLower(name), "sqlite_") {
		return errors.New("names that begin with sqlite_ are SQLite's own")
	}
	return nil
}
