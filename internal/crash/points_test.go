package crash

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
)

// points are where a process can end. Their names are those of methods, steps and
// calls, with "/before" and "/after", and "#2" if one is come by again.
type points struct {
	mu   sync.Mutex
	seen map[string]int
	hit  func(point string, err error) // err is what ended before an "/after"
}

func (p *points) at(name string, err error) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.seen[name]++
	if n := p.seen[name]; n > 1 {
		name = fmt.Sprintf("%s#%d", name, n)
	}
	p.mu.Unlock()
	p.hit(name, err)
}

// around makes two points of what f does.
func around[V any](p *points, name string, f func() (V, error)) (V, error) {
	p.at(name+"/before", nil)
	v, err := f()
	p.at(name+"/after", err)
	return v, err
}

func (p *points) around(name string, f func() error) error {
	_, err := around(p, name, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// watch makes points of all methods of a backend. It embeds none, so that it doesn't
// compile without one that the contract gets.
func watch(b backend.Backend, p *points) backend.Backend {
	w := &watched{b, p}
	if waiter, ok := b.(backend.Waiter); ok {
		return &watchedWaiter{watched: w, w: waiter}
	}
	return w
}

// watched is a backend whose methods are points.
type watched struct {
	b backend.Backend
	p *points
}

var _ backend.Backend = (*watched)(nil)

func (w *watched) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	return around(w.p, "Claim", func() (backend.Claimed, error) { return w.b.Claim(ctx, c) })
}

func (w *watched) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	return w.p.around("Renew", func() error { return w.b.Renew(ctx, l, ttl) })
}

func (w *watched) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	return w.p.around("Checkpoint "+c.Point, func() error { return w.b.Checkpoint(ctx, l, c) })
}

func (w *watched) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	return w.p.around("Complete", func() error { return w.b.Complete(ctx, l, c) })
}

func (w *watched) Release(ctx context.Context, l backend.Lease) error {
	return w.p.around("Release", func() error { return w.b.Release(ctx, l) })
}

func (w *watched) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	return around(w.p, "Get", func() (backend.Record, error) { return w.b.Get(ctx, k) })
}

func (w *watched) Sweep(ctx context.Context, limit int) (int, error) {
	return around(w.p, "Sweep", func() (int, error) { return w.b.Sweep(ctx, limit) })
}

func (w *watched) Describe(ctx context.Context) (backend.Description, error) {
	return around(w.p, "Describe", func() (backend.Description, error) { return w.b.Describe(ctx) })
}

// watchedWaiter is a watched Waiter.
type watchedWaiter struct {
	*watched
	w backend.Waiter
}

func (w *watchedWaiter) Await(ctx context.Context, k backend.Key) error {
	return w.p.around("Await", func() error { return w.w.Await(ctx, k) })
}

// watchedTx is a watched Transactor.
type watchedTx[T any] struct {
	*watched
	t backend.Transactor[T]
}

func watchTx[T any](b backend.Transactor[T], p *points) backend.Transactor[T] {
	return &watchedTx[T]{&watched{b, p}, b}
}

func (w *watchedTx[T]) Transact(ctx context.Context, c backend.Claim, effect func(context.Context, T, backend.Claimed) (backend.Effect, error)) (backend.Claimed, error) {
	return around(w.p, "Transact", func() (backend.Claimed, error) {
		return w.t.Transact(ctx, c, func(ctx context.Context, tx T, held backend.Claimed) (backend.Effect, error) {
			return around(w.p, "Transact's effect", func() (backend.Effect, error) { return effect(ctx, tx, held) })
		})
	})
}

func (w *watchedTx[T]) InLease(ctx context.Context, l backend.Lease, seq backend.Sequence, step func(context.Context, T) (backend.Step, error)) (backend.Record, error) {
	return around(w.p, "InLease", func() (backend.Record, error) {
		return w.t.InLease(ctx, l, seq, func(ctx context.Context, tx T) (backend.Step, error) {
			return around(w.p, "InLease's step", func() (backend.Step, error) { return step(ctx, tx) })
		})
	})
}

// Bind does nothing by itself: what it gives is for transactions of the caller's.
func (w *watchedTx[T]) Bind(tx T) backend.TxView { return w.t.Bind(tx) }
