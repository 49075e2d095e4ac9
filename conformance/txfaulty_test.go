package conformance_test

import (
	"context"
	"database/sql"
	"errors"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/sqlite"
)

type (
	tx     = *sql.Tx
	effect = func(ctx context.Context, tx tx, held backend.Claimed) (backend.Effect, error)
	step   = func(ctx context.Context, tx tx) (backend.Step, error)
)

// faultyTx is sqlite with other transactions.
type faultyTx struct {
	*sqlite.Backend
	db       *sql.DB
	transact func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error)
	inLease  func(f *faultyTx, ctx context.Context, l backend.Lease, seq backend.Sequence, s step) (backend.Record, error)
	bind     func(f *faultyTx, v backend.TxView) backend.TxView
	describe func(d *backend.Description)
}

func (f *faultyTx) Transact(ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
	if f.transact == nil {
		return f.Backend.Transact(ctx, c, e)
	}
	return f.transact(f, ctx, c, e)
}

func (f *faultyTx) InLease(ctx context.Context, l backend.Lease, seq backend.Sequence, s step) (backend.Record, error) {
	if f.inLease == nil {
		return f.Backend.InLease(ctx, l, seq, s)
	}
	return f.inLease(f, ctx, l, seq, s)
}

func (f *faultyTx) Bind(tx tx) backend.TxView {
	v := f.Backend.Bind(tx)
	if f.bind == nil {
		return v
	}
	return f.bind(f, v)
}

func (f *faultyTx) Describe(ctx context.Context) (backend.Description, error) {
	d, err := f.Backend.Describe(ctx)
	if f.describe != nil {
		f.describe(&d)
	}
	return d, err
}

// effecting changes what Transact makes of an effect.
func effecting(change func(e effect) effect) func(f *faultyTx) {
	return func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			return f.Backend.Transact(ctx, c, change(e))
		}
	}
}

// stepping changes what InLease makes of a step.
func stepping(change func(s step) step) func(f *faultyTx) {
	return func(f *faultyTx) {
		f.inLease = func(f *faultyTx, ctx context.Context, l backend.Lease, seq backend.Sequence, s step) (backend.Record, error) {
			return f.Backend.InLease(ctx, l, seq, change(s))
		}
	}
}

// view is a TxView with other methods.
type view struct {
	backend.TxView
	b        backend.Backend
	alone    bool // what it does is not part of the transaction
	noUndo   bool
	anybody  bool // writes succeed for whoever asks
	anySeq   bool
	unshown  bool // what isn't acquired isn't shown
	fresh    bool // a claim finds no recovery point
	tolerant bool // arguments are not checked
}

func viewing(change func(v *view)) func(f *faultyTx) {
	return func(f *faultyTx) {
		f.bind = func(f *faultyTx, in backend.TxView) backend.TxView {
			v := &view{TxView: in, b: f.Backend}
			change(v)
			return v
		}
	}
}

func (v *view) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	got, err := v.TxView.Claim(ctx, c)
	if v.tolerant && errors.Is(err, backend.ErrInvalid) {
		err = nil
	}
	if v.unshown && !got.Acquired {
		got = backend.Claimed{Hidden: true, Record: backend.Record{Key: c.Key}}
	}
	if v.fresh {
		got.Record.RecoveryPoint = ""
	}
	return got, err
}

func (v *view) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	err := v.TxView.Checkpoint(ctx, l, c)
	if v.anybody && errors.Is(err, backend.ErrLeaseLost) || v.anySeq && errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}

func (v *view) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if v.alone {
		return nil
	}
	return v.TxView.Complete(ctx, l, c)
}

func (v *view) Undo(ctx context.Context) error {
	if v.noUndo {
		return nil
	}
	return v.TxView.Undo(ctx)
}

func (f *faultyTx) inTx(ctx context.Context, g func(t tx) error) error { return inTx(f.db)(ctx, g) }
