package etcd_test

import (
	"context"
	"crypto/rand"
	"flag"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
)

// Most tests wait for a lease to end: more of them run at once than there are
// processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("16") // a number
	}
	testenv.Main(page.After(m))
}

// connect gives a client of a server that is closed when the test ends.
func connect(t testing.TB, srv *testenv.EtcdServer, change ...func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	return connectTo(t, srv.Endpoints, change...)
}

func connectTo(t testing.TB, endpoints []string, change ...func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), Context: context.Background()}
	for _, f := range change {
		f(&cfg)
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	return c
}

func newBackend(t testing.TB, c *clientv3.Client, opts ...etcd.Option) *etcd.Backend {
	t.Helper()
	b, err := etcd.New(c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fresh is a backend without records on the server that the tests share.
func fresh(t testing.TB, change ...func(*clientv3.Config)) (*etcd.Backend, *clientv3.Client, *testenv.EtcdServer) {
	t.Helper()
	srv := testenv.Etcd(t)
	c := connect(t, srv, change...)
	return newBackend(t, c, etcd.WithPrefix(srv.Prefix)), c, srv
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

// brief is a request whose lease is as short as the server allows.
func brief(key string) backend.Claim {
	c := request(key)
	c.Lease = time.Second
	return c
}

func newID() (id backend.ClaimID) {
	_, _ = rand.Read(id[:])
	return id
}

func completion(body string) backend.Completion {
	return backend.Completion{Sequence: 1, Response: backend.Response{Status: 201, Header: []byte("Location: /payments/1"), Body: []byte(body)}}
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

func complete(t testing.TB, b backend.Backend, r backend.Record, body string) {
	t.Helper()
	if err := b.Complete(t.Context(), r.Holder(), completion(body)); err != nil {
		t.Fatalf("Complete = %v, want nil", err)
	}
}

// eventually asks again and again until something is so.
func eventually(t testing.TB, what string, probe func() bool) {
	t.Helper()
	limit, tick := time.NewTimer(time.Minute), time.NewTicker(20*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for !probe() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: not after a minute", what)
		}
	}
}
