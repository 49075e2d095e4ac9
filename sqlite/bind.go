package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// point names the savepoint of a claim. A name that others have too would be that of
// the latest of them: an effect can contain calls for other keys.
func point(c backend.Claim) string { return "idem_claim_" + hex.EncodeToString(c.ID[:]) }

// view is the record's side of a transaction of the caller.
type view struct {
	b     *Backend
	tx    *sql.Tx
	point string // the savepoint to return to, if there is one
}

// Bind implements [backend.Transactor]. The transaction should be IMMEDIATE
// (_txlock=immediate in the DSN, as [Open] has it) or have the claim as its first
// statement: one that read before another one wrote can't write any more, and
// gets [backend.ErrRetryTx]. It must be one of this backend's pool. While it is
// open, the other methods of the backend wait for it like for any other writer,
// so don't call them before its end.
//
// After an error other than ErrLeaseLost, ErrConflict, ErrNotFound, ErrInvalid
// and ErrTooLarge roll the transaction back: SQLite may have done so already, and
// would commit each later statement by itself. The same goes for the statements of
// the effect: one that is interrupted, or refused by RAISE(ROLLBACK) or OR ROLLBACK,
// ends the transaction, and here, other than in Transact, nothing stops what an
// effect that goes on after it writes.
func (b *Backend) Bind(tx *sql.Tx) backend.TxView { return &view{b: b, tx: tx} }

func (v *view) enter(op string) error {
	if v.tx == nil {
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "the transaction is nil"}
	}
	return nil
}

// step runs one message on the record of a key within the transaction.
func (v *view) step(ctx context.Context, op string, k backend.Key, m machine.Message) (machine.Outcome, error) {
	if err := v.enter(op); err != nil {
		return machine.Outcome{}, err
	}
	if err := backend.ContextDone(ctx, op); err != nil {
		return machine.Outcome{}, err
	}
	// Locking first means that what is read below is the latest, or that the
	// transaction fails here.
	if _, err := v.tx.ExecContext(ctx, v.b.sql.lock); err != nil {
		return machine.Outcome{}, v.fail(ctx, op, err)
	}
	_, out, err := v.b.sql.step(ctx, v.tx, k, m, v.b.now())
	if err != nil {
		return machine.Outcome{}, v.fail(ctx, op, err)
	}
	if out.Err != nil {
		return machine.Outcome{}, &backend.Error{Op: op, Kind: out.Err}
	}
	return out, nil
}

func (v *view) fail(ctx context.Context, op string, err error) error {
	return boundError(ctx, v.tx, v.b.cfg.table, op, err)
}

// Claim implements [backend.TxView].
func (v *view) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	const op = "sqlite: claim in transaction"
	if err := c.Validate(); err != nil {
		return backend.Claimed{}, err
	}
	out, err := v.step(ctx, op, c.Key, machine.Claim{Claim: roundClaim(c)})
	if err != nil {
		return backend.Claimed{}, err
	}
	if out.Claimed.Acquired {
		if err := savepoint(ctx, v.tx, "SAVEPOINT "+point(c)); err != nil {
			return backend.Claimed{}, v.fail(ctx, op, err)
		}
		v.point = point(c)
	}
	out.Claimed.Record = out.Claimed.Record.Clone()
	return out.Claimed, nil
}

// Get implements [backend.TxView].
func (v *view) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	const op = "sqlite: get in transaction"
	if err := k.Validate(); err != nil {
		return backend.Record{}, err
	}
	if err := v.enter(op); err != nil {
		return backend.Record{}, err
	}
	r, err := v.b.sql.load(ctx, v.tx, k)
	if err != nil {
		return backend.Record{}, v.fail(ctx, op, err)
	}
	return found(op, r, v.b.now())
}

// Checkpoint implements [backend.TxView].
func (v *view) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	if err := c.Validate(l, maxValue); err != nil {
		return err
	}
	_, err := v.step(ctx, "sqlite: checkpoint in transaction", l.Key, machine.Checkpoint{Lease: l, Checkpoint: c})
	return err
}

// Complete implements [backend.TxView].
func (v *view) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if err := c.Validate(l, maxValue); err != nil {
		return err
	}
	_, err := v.step(ctx, "sqlite: complete in transaction", l.Key, machine.Complete{Lease: l, Completion: c})
	return err
}

// Undo implements [backend.TxView].
func (v *view) Undo(ctx context.Context) error {
	const op = "sqlite: undo"
	if err := v.enter(op); err != nil {
		return err
	}
	if v.point == "" {
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "nothing was claimed in this transaction"}
	}
	err := savepoint(ctx, v.tx, "ROLLBACK TO "+v.point)
	if code(err) == codeGeneric {
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Err: err, Hint: "the transaction has ended"}
	}
	if err != nil {
		return v.fail(ctx, op, err)
	}
	return nil
}
