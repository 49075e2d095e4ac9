package conformance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
)

// What a handle with another clock does is that of the process, with its time.
func TestSkew(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		b := conformance.Skew(t, by, func(*testing.T) backend.Backend { return memory.New() })
		c := backend.Claim{
			Key: backend.Key{Tenant: "t", Actor: "a", Value: "key-0001"}, ID: backend.ClaimID{1}, Operation: "pay",
			Fingerprints: []backend.Fingerprint{{Version: "v1"}}, Lease: time.Minute, Retention: time.Hour, Abandon: time.Hour,
		}
		got, err := b.Claim(t.Context(), c)
		if err != nil || !got.Acquired {
			t.Fatalf("Claim = acquired %v, %v, want acquired", got.Acquired, err)
		}
		if off := got.Record.CreatedAt.Sub(time.Now().Add(by)).Abs(); off > 10*time.Minute {
			t.Errorf("Skew(%v): claimed at %v, %v off", by, got.Record.CreatedAt, off)
		}
		l := got.Record.Holder()
		err = errors.Join(
			b.Renew(t.Context(), l, time.Hour),
			b.Checkpoint(t.Context(), l, backend.Checkpoint{Sequence: 1, Point: "p"}),
			b.Complete(t.Context(), l, backend.Completion{Sequence: 2}),
			b.Release(t.Context(), l),
		)
		if r, getErr := b.Get(t.Context(), c.Key); err != nil || getErr != nil || r.Status != backend.Completed || r.LeaseLeft != 0 {
			t.Errorf("after all writes = %v, the record is %v, %v, want nil and completed", err, r.Status, getErr)
		}
		if n, err := b.Sweep(t.Context(), 1); n != 0 || err != nil {
			t.Errorf("Sweep = %d, %v, want 0", n, err)
		}
		if d, err := b.Describe(t.Context()); d.Name != "memory" || err != nil {
			t.Errorf("Describe = %q, %v, want memory", d.Name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.Get(ctx, c.Key); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Get(cancelled context) = %v, want nil or context.Canceled", err)
		}
	}
}
