package etcd_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
)

func sweep(t *testing.T, b backend.Backend, limit int) int {
	t.Helper()
	n, err := b.Sweep(t.Context(), limit)
	if err != nil {
		t.Fatalf("Sweep = %v, want nil", err)
	}
	return n
}

// forgotten is a request whose run may be removed soon after its lease.
func forgotten(key string) backend.Claim {
	c := brief(key)
	c.Retention, c.Abandon = time.Second, time.Second
	return c
}

// noTimers waits until all timers of a prefix are over.
func noTimers(t *testing.T, c *clientv3.Client, prefix string) {
	t.Helper()
	eventually(t, "the timers end", func() bool {
		got, err := c.Get(t.Context(), prefix+"timer/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && got.Count == 0
	})
}

// What happens after a sweep has started the timer of a lapsed run starts it anew.
func TestSweepCountsFromTheLastActivity(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	r := acquire(t, b, forgotten("k"))
	if n := sweep(t, b, 10); n != 0 {
		t.Errorf("Sweep(running) = %d, want 0", n)
	}
	lapse(t, b, r.Key)
	if n := sweep(t, b, 10); n != 1 {
		t.Errorf("Sweep(lapsed) = %d, want 1: its timer", n)
	}
	if n := sweep(t, b, 10); n != 0 {
		t.Errorf("Sweep(its timer runs) = %d, want 0", n)
	}
	if err := b.Checkpoint(t.Context(), r.Holder(), backend.Checkpoint{Sequence: 1, Point: "p"}); err != nil {
		t.Fatal(err)
	}
	noTimers(t, c, srv.Prefix)
	if n := sweep(t, b, 10); n != 1 {
		t.Errorf("Sweep(active since) = %d, want 1: another timer", n)
	}
	if got, err := b.Get(t.Context(), r.Key); err != nil || got.Status != backend.Started {
		t.Errorf("Get(active since) = %v, %v, want it started", got.Status, err)
	}
	noTimers(t, c, srv.Prefix)
	if n := sweep(t, b, 10); n != 1 {
		t.Errorf("Sweep(timer over) = %d, want 1: the tombstone", n)
	}
	if got, err := b.Get(t.Context(), r.Key); err != nil || got.Response.Tombstone != backend.Abandoned {
		t.Errorf("Get(abandoned) = %+v, %v, want the tombstone", got.Response, err)
	}
	if n := sweep(t, b, 10); n != 0 {
		t.Errorf("Sweep(tombstone) = %d, want 0", n)
	}
}

// A run that is only kept alive is older than its age, and stays.
func TestSweepLeavesLongRuns(t *testing.T) {
	t.Parallel()
	b, _, _ := fresh(t)
	long := acquire(t, b, forgotten("long"))
	over := acquire(t, b, forgotten("over"))
	eventually(t, "another run is swept", func() bool {
		if err := b.Renew(t.Context(), long.Holder(), long.Lease); err != nil {
			t.Fatalf("Renew = %v, want nil", err)
		}
		sweep(t, b, 10)
		_, err := b.Get(t.Context(), over.Key)
		return err != nil
	})
	complete(t, b, long, "x")
}

// More records than a page holds, and nothing left of them in the end.
func TestSweepTakesManyPages(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	const records = 1100
	var claims sync.WaitGroup
	for w := range 8 {
		claims.Go(func() {
			for i := w; i < records; i += 8 {
				if _, err := b.Claim(t.Context(), forgotten(fmt.Sprint("k-", i))); err != nil {
					t.Errorf("Claim = %v, want nil", err)
				}
			}
		})
	}
	claims.Wait()
	eventually(t, "all leases are over", func() bool {
		got, err := c.Get(t.Context(), srv.Prefix+"lock/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && got.Count == 0
	})
	if n := sweep(t, b, 2*records); n != records {
		t.Errorf("Sweep(lapsed) = %d, want a timer for each of %d", n, records)
	}
	noTimers(t, c, srv.Prefix)
	if n := sweep(t, b, records-1); n != records-1 {
		t.Errorf("Sweep(%d) = %d, want as many", records-1, n)
	}
	if n := sweep(t, b, records); n != 1 {
		t.Errorf("Sweep(timers over) = %d, want 1, the last", n)
	}
	noTimers(t, c, srv.Prefix)
	got, err := c.Get(t.Context(), srv.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || len(got.Kvs) != 0 {
		t.Errorf("%d keys are left, %v, want none", len(got.Kvs), err)
	}
}

// Nothing but the record is left of a run that was completed, released or resumed
// after a sweep had seen it lapsed.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	claim := forgotten("completed")
	claim.Payload = []byte("payload")
	first, second := acquire(t, b, claim), acquire(t, b, forgotten("released"))
	lapse(t, b, first.Key)
	lapse(t, b, second.Key)
	if n := sweep(t, b, 10); n != 2 {
		t.Fatalf("Sweep(lapsed) = %d, want 2", n)
	}
	complete(t, b, first, "x")
	if err := b.Release(t.Context(), second.Holder()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything is gone", func() bool {
		got, err := c.Get(t.Context(), srv.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && got.Count == 0
	})
}
