// Package memory is the backend that lives in the process: the reference the
// other adapters are compared with, the store for tests of programs that use
// idem, and the shortest example of an adapter. Never use it for production:
// what it knows ends with the process, and no other process sees it.
package memory

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// Backend keeps records in a map. The zero value is not usable; call New.
type Backend struct {
	now func() time.Time

	mu      sync.Mutex
	records map[backend.Key]*backend.Record
	floor   backend.Token // the highest token given so far, over all keys
}

var _ backend.Backend = (*Backend)(nil)

// Option changes how a Backend works.
type Option func(*Backend)

// WithClock makes the backend judge leases and retention by c, which a test can
// move.
func WithClock(c *Clock) Option {
	return func(b *Backend) { b.now = c.Now }
}

// New returns an empty backend.
func New(opts ...Option) *Backend {
	b := &Backend{now: time.Now, records: make(map[backend.Key]*backend.Record)}
	for _, o := range opts {
		o(b)
	}
	return b
}

// step runs one message of the state machine on the record of a key.
func (b *Backend) step(ctx context.Context, op string, k backend.Key, m machine.Message) (machine.Outcome, error) {
	if err := backend.ContextDone(ctx, "memory: "+op); err != nil {
		return machine.Outcome{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := m.(machine.Claim); ok {
		c.Floor = b.floor
		m = c
	}
	after, out := machine.Step(b.records[k], m, b.now())
	if out.Err != nil {
		return out, &backend.Error{Op: "memory: " + op, Kind: out.Err}
	}
	if out.Changed {
		b.store(k, after)
	}
	out.Claimed.Record = out.Claimed.Record.Clone()
	return out, nil
}

func (b *Backend) store(k backend.Key, r *backend.Record) {
	if r == nil {
		delete(b.records, k)
		return
	}
	c := r.Clone()
	c.LeaseLeft = 0
	b.records[k] = &c
	b.floor = max(b.floor, c.Token)
}

// Claim implements backend.Backend.
func (b *Backend) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	if err := c.Validate(); err != nil {
		return backend.Claimed{}, err
	}
	out, err := b.step(ctx, "claim", c.Key, machine.Claim{Claim: c})
	return out.Claimed, err
}

// Renew implements backend.Backend.
func (b *Backend) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	if err := l.ValidateRenewal(ttl); err != nil {
		return err
	}
	_, err := b.step(ctx, "renew", l.Key, machine.Renew{Lease: l, TTL: ttl})
	return err
}

// Checkpoint implements backend.Backend.
func (b *Backend) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	if err := c.Validate(l, 0); err != nil {
		return err
	}
	_, err := b.step(ctx, "checkpoint", l.Key, machine.Checkpoint{Lease: l, Checkpoint: c})
	return err
}

// Complete implements backend.Backend.
func (b *Backend) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if err := c.Validate(l, 0); err != nil {
		return err
	}
	_, err := b.step(ctx, "complete", l.Key, machine.Complete{Lease: l, Completion: c})
	return err
}

// Release implements backend.Backend.
func (b *Backend) Release(ctx context.Context, l backend.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	_, err := b.step(ctx, "release", l.Key, machine.Release{Lease: l})
	return err
}

// Get implements backend.Backend.
func (b *Backend) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	if err := k.Validate(); err != nil {
		return backend.Record{}, err
	}
	if err := backend.ContextDone(ctx, "memory: get"); err != nil {
		return backend.Record{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.records[k]
	if !ok {
		return backend.Record{}, &backend.Error{Op: "memory: get", Kind: backend.ErrNotFound}
	}
	c := r.Clone()
	c.LeaseLeft = machine.LeaseLeft(c, b.now())
	return c, nil
}

// Sweep implements backend.Backend.
func (b *Backend) Sweep(ctx context.Context, limit int) (int, error) {
	if err := backend.ValidateSweep(limit); err != nil {
		return 0, err
	}
	if err := backend.ContextDone(ctx, "memory: sweep"); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, n := b.now(), 0
	for k, r := range b.records {
		if n == limit {
			break
		}
		if after, out := machine.Step(r, machine.Sweep{}, now); out.Changed {
			b.store(k, after)
			n++
		}
	}
	return n, nil
}

// Lapsed implements backend.Lister.
func (b *Backend) Lapsed(ctx context.Context, yield func(backend.Lapse) bool) error {
	if err := backend.ContextDone(ctx, "memory: lapsed"); err != nil {
		return err
	}
	for _, l := range b.lapsed() {
		if !yield(l) {
			break
		}
	}
	return nil
}

func (b *Backend) lapsed() (all []backend.Lapse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, r := range b.records {
		if r.Status == backend.Started && machine.LeaseLeft(*r, b.now()) == 0 {
			all = append(all, backend.Lapse{Key: k, Operation: r.Operation, Token: r.Token, Attempt: r.Attempt})
		}
	}
	return all
}

// Describe implements backend.Backend.
func (b *Backend) Describe(context.Context) (backend.Description, error) {
	return backend.Description{
		Name:   "memory",
		Server: runtime.Version(),
		Capabilities: backend.Capabilities{
			Clock:         backend.ClockProcess,
			FreshReads:    true,
			TokensBreakOn: []string{"process end"},
		},
		Findings: []backend.Finding{{
			ID: "memory/volatile", Severity: backend.Unsafe,
			Text:   "records end with the process",
			Advice: "use sqlite, postgres, redis or etcd outside of tests",
		}},
	}, nil
}
