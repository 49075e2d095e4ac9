package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// InLease implements backend.Transactor. BEGIN and the lock of the record travel
// together, and the record's update and COMMIT. The step's transaction is that of
// Transact.
func (b *Backend) InLease(ctx context.Context, l backend.Lease, seq backend.Sequence, step func(ctx context.Context, tx pgx.Tx) (backend.Step, error)) (backend.Record, error) {
	const what = "step"
	if err := l.Validate(); err != nil {
		return backend.Record{}, err
	}
	if step == nil || seq < 1 {
		return backend.Record{}, invalid(what, "the step is nil or its sequence below 1")
	}
	w, r, err := b.begin(ctx, what, l.Key, b.within.lockFirst, []any{wait(ctx), l.Key.Tenant, l.Key.Actor, l.Key.Value})
	defer w.end(ctx)
	if err != nil {
		return backend.Record{}, readError(ctx, what, err)
	}
	w.sent = w.sent.Add(r.now.Sub(r.at)) // it may have waited for the lock
	rec := r.record
	rec.LeaseLeft = machine.LeaseLeft(rec, r.now)
	switch {
	case r.what == nothing || rec.Holder() != l:
		return backend.Record{}, &backend.Error{Op: op + what, Kind: backend.ErrLeaseLost}
	case rec.Status == backend.Completed || rec.Sequence >= seq:
		return rec, nil
	}
	var s backend.Step
	err = w.run(ctx, rec.Lease, func(ctx context.Context, tx pgx.Tx) (err error) {
		s, err = step(ctx, tx)
		return err
	})
	if w.ended() {
		if err != nil {
			s = backend.Step{Response: &backend.Response{Tombstone: backend.NotStored}}
		}
		return backend.Record{}, w.errEnded(err, b.storeEnded(ctx, w, l, seq, s))
	}
	if err != nil {
		return backend.Record{}, err
	}
	m, sql, args, err := b.store(l, seq, s)
	if err != nil {
		return backend.Record{}, err
	}
	u, err := w.commit(ctx, rec.Lease, s.Undo, sql, args)
	if err != nil {
		return backend.Record{}, err
	}
	after, _ := machine.Step(&rec, m, u.at)
	out := after.Clone()
	out.LeaseLeft = machine.LeaseLeft(out, u.now)
	return out, nil
}

// store gives the update that stores what a step leaves behind.
func (b *Backend) store(l backend.Lease, seq backend.Sequence, s backend.Step) (m machine.Message, sql string, args []any, err error) {
	if s.Response != nil {
		c := backend.Completion{Sequence: seq, Response: *s.Response}
		return machine.Complete{Lease: l, Completion: c}, b.within.completeLast, completeArgs(lockTimeout(holderWait), l, c), c.Validate(l, MaxValue)
	}
	if s.Undo {
		return nil, "", nil, invalid("step", "a step that is undone has no recovery point: return an error, or a response")
	}
	c := backend.Checkpoint{Sequence: seq, Point: s.Point, State: s.State}
	return machine.Checkpoint{Lease: l, Checkpoint: c}, b.within.checkpointLast, checkpointArgs(lockTimeout(holderWait), l, c), c.Validate(l, MaxValue)
}

// storeEnded stores the outcome of a step that ended its transaction.
func (b *Backend) storeEnded(ctx context.Context, w *work, l backend.Lease, seq backend.Sequence, s backend.Step) error {
	m, _, args, err := b.store(l, seq, s)
	if err != nil {
		return err
	}
	sql := b.alone.checkpoint
	if s.Response != nil {
		sql = b.alone.complete
	}
	return b.writeEnded(ctx, w, l.Key, m, sql, args)
}
