package conformance_test

import (
	"context"
	"errors"

	"github.com/idem-go/idem/backend"
)

// txFaults break one rule each; see faults.
var txFaults = map[string]struct {
	fault  func(f *faultyTx)
	caught string
}{
	"claims no transactions": {func(f *faultyTx) {
		f.describe = func(d *backend.Description) { d.Capabilities.Transactions = false }
	}, "transact/claimed"},
	"commits the claim on its own": {func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			if got, err := f.Claim(ctx, c); err != nil || !got.Acquired {
				return got, err
			}
			return f.Backend.Transact(ctx, c, e)
		}
	}, "transact/commits transact/fails transact/panics transact/takeover"},
	"commits the effect on its own": {func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			got, err := f.Claim(ctx, c)
			if err != nil || !got.Acquired {
				return got, err
			}
			t, err := f.db.BeginTx(context.WithoutCancel(ctx), nil)
			if err != nil {
				return got, err
			}
			defer t.Rollback()
			eff, err := e(ctx, t, got)
			if err != nil {
				return got, err
			}
			_ = t.Commit()
			l := got.Record.Holder()
			err = f.Complete(ctx, l, backend.Completion{Sequence: got.Record.Sequence + 1, Response: eff.Response})
			got.Record, _ = f.Get(ctx, c.Key)
			return got, err
		}
	}, "transact/commits transact/fails transact/undo"},
	"wraps the effect's error": {func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			got, err := f.Backend.Transact(ctx, c, e)
			if err != nil {
				err = errors.Join(err)
			}
			return got, err
		}
	}, "transact/fails"},
	"swallows the panic": {effecting(func(e effect) effect {
		return func(ctx context.Context, tx tx, held backend.Claimed) (eff backend.Effect, err error) {
			defer func() {
				if recover() != nil {
					err = errors.New("panic")
				}
			}()
			return e(ctx, tx, held)
		}
	}), "transact/panics"},
	"commits what panicked": {effecting(func(e effect) effect {
		return func(ctx context.Context, tx tx, held backend.Claimed) (eff backend.Effect, err error) {
			defer func() { _ = recover() }()
			return e(ctx, tx, held)
		}
	}), "transact/panics"},
	"runs the effect again": {func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			got, err := f.Backend.Transact(ctx, c, e)
			if err == nil && !got.Acquired && !got.Hidden && got.Record.Status == backend.Completed {
				_ = f.inTx(ctx, func(t tx) error { _, err := e(ctx, t, got); return err })
			}
			return got, err
		}
	}, "transact/replay transact/at-once"},
	"runs the effect for everybody": {func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			got, err := f.Backend.Transact(ctx, c, e)
			if err == nil && !got.Acquired && got.Record.Status == backend.Started {
				_ = f.inTx(ctx, func(t tx) error { _, err := e(ctx, t, got); return err })
			}
			return got, err
		}
	}, "transact/not-acquired"},
	"never undoes": {effecting(func(e effect) effect {
		return func(ctx context.Context, tx tx, held backend.Claimed) (backend.Effect, error) {
			eff, err := e(ctx, tx, held)
			eff.Undo = false
			return eff, err
		}
	}), "transact/undo"},
	"hides the recovery point": {effecting(func(e effect) effect {
		return func(ctx context.Context, tx tx, held backend.Claimed) (backend.Effect, error) {
			held.Record.RecoveryPoint = ""
			return e(ctx, tx, held)
		}
	}), "transact/takeover"},
	"takes every transaction for another claim": {func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			c.ID[0]++
			return f.Backend.Transact(ctx, c, e)
		}
	}, "transact/same-id"},
	"doesn't bound the effect": {effecting(func(e effect) effect {
		return func(ctx context.Context, tx tx, held backend.Claimed) (backend.Effect, error) {
			longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*held.Record.Lease)
			defer cancel()
			defer context.AfterFunc(ctx, func() {
				if errors.Is(ctx.Err(), context.Canceled) {
					cancel()
				}
			})()
			return e(longer, tx, held)
		}
	}), "transact/bounded"},
	"ignores ended contexts": {func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			if ctx.Err() != nil {
				ctx = context.Background()
			}
			return f.Backend.Transact(ctx, c, e)
		}
		f.inLease = func(f *faultyTx, ctx context.Context, l backend.Lease, seq backend.Sequence, s step) (backend.Record, error) {
			return f.Backend.InLease(context.WithoutCancel(ctx), l, seq, s)
		}
	}, "transact/cancelled inlease/invalid"},
	"stores what is invalid": {effecting(func(e effect) effect {
		return func(ctx context.Context, tx tx, held backend.Claimed) (backend.Effect, error) {
			eff, err := e(ctx, tx, held)
			if len(eff.Response.Tombstone) > 255 || eff.Response.Size() > 1<<20 {
				eff.Response = backend.Response{}
			}
			return eff, err
		}
	}), "transact/invalid"},
	"shows what is hidden": {func(f *faultyTx) {
		f.transact = func(f *faultyTx, ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
			got, err := f.Backend.Transact(ctx, c, e)
			got.Hidden = false
			return got, err
		}
	}, "transact/hidden"},

	"commits the step on its own": {func(f *faultyTx) {
		f.inLease = func(f *faultyTx, ctx context.Context, l backend.Lease, seq backend.Sequence, s step) (backend.Record, error) {
			var out backend.Step
			err := f.inTx(ctx, func(t tx) (err error) { out, err = s(ctx, t); return err })
			if err != nil {
				return backend.Record{}, err
			}
			return f.Backend.InLease(ctx, l, seq, func(context.Context, tx) (backend.Step, error) { return out, nil })
		}
	}, "inlease/again inlease/at-once inlease/stale inlease/completes inlease/invalid"},
	"loses the state of a step": {stepping(func(s step) step {
		return func(ctx context.Context, tx tx) (backend.Step, error) {
			out, err := s(ctx, tx)
			out.State = nil
			return out, err
		}
	}), "inlease/commits"},
	"stores the step that failed": {stepping(func(s step) step {
		return func(ctx context.Context, tx tx) (backend.Step, error) {
			out, _ := s(ctx, tx)
			return out, nil
		}
	}), "inlease/fails"},
	"never undoes a step": {stepping(func(s step) step {
		return func(ctx context.Context, tx tx) (backend.Step, error) {
			out, err := s(ctx, tx)
			out.Undo = false
			return out, err
		}
	}), "inlease/completes"},
	"fences the step at its end only": {func(f *faultyTx) {
		f.inLease = func(f *faultyTx, ctx context.Context, l backend.Lease, seq backend.Sequence, s step) (backend.Record, error) {
			var out backend.Step
			err := f.inTx(ctx, func(t tx) (err error) {
				if out, err = s(ctx, t); err != nil {
					return err
				}
				if out.Response != nil {
					return f.Backend.Bind(t).Complete(ctx, l, backend.Completion{Sequence: seq, Response: *out.Response})
				}
				return f.Backend.Bind(t).Checkpoint(ctx, l, backend.Checkpoint{Sequence: seq, Point: out.Point, State: out.State})
			})
			if err != nil {
				return backend.Record{}, err
			}
			return f.Get(ctx, l.Key)
		}
	}, "inlease/again inlease/at-once inlease/stale"},
	"loses a step to a takeover": {func(f *faultyTx) {
		f.inLease = func(f *faultyTx, ctx context.Context, l backend.Lease, seq backend.Sequence, s step) (backend.Record, error) {
			r, err := f.Backend.InLease(ctx, l, seq, s)
			if errors.Is(err, backend.ErrLeaseLost) {
				_ = f.inTx(ctx, func(t tx) error { _, err := s(ctx, t); return err })
			}
			return r, err
		}
	}, "inlease/stale"},

	"completes outside of the transaction":    {viewing(func(v *view) { v.alone = true }), "bind/commits bind/undo"},
	"doesn't undo in a transaction":           {viewing(func(v *view) { v.noUndo = true }), "bind/undo"},
	"writes for anybody in a transaction":     {viewing(func(v *view) { v.anybody = true }), "bind/fence"},
	"sees no conflict in a transaction":       {viewing(func(v *view) { v.anySeq = true }), "bind/sequence"},
	"hides what is not acquired":              {viewing(func(v *view) { v.unshown = true }), "bind/not-acquired"},
	"resumes from the start in a transaction": {viewing(func(v *view) { v.fresh = true }), "bind/takeover"},
	"takes anything in a transaction":         {viewing(func(v *view) { v.tolerant = true }), "bind/invalid"},
	"claims outside of the transaction": {func(f *faultyTx) {
		f.bind = func(f *faultyTx, v backend.TxView) backend.TxView { return f.Backend.Bind(nil) }
	}, "bind/commits bind/rolls-back"},
}
