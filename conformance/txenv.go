package conformance

import (
	"context"
	"errors"

	"github.com/idem-go/idem/backend"
)

// txEnv is what a case of transactions works with. The effects of a case are
// named after the key they belong to.
type txEnv[Tx any] struct {
	*env
	tx    TxHandle[Tx]
	store TxStore[Tx]
}

// errEffect is what an effect fails with.
var errEffect = errors.New("the effect failed")

type effect[Tx any] = func(ctx context.Context, tx Tx, held backend.Claimed) (backend.Effect, error)

type step[Tx any] = func(ctx context.Context, tx Tx) (backend.Step, error)

// effect writes a row and returns the response "done".
func (e *txEnv[Tx]) effect(name string) effect[Tx] {
	return func(ctx context.Context, tx Tx, _ backend.Claimed) (backend.Effect, error) {
		return backend.Effect{Response: answer(1, "done").Response}, e.store.Put(ctx, tx, name)
	}
}

// failing is effect with an error, after its write.
func (e *txEnv[Tx]) failing(name string, err error) effect[Tx] {
	return func(ctx context.Context, tx Tx, _ backend.Claimed) (backend.Effect, error) {
		return backend.Effect{Response: answer(1, "done").Response}, errors.Join(e.store.Put(ctx, tx, name), err)
	}
}

// step writes a row and returns s.
func (e *txEnv[Tx]) step(name string, s backend.Step) step[Tx] {
	return func(ctx context.Context, tx Tx) (backend.Step, error) {
		return s, e.store.Put(ctx, tx, name)
	}
}

// never is an effect that must not be called.
func (e *txEnv[Tx]) never(call string) effect[Tx] {
	return func(context.Context, Tx, backend.Claimed) (backend.Effect, error) {
		e.Errorf("%s: the effect was called, want it not to be", call)
		return backend.Effect{}, errEffect
	}
}

func (e *txEnv[Tx]) neverStep(call string) step[Tx] {
	return func(context.Context, Tx) (backend.Step, error) {
		e.Errorf("%s: the step was called, want it not to be", call)
		return backend.Step{}, errEffect
	}
}

// transact runs an effect that is to be stored.
func (e *txEnv[Tx]) transact(call string, c backend.Claim, f effect[Tx]) backend.Record {
	e.Helper()
	got, err := e.tx.Transact(e.Context(), c, f)
	e.ok(call, err)
	r := got.Record
	if !got.Acquired || got.Hidden || r.Status != backend.Completed || r.ClaimID != c.ID {
		e.Fatalf("%s: acquired = %v, hidden = %v, a %v record, of this claim: %v; want true, false, completed, true",
			call, got.Acquired, got.Hidden, r.Status, r.ClaimID == c.ID)
	}
	e.same(call+": record returned", r, e.get(c.Key))
	return r
}

// refuseTx is refuse for Transact: the effect isn't called.
func (e *txEnv[Tx]) refuseTx(call string, c backend.Claim) backend.Record {
	e.Helper()
	before := e.get(c.Key)
	got, err := e.tx.Transact(e.Context(), c, e.never(call))
	e.ok(call, err)
	if got.Acquired || got.Hidden {
		e.Errorf("%s: acquired = %v, hidden = %v, want the %v record as it stands", call, got.Acquired, got.Hidden, before.Status)
	}
	e.same(call+": record returned", got.Record, before)
	e.same(call+": record after", e.get(c.Key), before)
	return got.Record
}

// rows checks how many rows of an effect are committed.
func (e *txEnv[Tx]) rows(when, name string, want int) {
	e.Helper()
	got, err := e.store.Count(e.Context(), name)
	e.ok("Count", err)
	if got != want {
		e.Errorf("rows of the effect %s = %d, want %d", when, got, want)
	}
}

// unseen checks, with a handle of its own, that a running transaction shows
// nothing to others.
func (e *txEnv[Tx]) unseen(other backend.Backend, k backend.Key, want backend.Record) {
	e.Helper()
	r, err := other.Get(e.Context(), k)
	if want.Status == 0 {
		if !errors.Is(err, backend.ErrNotFound) {
			e.Errorf("Get before the COMMIT = %v record, %v, want ErrNotFound", r.Status, err)
		}
	} else {
		e.ok("Get before the COMMIT", err)
		e.same("Get before the COMMIT", r, want)
	}
	e.rows("before the COMMIT", k.Value, 0)
}

// panics calls f and checks that it panics with what the effect panicked with.
func (e *env) panics(call string, f func()) {
	e.Helper()
	defer func() {
		if p := recover(); p != any(errEffect) {
			e.Errorf("%s with a panic in it: recovered %v, want the panic itself", call, p)
		}
	}()
	f()
}
