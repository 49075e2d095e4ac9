package postgres_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

func TestMain(m *testing.M) {
	if !playRole() {
		testenv.Main(page.After(m))
	}
}

// open connects a pool that is closed when the test ends.
func open(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 8
	cfg.PingTimeout = time.Second
	for _, f := range change {
		f(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// size bounds a pool.
func size(n int32) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.MaxConns = n }
}

func newBackend(t testing.TB, pool *pgxpool.Pool, opts ...postgres.Option) *postgres.Backend {
	t.Helper()
	b, err := postgres.New(pool, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// migrated is a backend on a new database, and its pool.
func migrated(t testing.TB, opts ...postgres.Option) (*postgres.Backend, *pgxpool.Pool, *testenv.PostgresServer) {
	t.Helper()
	srv := testenv.Postgres(t)
	pool := open(t, srv.URL)
	if err := postgres.Migrate(t.Context(), pool, opts...); err != nil {
		t.Fatal(err)
	}
	return newBackend(t, pool, opts...), pool, srv
}

// request is a claim of its own of a key.
func request(key string) backend.Claim {
	return backend.Claim{
		Key: backend.Key{Tenant: "tenant", Actor: "actor", Value: key}, ID: newID(), Operation: "POST /payments",
		Target:       backend.Target{Method: "POST", Path: "/payments"},
		Fingerprints: []backend.Fingerprint{{Version: "v1", Sum: [32]byte{1}}},
		Lease:        time.Minute, Retention: 24 * time.Hour, Abandon: 7 * 24 * time.Hour,
	}
}

func newID() (id backend.ClaimID) {
	_, _ = rand.Read(id[:])
	return id
}

func response(body string) backend.Response {
	return backend.Response{Status: 201, Header: []byte("Location: /payments/1"), Body: []byte(body)}
}

func completion(body string) backend.Completion {
	return backend.Completion{Sequence: 1, Response: response(body)}
}

// acquire claims a key that is to be had.
func acquire(t testing.TB, b backend.Backend, c backend.Claim) backend.Record {
	t.Helper()
	got, err := b.Claim(t.Context(), c)
	if err != nil || !got.Acquired {
		t.Fatalf("Claim = acquired %v (%v record), %v, want acquired", got.Acquired, got.Record.Status, err)
	}
	return got.Record
}

// privately is a backend on a server that nobody else uses.
func privately(t testing.TB, settings ...string) (*postgres.Backend, *pgxpool.Pool) {
	t.Helper()
	srv := testenv.PostgresPrivate(t, settings...)
	pool := open(t, srv.URL)
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return newBackend(t, pool), pool
}
