package conformance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem/backend"
)

// Skew is a Store.Skewed for adapters whose drivers read the process's clock by
// themselves: everything that open starts, and every call, runs in a bubble of
// package synctest. There the clock is wrong by so much and stands still, so that no
// timeout ends; the network is real. t has to be the test of the store, and outlast
// the handle. The T that open gets is another one: what it leaves to its Cleanup is
// done within the bubble, which has to end without goroutines.
func Skew(t *testing.T, by time.Duration, open func(t *testing.T) backend.Backend) backend.Backend {
	t.Helper()
	s := skewed{calls: make(chan func(b backend.Backend))}
	ended := make(chan struct{})
	wrong := time.Now().Add(by)
	go func() {
		defer close(ended)
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(wrong))
			b := open(t)
			for call := range s.calls {
				call(b)
			}
		})
	}()
	t.Cleanup(func() {
		close(s.calls)
		<-ended
	})
	return s
}

// skewed makes the calls to a backend in its bubble, one at a time.
type skewed struct{ calls chan func(b backend.Backend) }

func within[R any](ctx context.Context, s skewed, f func(ctx context.Context, b backend.Backend) (R, error)) (r R, err error) {
	ended, done := ctx.Done(), make(chan struct{}) // made outside: a bubble's own channels are closed in it
	s.calls <- func(b backend.Backend) {
		defer close(done)
		inner, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		go func() {
			select {
			case <-ended:
				cancel(context.Cause(ctx))
			case <-inner.Done():
			}
		}()
		r, err = f(inner, b)
	}
	<-done
	return r, err
}

// only is within for a call that returns nothing but an error.
func only(ctx context.Context, s skewed, f func(ctx context.Context, b backend.Backend) error) error {
	_, err := within(ctx, s, func(ctx context.Context, b backend.Backend) (struct{}, error) { return struct{}{}, f(ctx, b) })
	return err
}

func (s skewed) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	return within(ctx, s, func(ctx context.Context, b backend.Backend) (backend.Claimed, error) { return b.Claim(ctx, c) })
}

func (s skewed) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	return only(ctx, s, func(ctx context.Context, b backend.Backend) error { return b.Renew(ctx, l, ttl) })
}

func (s skewed) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	return only(ctx, s, func(ctx context.Context, b backend.Backend) error { return b.Checkpoint(ctx, l, c) })
}

func (s skewed) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	return only(ctx, s, func(ctx context.Context, b backend.Backend) error { return b.Complete(ctx, l, c) })
}

func (s skewed) Release(ctx context.Context, l backend.Lease) error {
	return only(ctx, s, func(ctx context.Context, b backend.Backend) error { return b.Release(ctx, l) })
}

func (s skewed) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	return within(ctx, s, func(ctx context.Context, b backend.Backend) (backend.Record, error) { return b.Get(ctx, k) })
}

func (s skewed) Sweep(ctx context.Context, limit int) (int, error) {
	return within(ctx, s, func(ctx context.Context, b backend.Backend) (int, error) { return b.Sweep(ctx, limit) })
}

func (s skewed) Describe(ctx context.Context) (backend.Description, error) {
	return within(ctx, s, func(ctx context.Context, b backend.Backend) (backend.Description, error) { return b.Describe(ctx) })
}
