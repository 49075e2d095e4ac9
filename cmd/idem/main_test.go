package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
	"github.com/idem-go/idem/redis"
	"github.com/idem-go/idem/sqlite"
)

// asProgram makes the test binary run as the program itself.
const asProgram = "IDEM_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	// go-redis looks for a server that was down a last time after Close.
	testenv.Main(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// start runs the program in this process.
func start(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), status
}

// want runs the program and checks its exit status.
func want(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, got := start(t, args...)
	if got != status {
		t.Fatalf("idem %q = exit status %d, want %d; it printed\n%s%s", args, got, status, stdout, stderr)
	}
	return stdout, stderr
}

// server is a store that is ready for use, as a test sees it.
type server struct {
	dsn   string
	flags []string // where on it the records are
	b     backend.Backend

	// left names what runs of the suite have left behind.
	left func(t *testing.T) []string
}

// args are the arguments for a command on the server.
func (s server) args(command string, more ...string) []string {
	return append(append([]string{command, s.dsn}, s.flags...), more...)
}

// onServers runs a test on every kind of server.
func onServers(t *testing.T, f func(t *testing.T, s server)) {
	for name, start := range map[string]func(t *testing.T) server{
		"sqlite": sqliteServer, "postgres": postgresServer, "redis": redisServer, "etcd": etcdServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, start(t))
		})
	}
}

func sqliteServer(t *testing.T) server {
	path := filepath.Join(t.TempDir(), "a b?.db")
	db, err := sqlite.Open(path)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	must(t, sqlite.Migrate(t.Context(), db, sqlite.WithTable("records")))
	b, err := sqlite.New(db, sqlite.WithTable("records"))
	must(t, err)
	return server{"sqlite:" + path, []string{"-table", "records"}, b, func(t *testing.T) []string {
		all, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".idem-conformance-*", "*"))
		must(t, err)
		dirs, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".idem-conformance-*"))
		must(t, err)
		return append(all, dirs...)
	}}
}

func postgresServer(t *testing.T) server {
	srv := testenv.Postgres(t)
	pool, err := pgxpool.New(context.Background(), srv.URL)
	must(t, err)
	t.Cleanup(pool.Close)
	opt := postgres.WithTable("Over there", "records")
	must(t, postgres.Migrate(t.Context(), pool, opt))
	b, err := postgres.New(pool, opt)
	must(t, err)
	return server{srv.URL, []string{"-schema", "Over there", "-table", "records"}, b, func(t *testing.T) (left []string) {
		must(t, pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(n.nspname || '.' || coalesce(c.relname, '')), '{}')
			FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid WHERE nspname LIKE 'idem_conformance%'`).Scan(&left))
		return left
	}}
}

func redisServer(t *testing.T) server {
	srv := testenv.Redis(t)
	opts, err := goredis.ParseURL(srv.URL)
	must(t, err)
	client := goredis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	prefix := srv.Prefix + "[*]"
	b, err := redis.New(client, redis.WithPrefix(prefix))
	must(t, err)
	return server{srv.URL, []string{"-prefix", prefix}, b, func(t *testing.T) []string {
		left, err := client.Keys(t.Context(), srv.Prefix+"*").Result()
		must(t, err)
		return left
	}}
}

func etcdServer(t *testing.T) server {
	srv := testenv.Etcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: srv.Endpoints, Logger: zap.NewNop(), Context: context.Background()})
	must(t, err)
	t.Cleanup(func() { client.Close() })
	b, err := etcd.New(client, etcd.WithPrefix(srv.Prefix))
	must(t, err)
	return server{"etcd://" + strings.Join(srv.Endpoints, ","), []string{"-prefix", srv.Prefix}, b, func(t *testing.T) (left []string) {
		all, err := client.Get(t.Context(), srv.Prefix, clientv3.WithPrefix())
		must(t, err)
		for _, kv := range all.Kvs {
			left = append(left, string(kv.Key))
		}
		return left
	}}
}

// request is a claim of a key.
func request(key string) backend.Claim {
	c := backend.Claim{
		Key: backend.Key{Tenant: "acme", Actor: "alice", Value: key}, Operation: "POST /payments",
		Target:       backend.Target{Method: "POST", Path: "/payments?dry=0"},
		Fingerprints: []backend.Fingerprint{{Version: "v1", Sum: [32]byte{1}}},
		Lease:        time.Minute, Retention: 24 * time.Hour, Abandon: 7 * 24 * time.Hour,
	}
	_, _ = rand.Read(c.ID[:]) // never fails
	return c
}

// acquire claims a key that is to be had.
func acquire(t *testing.T, b backend.Backend, c backend.Claim) backend.Lease {
	t.Helper()
	got, err := b.Claim(t.Context(), c)
	if err != nil || !got.Acquired {
		t.Fatalf("Claim = acquired %v, %v, want acquired", got.Acquired, err)
	}
	return got.Record.Holder()
}

func complete(t *testing.T, b backend.Backend, l backend.Lease) {
	t.Helper()
	must(t, b.Complete(t.Context(), l, backend.Completion{Sequence: 2, Response: backend.Response{
		Status: 201, Header: []byte("Location: /payments/1"), Body: []byte("the answer\x1b[2J"),
	}}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
