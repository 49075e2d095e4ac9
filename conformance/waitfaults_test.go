package conformance_test

import (
	"context"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
)

// TestSuite for the cases of backends that tell of changes.
func TestWaitSuite(t *testing.T) {
	t.Parallel()
	testFaults(t, waitFaults, conformance.Only("wait"))
}

// A backend that tells of nothing promises nothing by it.
func TestWaitSuiteWithoutWaiter(t *testing.T) {
	t.Parallel()
	r := conformance.Check(t.Context(), func(conformance.T) conformance.Store {
		b := newFaulty(time.Now, func(*faulty) {})
		return conformance.Store{Open: func(conformance.T) backend.Backend { return struct{ backend.Backend }{b} }}
	}, conformance.Only("wait"))
	for _, c := range r.Results {
		if c.Verdict != conformance.Passed || c.Word() != "not run" {
			t.Errorf("%s is %s, in words %q, want it passed, in words not run", c.ID, c.Verdict, c.Word())
		}
	}
}

// awaitFunc is a way to wait: held tells whether the lease of the key stands, found
// what stands there.
type awaitFunc func(ctx context.Context, held func() bool, found func() *backend.Record) error

// Await implements backend.Waiter.
func (f *faulty) Await(ctx context.Context, k backend.Key) error {
	found := func() *backend.Record {
		r, err := f.Get(context.WithoutCancel(ctx), k)
		if err != nil {
			return nil
		}
		return &r
	}
	return f.await(ctx, func() bool { r := found(); return r != nil && r.LeaseLeft > 0 }, found)
}

// poll waits until something is so.
func poll(ctx context.Context, so func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func awaitHeld(ctx context.Context, held func() bool, _ func() *backend.Record) error {
	return poll(ctx, func() bool { return !held() })
}

func awaiting(f awaitFunc) func(f *faulty) { return func(b *faulty) { b.await = f } }

// stands reports whether there is a record that somebody claimed, by no clock.
func stands(r *backend.Record) bool {
	return r != nil && r.Status == backend.Started && r.ClaimID != backend.ClaimID{}
}

var waitFaults = map[string]planted{
	"tells of nothing": {awaiting(func(ctx context.Context, held func() bool, _ func() *backend.Record) error {
		if !held() {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}), "wait/completed wait/released wait/lapsed", ""},
	"does not tell of completions": {awaiting(func(ctx context.Context, held func() bool, found func() *backend.Record) error {
		now := !held()
		return poll(ctx, func() bool {
			r := found()
			return now || !held() && (r == nil || r.Status == backend.Started)
		})
	}), "wait/completed", ""},
	"does not tell of releases": {awaiting(func(ctx context.Context, held func() bool, found func() *backend.Record) error {
		now := !held()
		return poll(ctx, func() bool { return now || !held() && found() != nil })
	}), "wait/released", ""},
	"does not tell of releases at a recovery point": {awaiting(func(ctx context.Context, held func() bool, found func() *backend.Record) error {
		now := !held()
		return poll(ctx, func() bool {
			r := found()
			return now || !held() && (r == nil || stands(r) || r.Status == backend.Completed)
		})
	}), "wait/released", ""},
	"does not tell of lapses": {awaiting(func(ctx context.Context, held func() bool, found func() *backend.Record) error {
		now := !held()
		return poll(ctx, func() bool { return now || !stands(found()) })
	}), "wait/lapsed", ""},
	"misses what came before": {awaiting(func(ctx context.Context, held func() bool, _ func() *backend.Record) error {
		was := held()
		return poll(ctx, func() bool { return was && !held() })
	}), "wait/missed", ""},
	"waits on without its caller": {awaiting(func(ctx context.Context, held func() bool, found func() *backend.Record) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // a test ends some day
		defer cancel()
		return awaitHeld(ctx, held, found)
	}), "wait/context", ""},
	"forgets its caller": {awaiting(func(ctx context.Context, held func() bool, found func() *backend.Record) error {
		if awaitHeld(ctx, held, found) != nil {
			return nil
		}
		return nil
	}), "wait/context", ""},
	"takes the lease of the one it waits for": {func(f *faulty) {
		f.await = func(ctx context.Context, held func() bool, found func() *backend.Record) error {
			err := awaitHeld(ctx, held, found)
			if r := found(); err != nil && r != nil {
				_ = f.Release(context.WithoutCancel(ctx), r.Holder())
			}
			return err
		}
	}, "wait/context", ""},
}
