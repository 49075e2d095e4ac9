package etcd_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
)

// What the package's documentation says of round trips.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	w := new(wire)
	b, c, srv := fresh(t, w.config)
	other := newBackend(t, c, etcd.WithPrefix(srv.Prefix)) // as another process
	complete(t, b, acquire(t, b, request("first")), "x")   // makes the lease that completed records share
	complete(t, other, acquire(t, other, request("its first")), "x")
	n := 0
	key := func() backend.Claim { n++; return request(fmt.Sprint("key-", n)) }
	var held backend.Record
	hold := func() { held = acquire(t, b, key()) }
	claim := func(c backend.Claim) error { _, err := b.Claim(t.Context(), c); return err }
	point := func(b backend.Backend) error {
		return b.Checkpoint(t.Context(), held.Holder(), backend.Checkpoint{Sequence: 1, Point: "p", State: []byte("s")})
	}
	for _, tt := range []struct {
		name   string
		before func()
		do     func() error
		want   []string
	}{
		{"claim", nil, func() error { return claim(key()) }, []string{"Txn", "LeaseGrant", "Txn"}},
		{"replay", func() { hold(); complete(t, b, held, "x") }, func() error { return claim(request(held.Key.Value)) }, []string{"Txn"}},
		{"in progress", hold, func() error { return claim(request(held.Key.Value)) }, []string{"Txn", "LeaseTimeToLive"}},
		{"checkpoint", hold, func() error { return point(b) }, []string{"Txn"}},
		{"checkpoint elsewhere", hold, func() error { return point(other) }, []string{"Txn", "Txn"}},
		{"complete", hold, func() error { return b.Complete(t.Context(), held.Holder(), completion("x")) }, []string{"Txn"}},
		{"complete elsewhere", hold, func() error { return other.Complete(t.Context(), held.Holder(), completion("x")) }, []string{"Txn", "Txn"}},
		{"complete after a checkpoint", func() { hold(); _ = point(b) }, func() error {
			return b.Complete(t.Context(), held.Holder(), backend.Completion{Sequence: 2})
		}, []string{"Txn"}},
		{"release", hold, func() error { return b.Release(t.Context(), held.Holder()) }, []string{"Txn"}},
		{"renew", hold, func() error { return b.Renew(t.Context(), held.Holder(), time.Minute) }, []string{"Txn", "LeaseKeepAlive"}},
		{"get", hold, func() error { _, err := b.Get(t.Context(), held.Key); return err }, []string{"Txn", "LeaseTimeToLive"}},
		{"sweep", nil, func() error { _, err := b.Sweep(t.Context(), 10); return err }, []string{"Range", "Txn"}},
	} {
		if tt.before != nil {
			tt.before()
		}
		w.reset()
		if err := tt.do(); err != nil {
			t.Fatalf("%s = %v, want nil", tt.name, err)
		}
		if got := w.seen(); !slices.Equal(got, tt.want) {
			t.Errorf("round trips of %s = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// E-8: a renewal that only keeps the lease alive makes no revision.
func TestRenewalsMakeNoHistory(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	r := acquire(t, b, request("k"))
	revisions := func() (v int64) {
		got, err := c.Get(t.Context(), srv.Prefix+"started/tenant\x00actor\x00k")
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("Get = %v, want the record", err)
		}
		return got.Kvs[0].Version
	}
	before := revisions()
	for range 3 {
		if err := b.Renew(t.Context(), r.Holder(), time.Minute); err != nil {
			t.Fatalf("Renew = %v, want nil", err)
		}
	}
	if got := revisions(); got != before {
		t.Errorf("versions of the record after three renewals = %d, want %d", got, before)
	}
}
