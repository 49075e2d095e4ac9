package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// SchemaVersion is the version of the table that this package needs. It is
// recorded in the table's comment. Later versions only add to the table, so that
// two versions of this package can work on it during a deploy.
const SchemaVersion = 1

// comment is the text that records the schema's version on the table.
const comment = "idem schema "

// Schema returns the SQL that Migrate runs, for use with a migration tool. It can
// be run again without harm.
func Schema(opts ...Option) (string, error) {
	cfg, err := configure(opts)
	if err != nil {
		return "", err
	}
	return cfg.table.create(true), nil
}

// migrationLock is the key of the advisory lock that migrations take, in every
// database the same: "idem" and the version of the procedure.
const migrationLock = 0x6964656d_00000001

// Migrate creates the table, and its schema if it does not exist, or brings an
// older one up to date. It changes nothing, and needs no right to, where the table
// is up to date. Any number of processes may call it at once. It uses no session
// state and works through a transaction pooler.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opts ...Option) error {
	const op = "migrate"
	if pool == nil {
		return invalid(op, "the pool is nil")
	}
	cfg, err := configure(opts)
	if err != nil {
		return err
	}
	if v, err := schemaVersion(ctx, pool, cfg.table); err != nil || v >= SchemaVersion {
		return readError(ctx, op, err)
	}
	// A level of its own: at repeatable read the snapshot would be from before the
	// wait for the lock.
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1::bigint)`, int64(migrationLock)); err != nil {
			return err
		}
		if v, err := schemaVersion(ctx, tx, cfg.table); err != nil || v >= SchemaVersion {
			return err
		}
		// CREATE SCHEMA IF NOT EXISTS asks for the right to create one also where it
		// exists.
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)`, cfg.table.schema).Scan(&exists); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, cfg.table.create(!exists))
		return err
	})
	return writeError(ctx, op, err)
}

type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// schemaVersion is 0 where there is no table, or one without the comment.
func schemaVersion(ctx context.Context, q rowQuerier, t table) (int, error) {
	var text string
	err := q.QueryRow(ctx, `SELECT coalesce(obj_description(to_regclass($1::text), 'pg_class'), '')`, t.String()).Scan(&text)
	if err != nil {
		return 0, err
	}
	return parseVersion(text), nil
}

func parseVersion(text string) int {
	var v int
	if _, err := fmt.Sscanf(text, comment+"%d", &v); err != nil {
		return 0
	}
	return v
}

// index names the index on expires_at.
func (t table) index() string {
	const suffix = "_expires_at"
	name := t.name
	if len(name)+len(suffix) > maxIdentifier {
		sum := fmt.Sprintf("_%x", sha256.Sum256([]byte(name)))[:9]
		cut := maxIdentifier - len(suffix) - len(sum)
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + sum
	}
	return pgx.Identifier{name + suffix}.Sanitize()
}

// create is the SQL that makes the schema, if asked to, and the table.
func (t table) create(schema bool) string {
	sql := fmt.Sprintf(ddl, t, t.index(), comment, SchemaVersion)
	if schema && t.schema != "" {
		sql = "CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{t.schema}.Sanitize() + ";\n\n" + sql
	}
	return sql
}

// The only index besides the key's is on expires_at, which is fixed when the key is
// claimed: an index on anything that changes, also a partial one, would cost every
// update its place on the same page (HOT). The fillfactor leaves room there for
// the response: with up to 40 claims at once and bodies of 300 bytes 96 % of the
// completions stay on their page, against 81 % at 100, for a third more heap. Names are compared byte by byte, hence
// the collation.
const ddl = `CREATE TABLE IF NOT EXISTS %[1]s (
  tenant              text COLLATE "C" NOT NULL,
  actor               text COLLATE "C" NOT NULL,
  key                 text COLLATE "C" NOT NULL,
  operation           text COLLATE "C" NOT NULL,
  method              text COLLATE "C" NOT NULL,
  path                text COLLATE "C" NOT NULL,
  fingerprint         bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
  fingerprint_version text COLLATE "C" NOT NULL,
  status              text COLLATE "C" NOT NULL CHECK (status IN ('started', 'completed')),
  recovery_point      text COLLATE "C" NOT NULL DEFAULT '',
  state               bytea,
  payload             bytea,
  claim_id            uuid,
  token               bigint NOT NULL,
  sequence            bigint NOT NULL DEFAULT 0,
  attempt             integer NOT NULL DEFAULT 1,
  lease_us            bigint NOT NULL,
  retention_us        bigint NOT NULL,
  abandon_us          bigint NOT NULL,
  locked_until        timestamptz,
  tombstone           text COLLATE "C" NOT NULL DEFAULT '',
  response_status     integer,
  response_header     bytea,
  response_body       bytea,
  created_at          timestamptz NOT NULL,
  updated_at          timestamptz NOT NULL,
  completed_at        timestamptz,
  expires_at          timestamptz,
  PRIMARY KEY (tenant, actor, key)
) WITH (fillfactor = 85);

CREATE INDEX IF NOT EXISTS %[2]s ON %[1]s (expires_at);

COMMENT ON TABLE %[1]s IS '%[3]s%[4]d';
`
