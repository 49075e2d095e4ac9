package redis_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

// go-redis looks for a server that was down once a second, also a last time after Close.
func TestMain(m *testing.M) {
	testenv.Main(page.After(m), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// connect makes a client that is closed when the test ends.
func connect(t interface {
	Cleanup(f func())
	Fatalf(format string, args ...any)
}, url string, change ...func(*goredis.Options),
) *goredis.Client {
	opts, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatalf("ParseURL = %v", err)
	}
	opts.PoolSize = 4
	for _, f := range change {
		f(opts)
	}
	client := goredis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() }) // a test may have closed it
	return client
}

func newBackend(t testing.TB, client goredis.UniversalClient, opts ...redis.Option) *redis.Backend {
	t.Helper()
	b, err := redis.New(client, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// started is a backend with a prefix of its own on the shared server.
func started(t testing.TB) (*redis.Backend, *goredis.Client, *testenv.RedisServer) {
	t.Helper()
	srv := testenv.Redis(t)
	client := connect(t, srv.URL)
	return newBackend(t, client, redis.WithPrefix(srv.Prefix)), client, srv
}

// privately is a backend on a server that nobody else uses.
func privately(t testing.TB, settings ...string) (*redis.Backend, *goredis.Client, *testenv.RedisServer) {
	t.Helper()
	srv := testenv.RedisPrivate(t, settings...)
	client := connect(t, srv.URL)
	return newBackend(t, client), client, srv
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
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func point(seq backend.Sequence, name string) backend.Checkpoint {
	return backend.Checkpoint{Sequence: seq, Point: name, State: []byte("state of " + name)}
}

func completion(body string) backend.Completion {
	return backend.Completion{Sequence: 9, Response: backend.Response{Status: 201, Header: []byte("Location: /payments/1"), Body: []byte(body)}}
}

// acquire claims a key that is to be had.
func acquire(t testing.TB, b *redis.Backend, c backend.Claim) backend.Record {
	t.Helper()
	got, err := b.Claim(t.Context(), c)
	if err != nil || !got.Acquired {
		t.Fatalf("Claim = acquired %v (%v record), %v, want acquired", got.Acquired, got.Record.Status, err)
	}
	return got.Record
}

// completed stores a record with that body.
func completed(t testing.TB, b *redis.Backend, c backend.Claim, body string) backend.Record {
	t.Helper()
	r := acquire(t, b, c)
	must(t, b.Complete(t.Context(), r.Holder(), completion(body)))
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, b *redis.Backend, k backend.Key) backend.Record {
	t.Helper()
	r, err := b.Get(t.Context(), k)
	if err != nil {
		t.Fatalf("Get = %v, want the record", err)
	}
	return r
}

// until asks again and again whether something is so.
func until(t testing.TB, what string, probe func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !probe() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not after 20s", what)
		}
	}
}
