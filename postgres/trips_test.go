package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/backend"
)

// Without contention the leased path takes two round trips, a replay one and a
// transaction two more than its effect.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	b, proxy, _, _ := faulty(t, size(1))
	n := 0
	key := func() backend.Claim { n++; return request(fmt.Sprint("key-", n)) }
	var held, done backend.Record
	transact := func(c backend.Claim) error {
		_, err := b.Transact(t.Context(), c, func(ctx context.Context, tx pgx.Tx, h backend.Claimed) (backend.Effect, error) {
			for range 2 {
				if _, err := writes("")(ctx, tx, h); err != nil {
					return backend.Effect{}, err
				}
			}
			return backend.Effect{Response: response("x")}, nil
		})
		return err
	}
	hold := func() { held = acquire(t, b, key()) }
	for _, tt := range []struct {
		name   string
		before func()
		do     func() error
		want   int
	}{
		{"claim", nil, func() error { acquire(t, b, key()); return nil }, 1},
		{"renew", hold, func() error { return b.Renew(t.Context(), held.Holder(), time.Hour) }, 1},
		{"checkpoint", hold, func() error {
			return b.Checkpoint(t.Context(), held.Holder(), backend.Checkpoint{Sequence: 1, Point: "p"})
		}, 1},
		{"complete", hold, func() error { return b.Complete(t.Context(), held.Holder(), completion("x")) }, 1},
		{"release", hold, func() error { return b.Release(t.Context(), held.Holder()) }, 1},
		{"replay", func() {
			hold()
			if err := b.Complete(t.Context(), held.Holder(), completion("x")); err != nil {
				t.Fatal(err)
			}
			done = held
		}, func() error { _, err := b.Claim(t.Context(), request(done.Key.Value)); return err }, 1},
		{"in progress", hold, func() error { _, err := b.Claim(t.Context(), request(held.Key.Value)); return err }, 1},
		{"get", hold, func() error { _, err := b.Get(t.Context(), held.Key); return err }, 1},
		{"sweep", nil, func() error { _, err := b.Sweep(t.Context(), 10); return err }, 1},
		{"transact with two statements", nil, func() error { return transact(key()) }, 2 + 2},
		{"replay by transact", func() {
			held = backend.Record{Key: key().Key}
			if err := transact(request(held.Key.Value)); err != nil {
				t.Fatal(err)
			}
		}, func() error { return transact(request(held.Key.Value)) }, 2},
		{"a step with one statement", hold, func() error { _, err := b.InLease(t.Context(), held.Holder(), 1, stepTo("p")); return err }, 2 + 1},
	} {
		trips := ""
		best := 100
		// The first use of a statement prepares it, and on a busy machine a claim may
		// seem to have waited: the best of a few counts.
		for range 5 {
			if tt.before != nil {
				tt.before()
			}
			proxy.Reset()
			if err := tt.do(); err != nil {
				t.Fatalf("%s = %v, want nil", tt.name, err)
			}
			if got := proxy.RoundTrips(); got < best {
				best, trips = got, strings.Join(proxy.Trips(), "\n")
			}
		}
		if best != tt.want {
			t.Errorf("round trips of %s = %d, want %d:\n%s", tt.name, best, tt.want, trips)
		}
	}
}
