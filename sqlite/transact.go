package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// Transact implements [backend.Transactor]. The transaction is IMMEDIATE: from
// before the claim until the end of the effect no other transaction writes the
// file, and ErrRetryTx never happens. The effect's context ends after a third of
// the lease or the busy budget, whichever is shorter.
func (b *Backend) Transact(ctx context.Context, c backend.Claim, effect func(ctx context.Context, tx *sql.Tx, held backend.Claimed) (backend.Effect, error)) (backend.Claimed, error) {
	const op = "sqlite: transact"
	if err := c.Validate(); err != nil {
		return backend.Claimed{}, err
	}
	if effect == nil {
		return backend.Claimed{}, &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "the effect is nil"}
	}
	if err := b.enter(ctx, op); err != nil {
		return backend.Claimed{}, err
	}
	c = roundClaim(c)
	leave, hidden, err := b.mine.enter(ctx, op, c.Key, c.Wait)
	if hidden || err != nil {
		return backend.Claimed{Hidden: hidden, Record: backend.Record{Key: c.Key}}, err
	}
	defer leave()
	if found, ok, err := b.peek(ctx, op, c); ok || err != nil {
		return found, err
	}

	t, err := b.lock(ctx, op)
	if err != nil {
		return backend.Claimed{}, err
	}
	defer t.rollback()
	in := context.WithoutCancel(ctx)
	r, out, err := b.sql.step(in, t, c.Key, machine.Claim{Claim: c}, b.now())
	if err != nil {
		return backend.Claimed{}, t.explain(in, op, err)
	}
	if !out.Claimed.Acquired {
		return out.Claimed, nil
	}
	held := backend.Claimed{Acquired: true, Record: out.Claimed.Record.Clone()}
	eff, err := guarded(ctx, t, op, r.Lease, func(ctx context.Context) (backend.Effect, bool, error) {
		e, err := effect(ctx, t.Tx, held)
		return e, e.Undo, err
	})
	if err != nil {
		return backend.Claimed{}, err
	}
	done := backend.Completion{Sequence: r.Sequence + 1, Response: eff.Response}
	if err := done.Validate(r.Holder(), maxValue); err != nil {
		return backend.Claimed{}, err
	}
	r, err = b.finish(in, t, op, r, machine.Complete{Lease: r.Holder(), Completion: done})
	return backend.Claimed{Acquired: err == nil, Record: r.Clone()}, err
}

// InLease implements [backend.Transactor]. The step is bounded like the effect of
// [Backend.Transact].
func (b *Backend) InLease(ctx context.Context, l backend.Lease, seq backend.Sequence, step func(ctx context.Context, tx *sql.Tx) (backend.Step, error)) (backend.Record, error) {
	const op = "sqlite: in lease"
	if err := l.Validate(); err != nil {
		return backend.Record{}, err
	}
	if step == nil || seq < 1 {
		return backend.Record{}, &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "the step is nil or its sequence below 1"}
	}
	if err := b.enter(ctx, op); err != nil {
		return backend.Record{}, err
	}
	t, err := b.lock(ctx, op)
	if err != nil {
		return backend.Record{}, err
	}
	defer t.rollback()
	in := context.WithoutCancel(ctx)
	r, err := b.sql.load(in, t, l.Key)
	if err != nil {
		return backend.Record{}, t.explain(in, op, err)
	}
	switch {
	case r == nil || r.ClaimID != l.ClaimID || r.Token != l.Token:
		return backend.Record{}, &backend.Error{Op: op, Kind: backend.ErrLeaseLost}
	case r.Status == backend.Completed || r.Sequence >= seq:
		return found(op, r, b.now())
	}
	s, err := guarded(ctx, t, op, r.Lease, func(ctx context.Context) (backend.Step, bool, error) {
		s, err := step(ctx, t.Tx)
		if err == nil && s.Undo && s.Response == nil {
			err = &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "a step can be undone only together with a response"}
		}
		return s, s.Undo, err
	})
	if err != nil {
		return backend.Record{}, err
	}
	m, err := stepMessage(l, seq, s)
	if err != nil {
		return backend.Record{}, err
	}
	r, err = b.finish(in, t, op, r, m)
	return r.Clone(), err
}

func stepMessage(l backend.Lease, seq backend.Sequence, s backend.Step) (machine.Message, error) {
	if s.Response != nil {
		c := backend.Completion{Sequence: seq, Response: *s.Response}
		return machine.Complete{Lease: l, Completion: c}, c.Validate(l, maxValue)
	}
	c := backend.Checkpoint{Sequence: seq, Point: s.Point, State: s.State}
	return machine.Checkpoint{Lease: l, Checkpoint: c}, c.Validate(l, maxValue)
}

// finish stores what ends the effect or step and commits.
func (b *Backend) finish(ctx context.Context, t *txn, op string, r *backend.Record, m machine.Message) (*backend.Record, error) {
	after, out := machine.Step(r, m, b.now())
	if out.Err != nil {
		return &backend.Record{}, &backend.Error{Op: op, Kind: out.Err}
	}
	if err := b.sql.store(ctx, t, r, after); err != nil {
		return &backend.Record{}, t.explain(ctx, op, err)
	}
	if err := t.commit(op); err != nil {
		return &backend.Record{}, err
	}
	after.LeaseLeft = machine.LeaseLeft(*after, b.now())
	return after, nil
}

// errBound is the cause that the effect's context ends with.
var errBound = errors.New("sqlite: the effect outlasted a third of its lease or the busy budget")

const effectPoint = "idem_effect"

// guarded runs the caller's code within the transaction. It bounds its context,
// keeps it from ending the transaction and takes its writes back if it says so.
func guarded[R any](ctx context.Context, t *txn, op string, lease time.Duration, f func(context.Context) (result R, undo bool, err error)) (R, error) {
	var none R
	in := context.WithoutCancel(ctx)
	refuse, err := t.refuseCommits(op)
	if err != nil {
		return none, err
	}
	defer refuse.lift()
	if err := savepoint(in, t, "SAVEPOINT "+effectPoint); err != nil {
		return none, notApplied(op, err)
	}
	ectx, cancel := context.WithTimeoutCause(context.WithValue(ctx, nested{t.b}, true), min(lease/3, t.b.cfg.budget), errBound)
	defer cancel()
	out, undo, err := f(ectx)
	if err != nil {
		return none, effectError(ectx, op, err)
	}
	// The savepoint is there if and only if the transaction still is.
	end := "RELEASE " + effectPoint
	if undo {
		end = "ROLLBACK TO " + effectPoint
	}
	if err := savepoint(in, t, end); err != nil {
		return none, &backend.Error{Op: op, Kind: backend.ErrInvalid, Err: err, Hint: "the effect must not end its transaction, nor go on after one of its statements was interrupted; nothing was stored"}
	}
	return out, nil
}

// effectError adds to an error of the effect what it can't know. All others come
// back as they are.
func effectError(ctx context.Context, op string, err error) error {
	switch {
	case code(err) == lib.SQLITE_CONSTRAINT_COMMITHOOK:
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Err: err, Hint: "the effect must not end its transaction; nothing was stored"}
	case errors.Is(context.Cause(ctx), errBound):
		return &backend.Error{Op: op, Kind: backend.ErrUnavailable, Err: err, Hint: "the effect took longer than a third of its lease or the busy budget and was rolled back; it must write with its transaction, not with the pool"}
	}
	return err
}

// refusal is a commit hook that turns each COMMIT on a connection into a
// rollback.
type refusal struct {
	conn   *sql.Conn
	lifted atomic.Bool
}

// refuseCommits holds until lift. It stops a COMMIT by the effect, and what the
// effect writes after SQLite rolled its transaction back, where every statement
// would commit by itself.
func (t *txn) refuseCommits(op string) (*refusal, error) {
	r := &refusal{conn: t.conn}
	hook := func() int32 {
		if r.lifted.Load() {
			return 0
		}
		return 1
	}
	if err := r.set(hook); err != nil {
		return nil, notApplied(op, err)
	}
	return r, nil
}

func (r *refusal) set(hook sqlite3.CommitHookFn) error {
	return r.conn.Raw(func(dc any) error {
		h := hooksOf(dc)
		if h == nil {
			return errors.New("the connection has no commit hook")
		}
		h.RegisterCommitHook(hook)
		return nil
	})
}

func (r *refusal) lift() {
	r.lifted.Store(true)
	_ = r.set(nil) // the connection is gone if this fails
}

// hooksOf finds the driver's connection below those of wrappers.
func hooksOf(dc any) sqlite3.HookRegisterer {
	for dc != nil {
		if h, ok := dc.(sqlite3.HookRegisterer); ok {
			return h
		}
		w, ok := dc.(interface{ Unwrap() driver.Conn })
		if !ok {
			return nil
		}
		dc = w.Unwrap()
	}
	return nil
}
