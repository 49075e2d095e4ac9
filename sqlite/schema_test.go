package sqlite_test

import (
	"database/sql"
	_ "embed"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

// schema1 is the SQL of version 1.
//
//go:embed testdata/schema1.sql
var schema1 string

// oldColumns are those that version 1 writes.
const oldColumns = `tenant, actor, key, operation, method, path, fingerprint, fingerprint_version, status, recovery_point, locked_until,
	claim_id, token, sequence, attempt, lease, retention, abandon, created_at, updated_at, completed_at, expires_at,
	tombstone, response_status, response_header, response_body, state, payload`

// oldFile has a table of version 1 with a completed record.
func oldFile(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	run(t, db, schema1)
	oldRecord(t, db, "old")
	return db
}

// oldRecord writes what version 1 does.
func oldRecord(t *testing.T, db *sql.DB, key string) {
	t.Helper()
	c, now := claimOf(key), time.Now().UnixMicro()
	_, err := db.ExecContext(t.Context(), "INSERT INTO idem_keys ("+oldColumns+") VALUES (?"+strings.Repeat(", ?", 27)+")",
		c.Key.Tenant, c.Key.Actor, c.Key.Value, c.Operation, c.Target.Method, c.Target.Path, c.Fingerprints[0].Sum[:], "1",
		"completed", "", nil, c.ID[:], now, 1, 1,
		c.Lease.Microseconds(), c.Retention.Microseconds(), c.Abandon.Microseconds(),
		now, now, now, now+c.Retention.Microseconds(), "", 201, []byte("header"), []byte("body"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// A table of version 1 is found out, and refused with what to do, until it is migrated.
// Its records are then as they were, and old programs go on with it.
func TestMigrateVersion1(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	db := oldFile(t, path)
	b := newBackend(t, db)
	run(t, db, sqlite.Schema()) // which can't
	d, err := b.Describe(t.Context())
	if err != nil || d.Schema != 1 || len(d.Findings) != 1 || d.Findings[0].ID != "sqlite/schema" || d.Findings[0].Severity != backend.Unsafe {
		t.Errorf("Describe of version 1 = %+v, %v, want the finding sqlite/schema", d, err)
	}
	if _, err := b.Claim(t.Context(), claimOf("key")); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "sqlite.Migrate") {
		t.Errorf("Claim on version 1 = %v, want ErrUnavailable that says sqlite.Migrate", err)
	}
	for range 2 {
		if err := sqlite.Migrate(t.Context(), db); err != nil {
			t.Fatalf("Migrate = %v", err)
		}
	}
	if d, err := b.Describe(t.Context()); err != nil || d.Schema != 2 || len(d.Findings) != 0 {
		t.Errorf("Describe after Migrate = %+v, %v, want version 2 and no findings", d, err)
	}
	oldRecord(t, db, "late") // a deploy rolls
	for _, key := range []string{"old", "late"} {
		got, err := b.Claim(t.Context(), claimOf(key))
		if err != nil || got.Acquired || string(got.Record.Response.Body) != "body" || got.Record.Remember != 0 {
			t.Errorf("Claim of a record of version 1 = %+v, %v, want its answer, remembered for 0", got, err)
		}
	}
	c := claimOf("new")
	c.Remember = time.Nanosecond // rounded up, as all durations are
	if r := mustClaim(t, b, c); r.Remember != time.Microsecond {
		t.Errorf("Claim(remember 1ns) = %v, want 1µs", r.Remember)
	}
	if r, err := b.Get(t.Context(), c.Key); err != nil || r.Remember != time.Microsecond {
		t.Errorf("Get = %v, %v, want remember 1µs", r.Remember, err)
	}
}

// Who keeps the schema with a tool of their own.
func TestSchemaByHand(t *testing.T) {
	t.Parallel()
	db := oldFile(t, filepath.Join(t.TempDir(), "a.db"))
	run(t, db, "ALTER TABLE idem_keys ADD COLUMN remember INTEGER NOT NULL DEFAULT 0")
	run(t, db, sqlite.Schema())
	if d, err := newBackend(t, db).Describe(t.Context()); err != nil || d.Schema != sqlite.Version || len(d.Findings) != 0 {
		t.Errorf("Describe = %+v, %v, want version %d and no findings", d, err, sqlite.Version)
	}
}
