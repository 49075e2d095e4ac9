package conformance_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

type stepFunc func(r *backend.Record, m machine.Message, now time.Time) (*backend.Record, machine.Outcome)

// faulty is memory.Backend with joints where a fault can be put. Without one it
// keeps the contract.
type faulty struct {
	now func() time.Time

	step     stepFunc                                          // the machine
	identity func(k backend.Key) backend.Key                   // what tells keys apart
	check    func(err error) error                             // the verdict on an argument
	done     func(ctx context.Context, op string) error        // the verdict on a context
	keep     func(r backend.Record) backend.Record             // what is stored of a record
	show     func(r backend.Record) backend.Record             // what is returned of it
	fail     func(k backend.Key, kind error, op string) error  // the error of a kind
	describe func(d backend.Description) backend.Description   // what it says of itself
	floor    bool                                              // tokens grow over deletions
	gap      func()                                            // between reading and writing; nil: both are one step
	sweep    func(limit int, changed []backend.Key) (int, int) // how many it may change, how many it says it did
	read     func(r *backend.Record)                           // what a Get does to a record
	stale    bool                                              // handles show what they showed before
	capacity int                                               // of records, the oldest is evicted
	alone    bool                                              // every handle has a store of its own
	local    bool                                              // handles go by the clock of their process
	crash    func(s *state, now time.Time)                     // what a kill does
	cut      func(ctx context.Context, op string) error        // the error of a call without an answer
	wait     func(ctx context.Context) context.Context         // how long a call waits for one
	vanish   bool                                              // records go by themselves
	await    awaitFunc                                         // how it waits for a key
	inherit  func(s *state)                                    // what becomes of the records in a failover
	unsure   func(op string) error                             // the error of a call that no copy has; nil: none
	late     time.Duration                                     // how long after their time
	transact bool                                              // handles have transactions
	lapsed   func(r *backend.Record, now time.Time) bool       // what it lists
	listed   func(all []backend.Lapse) []backend.Lapse         // and how; nil: as it is
	goesOn   bool                                              // and whether its caller can end it
	warm     bool                                              // only the handle that completed knows the fingerprint

	*state
}

// state is what all handles share.
type state struct {
	mu      sync.Mutex
	records map[backend.Key]*backend.Record
	order   []backend.Key
	highest backend.Token
	kills   int
	silent  chan struct{} // closed when calls arrive again; nil: they do
	lost    bool          // calls don't arrive

	copied   map[backend.Key]*backend.Record // what the copies have; nil: everything
	promoted bool                            // one of them has taken over
}

func newFaulty(now func() time.Time, fault func(f *faulty)) *faulty {
	f := &faulty{
		now: now, step: machine.Step, floor: true, state: &state{records: make(map[backend.Key]*backend.Record)},
		identity: func(k backend.Key) backend.Key { return k },
		check:    func(err error) error { return err },
		done:     backend.ContextDone,
		keep:     backend.Record.Clone,
		show:     backend.Record.Clone,
		fail: func(_ backend.Key, kind error, op string) error {
			return &backend.Error{Op: "faulty: " + op, Kind: kind}
		},
		describe: func(d backend.Description) backend.Description { return d },
		crash:    func(*state, time.Time) {},
		inherit:  func(*state) {},
		wait:     func(ctx context.Context) context.Context { return ctx },
		cut: func(ctx context.Context, op string) error {
			return &backend.Error{Op: "faulty: " + op, Err: context.Cause(ctx)}
		},
		read:  func(*backend.Record) {},
		await: awaitHeld, lapsed: isLapsed,
		sweep: func(limit int, changed []backend.Key) (int, int) { return limit, len(changed) },
	}
	fault(f)
	return f
}

// arrive runs a message on the record of a key.
func (f *faulty) arrive(ctx context.Context, op string, k backend.Key, m machine.Message, err error) (machine.Outcome, error) {
	if err := f.check(err); err != nil {
		return machine.Outcome{}, err
	}
	if err := f.done(ctx, "faulty: "+op); err != nil {
		return machine.Outcome{}, err
	}
	return send(ctx, f, op, func() (machine.Outcome, error) { return f.apply(op, k, m) })
}

// apply is what the server does.
func (f *faulty) apply(op string, k backend.Key, m machine.Message) (machine.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := m.(machine.Claim); ok && f.floor {
		c.Floor = f.highest
		m = c
	}
	id := f.identity(k)
	after, out := f.step(f.records[id], m, f.now())
	if out.Err != nil {
		return out, f.fail(k, out.Err, op)
	}
	if f.gap != nil {
		f.mu.Unlock()
		f.gap()
		f.mu.Lock()
	}
	if out.Changed {
		f.store(id, after)
	}
	left := out.Claimed.Record.LeaseLeft
	out.Claimed.Record = f.show(out.Claimed.Record)
	if out.Claimed.Record.LeaseLeft == 0 {
		out.Claimed.Record.LeaseLeft = left
	}
	return out, nil
}

func (f *faulty) store(id backend.Key, r *backend.Record) {
	if r == nil {
		delete(f.records, id)
		return
	}
	if f.records[id] == nil {
		f.order = append(f.order, id)
		if f.capacity > 0 && len(f.order) > f.capacity {
			delete(f.records, f.order[0])
			f.order = f.order[1:]
		}
	}
	c := f.keep(*r)
	c.LeaseLeft = 0
	f.records[id] = &c
	f.highest = max(f.highest, c.Token)
}

func (f *faulty) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	if len(c.Fingerprints) == 0 { // nothing works without
		return backend.Claimed{}, c.Validate()
	}
	out, err := f.arrive(ctx, "claim", c.Key, machine.Claim{Claim: c}, c.Validate())
	return out.Claimed, err
}

func (f *faulty) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	_, err := f.arrive(ctx, "renew", l.Key, machine.Renew{Lease: l, TTL: ttl}, l.ValidateRenewal(ttl))
	return err
}

func (f *faulty) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	_, err := f.arrive(ctx, "checkpoint", l.Key, machine.Checkpoint{Lease: l, Checkpoint: c}, c.Validate(l, maxValue))
	return err
}

func (f *faulty) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	_, err := f.arrive(ctx, "complete", l.Key, machine.Complete{Lease: l, Completion: c}, c.Validate(l, maxValue))
	return err
}

func (f *faulty) Release(ctx context.Context, l backend.Lease) error {
	_, err := f.arrive(ctx, "release", l.Key, machine.Release{Lease: l}, l.Validate())
	return err
}

func (f *faulty) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	if err := errors.Join(f.check(k.Validate()), f.done(ctx, "faulty: get")); err != nil {
		return backend.Record{}, err
	}
	return send(ctx, f, "get", func() (backend.Record, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		r, ok := f.records[f.identity(k)]
		if !ok || f.vanish && r.Status == backend.Completed && !f.now().Before(r.CompletedAt.Add(r.Retention+f.late)) {
			return backend.Record{}, f.fail(k, backend.ErrNotFound, "get")
		}
		f.read(r)
		c := f.show(*r)
		if c.LeaseLeft == 0 {
			c.LeaseLeft = machine.LeaseLeft(c, f.now())
		}
		return c, nil
	})
}

func (f *faulty) Sweep(ctx context.Context, limit int) (int, error) {
	if err := errors.Join(f.check(backend.ValidateSweep(limit)), f.done(ctx, "faulty: sweep")); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	type change struct {
		id    backend.Key
		after *backend.Record
	}
	var changes []change
	most, _ := f.sweep(limit, nil)
	for id, r := range f.records {
		if after, out := f.step(r, machine.Sweep{}, f.now()); out.Changed && len(changes) < most {
			changes = append(changes, change{id, after})
		}
	}
	if f.gap != nil && len(changes) > 0 {
		f.mu.Unlock()
		f.gap()
		f.mu.Lock()
	}
	var keys []backend.Key
	for _, c := range changes {
		f.store(c.id, c.after)
		keys = append(keys, c.id)
	}
	_, n := f.sweep(limit, keys)
	return n, nil
}

const maxValue = 2 << 20

func (f *faulty) Describe(context.Context) (backend.Description, error) {
	return f.describe(backend.Description{
		Name: "faulty",
		Capabilities: backend.Capabilities{
			Clock: backend.ClockServer, DurableKill: true, Shared: true, FreshReads: true,
			MaxValue: maxValue, TokensBreakOn: []string{"restore"},
		},
	}), nil
}

// open gives another handle.
func (f *faulty) open() backend.Backend {
	h := *f
	switch {
	case f.alone:
		return newFaulty(f.now, func(n *faulty) { n.describe = f.describe })
	case f.transact:
		return transacting{&h}
	case f.warm:
		h.remember()
	case f.stale:
		return &stale{faulty: &h, seen: make(map[backend.Key]backend.Record)}
	}
	return &h
}

// skewed gives a handle in a process with another clock.
func (f *faulty) skewed(by time.Duration) backend.Backend {
	h := *f
	if f.local {
		h.now = func() time.Time { return f.now().Add(by) }
	}
	return &h
}

// remember lets a handle keep for itself what the store forgets on completion.
func (f *faulty) remember() {
	own := make(map[backend.Key]backend.Fingerprint)
	known := func(r backend.Record) backend.Record {
		if fp, ok := own[r.Key]; ok && r.Status == backend.Completed {
			r.Fingerprint = fp
		}
		return r
	}
	f.show = func(r backend.Record) backend.Record { return known(r.Clone()) }
	f.step = func(r *backend.Record, m machine.Message, now time.Time) (*backend.Record, machine.Outcome) {
		if r != nil {
			n := known(*r)
			r = &n
		}
		after, out := machine.Step(r, m, now)
		if _, ok := m.(machine.Complete); ok && out.Changed {
			n := *after
			own[n.Key], n.Fingerprint = n.Fingerprint, backend.Fingerprint{}
			after = &n
		}
		return after, out
	}
}

// transacting is a handle that looks as if it had transactions.
type transacting struct{ *faulty }

// Transact does nothing: no case of those for a mere Backend calls it.
func (transacting) Transact() {}

// stale is a handle that shows a record as it saw it first.
type stale struct {
	*faulty
	seen map[backend.Key]backend.Record
}

func (s *stale) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	r, err := s.faulty.Get(ctx, k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.seen[k]; ok {
		return old, nil
	}
	if err == nil {
		s.seen[k] = r
	}
	return r, err
}
