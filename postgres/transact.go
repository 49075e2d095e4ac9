package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// Transact implements backend.Transactor. BEGIN and claim travel together, and
// completion and COMMIT. The effect's transaction refuses Commit and Rollback;
// nested transactions (Begin) are fine. The server ends the session, and with it
// the transaction, if it is idle in it for longer than the lease. A caller whose
// context ends after its effect has returned does not stop the COMMIT.
//
// A transaction that the effect ends all the same, with a COMMIT in SQL, is
// ErrInvalid. Its record is completed then, because its writes may be there.
func (b *Backend) Transact(ctx context.Context, c backend.Claim, effect func(ctx context.Context, tx pgx.Tx, held backend.Claimed) (backend.Effect, error)) (backend.Claimed, error) {
	const what = "transact"
	if err := validate(c); err != nil {
		return backend.Claimed{}, err
	}
	if effect == nil {
		return backend.Claimed{}, invalid(what, "the effect is nil")
	}
	var last error
	for range tries {
		w, got, err := b.beginClaim(ctx, what, c)
		if err == nil && got.Acquired {
			return b.transact(ctx, w, got, effect)
		}
		w.end(ctx)
		switch code(err) {
		case lockNotAvailable:
			return hidden(c), nil
		case uniqueViolation: // an index is being rebuilt concurrently
			last = err
			continue
		}
		// No COMMIT was sent: whatever happened, nothing was done.
		return got, readError(ctx, what, err)
	}
	return backend.Claimed{}, tooOften(what, last)
}

// beginClaim begins a transaction and claims in it. The work has to be ended, also
// after an error.
func (b *Backend) beginClaim(ctx context.Context, what string, c backend.Claim) (*work, backend.Claimed, error) {
	cl := newClaiming(nil, &b.within, c)
	w, r, err := b.begin(ctx, what, c.Key, b.within.claimFirst, cl.args())
	if err != nil {
		return w, backend.Claimed{}, err
	}
	cl.q = w.tx
	got, err := cl.finish(ctx, r)
	if cl.moved {
		w.sent = cl.sent
	}
	if err == nil && got.Acquired && cl.moved {
		err = w.mark(ctx)
	}
	return w, got, err
}

// finish is settle within a transaction that goes on.
func (cl *claiming) finish(ctx context.Context, r reading) (backend.Claimed, error) {
	for range tries {
		got, done, err := cl.settle(ctx, r)
		if err != nil || done {
			return got, err
		}
		cl.moved, cl.sent = true, time.Now()
		r = reading{}
		if err := r.scan(cl.q.QueryRow(ctx, cl.sql.claim, cl.args()...), cl.c.Key); err != nil {
			return got, err
		}
	}
	return backend.Claimed{}, tooOften("claim", nil)
}

// transact runs the effect in a transaction that holds the key, and completes.
func (b *Backend) transact(ctx context.Context, w *work, got backend.Claimed, effect func(context.Context, pgx.Tx, backend.Claimed) (backend.Effect, error)) (backend.Claimed, error) {
	defer w.end(ctx)
	rec := got.Record
	var eff backend.Effect
	err := w.run(ctx, rec.Lease, func(ctx context.Context, tx pgx.Tx) (err error) {
		eff, err = effect(ctx, tx, backend.Claimed{Acquired: true, Record: rec.Clone()})
		return err
	})
	l := rec.Holder()
	done := backend.Completion{Sequence: rec.Sequence + 1, Response: eff.Response}
	if w.ended() {
		if err != nil {
			done.Response = backend.Response{Tombstone: backend.NotStored}
		}
		return backend.Claimed{}, w.errEnded(err, b.writeEnded(ctx, w, l.Key, machine.Complete{Lease: l, Completion: done},
			b.alone.complete, completeArgs(lockTimeout(holderWait), l, done)))
	}
	if err != nil {
		return backend.Claimed{}, err
	}
	if err := done.Validate(l, MaxValue); err != nil {
		return backend.Claimed{}, err
	}
	u, err := w.commit(ctx, rec.Lease, eff.Undo, b.within.completeLast, completeArgs(lockTimeout(holderWait), l, done))
	if err != nil {
		return backend.Claimed{}, err
	}
	after, _ := machine.Step(&rec, machine.Complete{Lease: l, Completion: done}, u.at)
	return backend.Claimed{Acquired: true, Record: after.Clone()}, nil
}

// writeEnded writes the record of a transaction that its effect has ended. It is
// never released: what the effect wrote may be committed.
func (b *Backend) writeEnded(ctx context.Context, w *work, k backend.Key, m machine.Message, sql string, args []any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holderWait)
	defer cancel()
	_, verdict, err := b.tryWrite(ctx, w.conn, w.what, k, m, sql, args)
	if err != nil {
		return err
	}
	return verdict
}
