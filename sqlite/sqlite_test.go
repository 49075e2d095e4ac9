package sqlite_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

func TestMain(m *testing.M) {
	if !playRole() {
		goleak.VerifyTestMain(page.After(m))
	}
}

// openFile returns a pool over a migrated file.
func openFile(t *testing.T, path string, opts ...sqlite.Option) *sql.DB {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := sqlite.Migrate(t.Context(), db, opts...); err != nil {
		t.Fatal(err)
	}
	return db
}

func newBackend(t *testing.T, db *sql.DB, opts ...sqlite.Option) *sqlite.Backend {
	t.Helper()
	b, err := sqlite.New(db, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fresh returns a backend over a file of its own.
func fresh(t *testing.T, opts ...sqlite.Option) (*sqlite.Backend, *sql.DB) {
	t.Helper()
	db := openFile(t, filepath.Join(t.TempDir(), "a.db"), opts...)
	return newBackend(t, db, opts...), db
}

func claimOf(key string) backend.Claim {
	c := backend.Claim{
		Key:       backend.Key{Tenant: "tenant", Actor: "actor", Value: key},
		Operation: "POST /payments", Target: backend.Target{Method: "POST", Path: "/payments?x=1"},
		Fingerprints: []backend.Fingerprint{{Version: "1", Sum: [32]byte{1, 2, 3}}},
		Lease:        time.Minute, Retention: time.Hour, Abandon: 24 * time.Hour,
	}
	rand.Read(c.ID[:])
	return c
}

func mustClaim(t *testing.T, b backend.Backend, c backend.Claim) backend.Record {
	t.Helper()
	got, err := b.Claim(t.Context(), c)
	if err != nil || !got.Acquired {
		t.Fatalf("Claim(%s) = acquired %v, %v, want acquired", c.Key.Value, got.Acquired, err)
	}
	return got.Record
}

func run(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *sql.DB, query string, args ...any) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(context.Background(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
