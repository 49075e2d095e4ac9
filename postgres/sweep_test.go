package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

// over gives records of a kind whose time is over, by their keys.
func age(t testing.TB, b backend.Backend, c backend.Claim, keys ...string) {
	t.Helper()
	for _, k := range keys {
		c.Key.Value, c.ID = k, newID()
		acquire(t, b, c)
	}
}

func sweep(t testing.TB, b backend.Backend, limit int) int {
	t.Helper()
	n, err := b.Sweep(t.Context(), limit)
	if err != nil {
		t.Fatalf("Sweep(%d) = %v, want nil", limit, err)
	}
	return n
}

// Hard case 26: rows that may not be deleted don't starve those that may. The limit
// counts what was changed.
func TestSweepIsNotStarved(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	alive := request("")
	var keys []string
	for i := range 30 {
		keys = append(keys, fmt.Sprint("alive-", i))
	}
	age(t, b, alive, keys...)
	age(t, b, alive, "gone-1", "gone-2")
	exec(t, pool, `UPDATE idem_keys SET expires_at = clock_timestamp() - CASE WHEN key LIKE 'alive%' THEN interval '2 h' ELSE interval '1 h' END`)
	exec(t, pool, `UPDATE idem_keys SET updated_at = clock_timestamp() - interval '30 days', locked_until = clock_timestamp() - interval '30 days' WHERE key LIKE 'gone%'`)
	var got []int
	for range 5 {
		got = append(got, sweep(t, b, 10))
	}
	if want := []int{10, 10, 10, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("Sweep(10) five times = %v, want %v", got, want)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM idem_keys WHERE expires_at = updated_at + abandon_us * interval '1 microsecond'`); n != 30 {
		t.Errorf("records alive = %d, want 30 that are looked at when they could be abandoned", n)
	}
}

// Hard case 5: unfinished work becomes a tombstone, and is not swept any more.
func TestSweepAbandons(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	r := acquire(t, b, request("key"))
	if err := b.Checkpoint(t.Context(), r.Holder(), backend.Checkpoint{Sequence: 1, Point: "charged", State: []byte("s")}); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE idem_keys SET expires_at = 'epoch', updated_at = 'epoch', locked_until = 'epoch'`)
	if n := sweep(t, b, 10); n != 1 {
		t.Errorf("Sweep = %d, want 1", n)
	}
	got := wantRecord(t, b, r.Key, backend.Completed, "")
	if got.Response.Tombstone != backend.Abandoned || !got.ExpiresAt.IsZero() || got.RecoveryPoint != "charged" || string(got.State) != "s" {
		t.Errorf("record = %+v, want an abandoned one that keeps its point and state for ever", got)
	}
	if n := sweep(t, b, 10); n != 0 {
		t.Errorf("Sweep again = %d, want 0", n)
	}
	// Nor where the holder itself has said so.
	r = acquire(t, b, request("other"))
	if err := b.Complete(t.Context(), r.Holder(), backend.Completion{Sequence: 1, Response: backend.Response{Tombstone: backend.Abandoned}}); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE idem_keys SET expires_at = 'epoch', completed_at = 'epoch' WHERE key = 'other'`)
	sweep(t, b, 10)
	if n := sweep(t, b, 10); n != 0 {
		t.Errorf("Sweep of an abandoned record = %d, want 0", n)
	}
	wantRecord(t, b, r.Key, backend.Completed, "")
}

// PG-29, field report 5: sweepers and claims work on the same expired records. No
// record that is alive is lost.
func TestSweepAgainstClaims(t *testing.T) {
	t.Parallel()
	b, _, _ := migrated(t)
	ctx, cancel := context.WithCancel(t.Context())
	var sweepers, claimers sync.WaitGroup
	swept := 0
	for i := range 3 {
		sweepers.Go(func() {
			for ctx.Err() == nil {
				n, err := b.Sweep(t.Context(), 7)
				if err != nil {
					t.Errorf("Sweep = %v, want nil", err)
				}
				if i == 0 {
					swept += n
				}
			}
		})
	}
	for w := range 4 {
		claimers.Go(func() {
			for i := range 150 {
				c := request(fmt.Sprintf("key-%d-%d", w, i%3))
				c.Retention, c.Lease, c.Abandon = time.Millisecond, time.Millisecond, time.Millisecond
				if i%2 == 0 {
					c.Retention, c.Lease, c.Abandon = time.Hour, time.Hour, time.Hour
				}
				got, err := b.Claim(t.Context(), c)
				if errors.Is(err, backend.ErrUnavailable) {
					continue // leases of 1ms: others had it whenever it was looked at
				}
				if err != nil {
					t.Errorf("Claim = %v, want nil", err)
					return
				}
				if !got.Acquired || c.Lease < time.Hour {
					continue
				}
				// It is alive now: whatever the sweepers saw before, it stays.
				if r, err := b.Get(t.Context(), c.Key); err != nil || r.ClaimID != c.ID {
					t.Errorf("Get of a record that is alive = %v, want it", err)
				}
				if err := b.Release(t.Context(), got.Record.Holder()); err != nil {
					t.Errorf("Release = %v, want nil", err)
				}
			}
		})
	}
	claimers.Wait()
	cancel()
	sweepers.Wait()
	t.Logf("one sweeper changed %d records", swept)
}

// The index serves the sweep, and a locked record is passed over.
func TestSweepPassesOverLockedRecords(t *testing.T) {
	t.Parallel()
	b, pool, _ := migrated(t)
	c := request("")
	age(t, b, c, "locked", "free")
	exec(t, pool, `UPDATE idem_keys SET expires_at = 'epoch', updated_at = 'epoch', locked_until = 'epoch'`)
	tx := begin(t, pool)
	exec2(t, tx, `SELECT FROM idem_keys WHERE key = 'locked' FOR UPDATE`)
	if n := sweep(t, b, 10); n != 1 {
		t.Errorf("Sweep beside a locked record = %d, want 1", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := sweep(t, b, 10); n != 1 {
		t.Errorf("Sweep after = %d, want 1", n)
	}
}
