package etcd_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
)

// awaiting waits for a key and says how it ended.
func awaiting(ctx context.Context, b *etcd.Backend, k backend.Key) <-chan error {
	told := make(chan error, 1)
	go func() { told <- b.Await(ctx, k) }()
	return told
}

// tells checks that a wait ends by the store's word.
func tells(t *testing.T, what string, told <-chan error) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	select {
	case err := <-told:
		if err != nil {
			t.Errorf("Await(%s) = %v, want nil", what, err)
		}
	case <-limit.C:
		t.Errorf("Await(%s) still waits after 20 s", what)
	}
}

// watched waits until the server knows of a watch.
func watched(t *testing.T, w *wire) {
	t.Helper()
	eventually(t, "the watch begins", func() bool { return slices.Contains(w.seen(), "Watch") })
}

// afterLook does something between the look of a wait and its watch, once.
func (w *wire) afterLook(do func()) {
	done := false
	w.set(func(_ string, req any, send func() error) error {
		err := send()
		if _, look := req.(*etcdserverpb.RangeRequest); look && !done {
			done = true
			do()
		}
		return err
	})
}

// compact takes all history of a server away.
func compact(t *testing.T, c *clientv3.Client) {
	t.Helper()
	now, err := c.Get(t.Context(), "k")
	if err == nil {
		_, err = c.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		t.Fatalf("Compact = %v, want nil", err)
	}
}

// What happens between the look and the watch of a wait is told, also when its
// history is compacted by then (E-9).
func TestAwaitMissesNothing(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t) // a compaction is for everybody
	for name, tt := range map[string]struct{ completed, compacted bool }{
		"completed": {true, false}, "compacted": {false, true}, "completed and compacted": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := new(wire)
			prefix := etcd.WithPrefix(name + "/")
			c := connect(t, srv)
			b, waiter := newBackend(t, c, prefix), newBackend(t, connect(t, srv, w.config), prefix)
			r := acquire(t, b, request("k"))
			between := make(chan struct{})
			w.afterLook(func() {
				if tt.completed {
					complete(t, b, r, "done")
				}
				if tt.compacted { // beyond the revision that the watch begins at
					for range 3 {
						if _, err := c.Put(t.Context(), "other", "v"); err != nil {
							t.Error(err)
						}
					}
					compact(t, c)
				}
				close(between)
			})
			told := awaiting(t.Context(), waiter, r.Key)
			<-between
			if !tt.completed {
				eventually(t, "the wait looks again", func() bool {
					looks := 0
					for _, method := range w.seen() {
						if method == "Range" {
							looks++
						}
					}
					return looks == 2
				})
				select {
				case err := <-told:
					t.Errorf("Await(held, compacted) = %v, want it to wait on", err)
				default:
				}
				complete(t, b, r, "done")
			}
			tells(t, name, told)
		})
	}
}

// What happens while the connection or the server is down is told when it is back.
func TestAwaitSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	w := new(wire)
	proxy := testenv.NewProxy(t, srv.Endpoints[0])
	b := newBackend(t, connect(t, srv))
	waiter := newBackend(t, connect(t, srv, w.config, func(c *clientv3.Config) { c.Endpoints = []string{proxy.Addr()} }))

	r := acquire(t, b, request("cut"))
	told := awaiting(t.Context(), waiter, r.Key)
	watched(t, w)
	proxy.Refuse(true)
	proxy.CutAll()
	complete(t, b, r, "done")
	proxy.Refuse(false)
	tells(t, "completed while cut off", told)

	r = acquire(t, b, request("killed"))
	w.reset()
	told = awaiting(t.Context(), waiter, r.Key)
	eventually(t, "the wait looks", func() bool { return slices.Contains(w.seen(), "Range") })
	srv.Kill(t)
	srv.Start(t)
	eventually(t, "the run is completed", func() bool {
		return b.Complete(t.Context(), r.Holder(), completion("done")) == nil
	})
	tells(t, "completed after a kill of the server", told)
}

// A wait ends with its context, also where nothing comes back, and leaves nothing
// running (see TestMain).
func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	srv := testenv.Etcd(t)
	proxy := testenv.NewProxy(t, srv.Endpoints[0])
	prefix := etcd.WithPrefix(srv.Prefix)
	b := newBackend(t, connect(t, srv), prefix)
	r := acquire(t, b, request("k"))
	ends := func(when string, ctx context.Context, end func()) {
		t.Helper()
		w := new(wire) // a client keeps the stream of its watches for a while
		waiter := newBackend(t, connectTo(t, []string{proxy.Addr()}, w.config), prefix)
		told := awaiting(ctx, waiter, r.Key)
		watched(t, w)
		end()
		if err := <-told; !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("Await(%s) = %v, want ErrUnavailable and context.Canceled", when, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends("cancelled", ctx, cancel)
	if err := b.Await(ctx, r.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("Await(cancelled before) = %v, want context.Canceled", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	ends("cut off and cancelled", ctx, func() { proxy.Partition(); cancel() })
	if err := b.Await(t.Context(), backend.Key{}); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("Await(no key) = %v, want ErrInvalid", err)
	}
}

// A closed client can't tell.
func TestAwaitOnAClosedClient(t *testing.T) {
	t.Parallel()
	w := new(wire)
	b, c, _ := fresh(t, w.config)
	r := acquire(t, b, request("k"))
	told := awaiting(t.Context(), b, r.Key)
	watched(t, w)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	select {
	case err := <-told:
		if err == nil {
			t.Error("Await(closed client) = nil, want an error")
		}
	case <-limit.C:
		t.Error("Await(closed client) still waits after 20 s")
	}
}

// A duplicate in another process has the answer when the first run ends, and asks
// twice in all: it does not poll.
func TestDuplicatesWatch(t *testing.T) {
	t.Parallel()
	w := new(wire)
	b, _, srv := fresh(t)
	other := newBackend(t, connect(t, srv, w.config), etcd.WithPrefix(srv.Prefix))
	executor := func(b *etcd.Backend) *idem.Executor {
		e, err := idem.New(b, idem.WithWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	first, second := executor(b), executor(other)
	req := idem.Request{Scope: idem.Scope{Tenant: "tenant", Actor: "actor"}, Key: "key-0001", Operation: "job"}
	type answer struct {
		res idem.Result[string]
		err error
	}
	got, began := make(chan answer, 1), time.Now()
	if _, err := idem.Do(t.Context(), first, req, func(context.Context, *idem.Run) (string, error) {
		go func() {
			res, err := idem.Do(t.Context(), second, req, func(context.Context, *idem.Run) (string, error) {
				return "", errors.New("the effect ran twice")
			})
			got <- answer{res, err}
		}()
		watched(t, w)
		return "done", nil
	}); err != nil {
		t.Fatal(err)
	}
	a := <-got
	if a.err != nil || a.res.Value != "done" || !a.res.Replayed {
		t.Errorf("the duplicate got %+v, %v, want the replay", a.res, a.err)
	}
	took := time.Since(began)
	// On a machine so slow that the watch lasts for seconds a look is taken all the same.
	looks := 2 + int(took/(5*time.Second/2))
	want, seen := []string{"Txn", "LeaseTimeToLive", "Range", "Watch", "Txn"}, w.seen()
	if !slices.Equal(seen[:4], want[:4]) || len(seen) > 4*looks || looks == 2 && !slices.Equal(seen, want) {
		t.Errorf("requests of the duplicate in %v = %v, want %v", took, seen, want)
	}
}
