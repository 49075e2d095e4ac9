package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// rescue is the savepoint that a claim in the caller's transaction returns to when
// it may not wait any longer.
const rescue = "idem_claim"

// Bind implements backend.Transactor. What the view leaves behind in the
// transaction is the savepoint of Undo and, where it was off, synchronous_commit=on.
//
// A claim that meets a lock it may not wait for leaves the transaction usable. At
// repeatable read and above a claim of the same key by another transaction is
// ErrRetryTx. A write that is refused with ErrLeaseLost or ErrConflict also fails the
// transaction: what was done in it on the strength of the lease can't be
// committed, only rolled back.
func (b *Backend) Bind(tx pgx.Tx) backend.TxView { return &view{b: b, tx: tx} }

type view struct {
	b     *Backend
	tx    pgx.Tx
	point string // the savepoint to return to, if there is one
}

// Claim implements backend.TxView.
func (v *view) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	const what = "claim"
	if err := validate(c); err != nil {
		return backend.Claimed{}, err
	}
	if err := backend.ContextDone(ctx, op+what); err != nil {
		return backend.Claimed{}, err
	}
	var got backend.Claimed
	var err error
	for range tries {
		got, err = v.claim(ctx, c)
		if code(err) != lockNotAvailable && code(err) != uniqueViolation {
			break
		}
		if _, rescueErr := v.tx.Exec(ctx, "rollback to savepoint "+rescue+"; release savepoint "+rescue); rescueErr != nil {
			return backend.Claimed{}, readError(ctx, what, rescueErr)
		}
		if code(err) == lockNotAvailable {
			return hidden(c), nil
		}
	}
	if code(err) == uniqueViolation {
		return backend.Claimed{}, tooOften(what, err)
	}
	if err != nil {
		// Nothing is true before the caller's COMMIT.
		return backend.Claimed{}, readError(ctx, what, err)
	}
	if got.Acquired {
		v.point = point(c)
	}
	return got, nil
}

// point names the savepoint of a claim. A name that others have too would be that of
// the latest of them: an effect can contain calls for other keys.
func point(c backend.Claim) string { return savepoint + "_" + formatID(c.ID) }

// claim claims between two savepoints: the first is gone in the end, the second
// there only if the key was acquired.
func (v *view) claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	cl := newClaiming(v.tx, &v.b.within, c)
	var batch pgx.Batch
	batch.Queue("savepoint " + rescue)
	batch.Queue(v.b.within.claim, cl.args()...)
	br := v.tx.SendBatch(ctx, &batch)
	var r reading
	_, err := br.Exec()
	if err == nil {
		err = r.scan(br.QueryRow(), c.Key)
	}
	if closed := br.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return backend.Claimed{}, err
	}
	got, err := cl.finish(ctx, r)
	if err != nil {
		return got, err
	}
	end := "release savepoint " + rescue
	if got.Acquired {
		end += "; savepoint " + point(c)
	}
	_, err = v.tx.Exec(ctx, end)
	return got, err
}

// Get implements backend.TxView.
func (v *view) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	if err := k.Validate(); err != nil {
		return backend.Record{}, err
	}
	return v.b.get(ctx, v.tx, k)
}

// Checkpoint implements backend.TxView.
func (v *view) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	if err := c.Validate(l, MaxValue); err != nil {
		return err
	}
	return v.write(ctx, "checkpoint", l.Key, machine.Checkpoint{Lease: l, Checkpoint: c},
		v.b.within.checkpoint, checkpointArgs(wait(ctx), l, c))
}

// Complete implements backend.TxView.
func (v *view) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if err := c.Validate(l, MaxValue); err != nil {
		return err
	}
	return v.write(ctx, "complete", l.Key, machine.Complete{Lease: l, Completion: c},
		v.b.within.complete, completeArgs(wait(ctx), l, c))
}

func (v *view) write(ctx context.Context, what string, k backend.Key, m machine.Message, sql string, args []any) error {
	for range tries {
		done, verdict, err := v.b.tryWrite(ctx, v.tx, what, k, m, sql, args)
		switch {
		case err != nil:
			return readError(ctx, what, err)
		case verdict != nil:
			_, _ = v.tx.Exec(ctx, "SELECT 1 / 0")
			return verdict
		case done:
			return nil
		}
	}
	return tooOften(what, nil)
}

// Undo implements backend.TxView. It also makes a transaction usable again that
// a statement of the effect has failed.
func (v *view) Undo(ctx context.Context) error {
	const what = "undo"
	if v.point == "" {
		return invalid(what, "nothing was claimed in this transaction")
	}
	_, err := v.tx.Exec(ctx, "rollback to savepoint "+v.point)
	return readError(ctx, what, err)
}
