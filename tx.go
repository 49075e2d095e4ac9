package idem

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/backend"
)

// DoTx runs effect in the transaction that claims the key and stores the value:
// all of it is committed together, or nothing. See the package comment for every
// outcome.
//
// The effect writes with tx and must not end it. Its context ends when the lease
// would. After a proven rollback (a serialization failure, a deadlock, a lost
// connection) it may be called again, so what it does outside of tx can happen
// more than once. A call after a lost COMMIT finds out whether that commit
// happened before anything runs again.
//
// An error of the effect is returned as it is and undoes everything, the claim
// too. With [Reject] the effect's writes are undone and the answer is kept.
func DoTx[V, T any](ctx context.Context, e *TxExecutor[T], req Request, effect func(ctx context.Context, tx T) (V, error)) (Result[V], error) {
	if e == nil || effect == nil {
		return Result[V]{}, invalid("the executor or the effect is nil")
	}
	var value V
	out, err := e.call(ctx, req, DefaultTxWait, func(cl *call, wait time.Time) (outcome, error) {
		t := transaction[T]{e: e, claim: cl.flight.claim, fl: &cl.flight, wait: wait, began: time.Now()}
		return t.run(cl, func(ctx context.Context, tx T) (eff backend.Effect, err error) {
			value, eff.Undo, err = settle(effect(ctx, tx))
			if err == nil {
				eff.Response, err = encode(value)
			}
			return eff, err
		})
	})
	return result(out, value, err)
}

// DoIn is DoTx inside a transaction of the caller's own. Nothing is stored before
// the caller commits it. After an error the caller must roll back: the claim is in
// the transaction, though what the effect wrote is undone. ErrRetryTx says that it may then be run again as a whole. The
// lease is not renewed; the row is locked until the transaction ends.
//
// The effect must not go on after an error of a statement: on SQLite it may have
// ended the transaction, and what is written after that is there to stay.
func DoIn[V, T any](ctx context.Context, e *TxExecutor[T], tx T, req Request, effect func(ctx context.Context, tx T) (V, error)) (Result[V], error) {
	if e == nil || effect == nil {
		return Result[V]{}, invalid("the executor or the effect is nil")
	}
	if err := e.enter(); err != nil {
		return Result[V]{}, err
	}
	defer e.running.Done()
	cl, err := e.newCall(ctx, req)
	if err != nil {
		return Result[V]{}, err
	}
	var value V
	wait := time.Now().Add(e.cfg.waitOr(req.Wait, DefaultTxWait))
	out, err := e.doIn(cl, e.tx.Bind(tx), cl.flight.claim, wait, func(ctx context.Context) (eff backend.Effect, err error) {
		value, eff.Undo, err = settle(effect(ctx, tx))
		if err == nil {
			eff.Response, err = encode(value)
		}
		return eff, err
	})
	return result(out, value, err)
}

func (e *TxExecutor[T]) doIn(ctx context.Context, view backend.TxView, c backend.Claim, wait time.Time, effect func(context.Context) (backend.Effect, error)) (outcome, error) {
	start := time.Now()
	got, err := claimIn(ctx, view, c, wait)
	if err != nil {
		return outcome{}, err
	}
	if !got.Acquired {
		if err := e.read(c, &got, false); err != nil {
			return e.refused(ctx, c, got, err, start)
		}
		e.event(ctx, Replayed, c, got.Record.Attempt, start)
		return outcome{record: got.Record}, nil
	}
	if got.Record.RecoveryPoint != "" {
		return outcome{}, ErrRecoveryPoint
	}
	e.event(ctx, began(got.Record.Attempt), c, got.Record.Attempt, start)
	completed := false
	defer func() {
		if !completed { // also after a panic
			undo(ctx, view, c.Lease)
		}
	}()
	eff, err := effect(ctx)
	if err != nil {
		return outcome{}, err
	}
	if eff.Undo {
		if err := view.Undo(ctx); err != nil {
			return outcome{}, err
		}
	}
	done := backend.Completion{Sequence: got.Record.Sequence + 1}
	if done.Response, err = e.seal(c.Key, e.fit(eff.Response)); err != nil {
		return outcome{}, err
	}
	if err := view.Complete(ctx, got.Record.Holder(), done); err != nil {
		return outcome{}, err
	}
	completed = true
	r := got.Record
	r.Status, r.Response = backend.Completed, done.Response
	return outcome{record: r, ran: true}, nil
}

// undo takes an effect's writes back, for callers that commit in spite of its error:
// the effect runs again when the lease of their claim is over. If it fails the
// transaction is beyond a COMMIT.
func undo(ctx context.Context, view backend.TxView, lease time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease/4)
	defer cancel()
	_ = view.Undo(ctx)
}

// claimIn waits for other transactions that hold the key, in statements that take
// a quarter of the lease at most. It does not wait for a run under a lease: a
// transaction that stays open for so long is in other people's way.
func claimIn(ctx context.Context, view backend.TxView, c backend.Claim, wait time.Time) (backend.Claimed, error) {
	for {
		left := max(0, time.Until(wait))
		c.Wait = min(left, c.Lease/4)
		got, err := view.Claim(ctx, c)
		if err != nil || !got.Hidden || left == 0 {
			return got, err
		}
		if err := sleep(ctx, min(left, backoff(1))); err != nil {
			return got, unavailable("wait", err)
		}
	}
}

// transaction is one call on the transaction path: Transact, and Transact again
// with the same claim until its outcome is known.
type transaction[T any] struct {
	e     *TxExecutor[T]
	claim backend.Claim
	fl    *flight
	wait  time.Time // until when a duplicate waits
	began time.Time

	// Of the latest try.
	ran       bool  // the effect was called
	effectErr error // what it returned

	giveUp  time.Time // until when a store that can't be asked is asked again
	inDoubt bool      // a COMMIT was sent and its answer is not known
	settle  time.Time // until when to find out
	doubts  int       // how many COMMITs were in doubt
}

// txTries bounds how often a transaction is run that was surely rolled back, and
// txDoubts how often one whose COMMIT never comes through: a full disk stays full.
const txTries, txDoubts = 10, 4

func (t *transaction[T]) run(ctx context.Context, effect func(context.Context, T) (backend.Effect, error)) (outcome, error) {
	e := t.e
	returned := false
	defer func() {
		if !returned && t.ran { // a panic or runtime.Goexit goes on after this
			e.event(ctx, Released, t.claim, 0, t.began)
		}
	}()
	out, err := t.loop(ctx, effect)
	returned = true
	return out, err
}

func (t *transaction[T]) loop(ctx context.Context, effect func(context.Context, T) (backend.Effect, error)) (outcome, error) {
	e := t.e
	waits := 0
	for try := 1; ; try++ {
		pause := backoff(try)
		t.ran, t.effectErr = false, nil
		left := max(0, time.Until(t.wait))
		t.claim.Wait = min(left, t.claim.Lease/4)
		if try == 1 {
			t.giveUp = time.Now().Add(t.claim.Lease / 4)
		}
		if t.inDoubt {
			t.claim.Wait = t.claim.Lease / 4
		}
		got, err := t.try(ctx, effect)
		switch {
		case err == nil && t.mine(got):
			return outcome{record: got.Record, ran: true}, nil
		case err == nil:
			err = e.read(t.claim, &got, false)
			switch {
			case err == nil:
				e.event(ctx, Replayed, t.claim, got.Record.Attempt, t.began)
				return outcome{record: got.Record}, nil
			case t.inDoubt && errors.Is(err, ErrInProgress):
			case left > 0 && errors.Is(err, ErrInProgress):
				try, waits = 0, waits+1
				pause = min(left, backoff(waits))
			default:
				return e.refused(ctx, t.claim, got, err, t.began)
			}
		case t.ran && !backend.NotApplied(err) && t.effectErr == nil:
			if !t.inDoubt {
				// A call whose commit is in doubt is followed to its end, also if its
				// caller has gone.
				t.inDoubt = true
				t.doubts++
				t.settle = time.Now().Add(t.claim.Lease + t.claim.Lease/4)
				ctx = context.WithoutCancel(ctx)
			}
		case t.again(err, try):
		default:
			return t.failed(ctx, err)
		}
		if t.inDoubt && (t.doubts == txDoubts || time.Now().After(t.settle)) {
			e.event(ctx, Unknown, t.claim, 0, t.began)
			return outcome{}, unknown("transact", err)
		}
		if sleepErr := sleep(ctx, pause); sleepErr != nil {
			return outcome{}, unavailable("wait", sleepErr)
		}
	}
}

// try transacts once, bounded in time also where the caller sets no bound.
func (t *transaction[T]) try(ctx context.Context, effect func(context.Context, T) (backend.Effect, error)) (backend.Claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, t.claim.Wait+2*t.claim.Lease)
	defer cancel()
	return t.e.tx.Transact(ctx, t.claim, func(ctx context.Context, tx T, held backend.Claimed) (backend.Effect, error) {
		r := held.Record
		// A claim that was acquired proves that an earlier one in doubt is gone.
		t.inDoubt = false
		if r.RecoveryPoint != "" {
			t.effectErr = ErrRecoveryPoint
			return backend.Effect{}, ErrRecoveryPoint
		}
		t.ran = true
		t.e.flights.run(t.fl)
		t.e.event(ctx, began(r.Attempt), t.claim, r.Attempt, t.began)
		var eff backend.Effect
		eff, t.effectErr = effect(ctx, tx)
		if t.effectErr == nil {
			eff.Response, t.effectErr = t.e.seal(t.claim.Key, t.e.fit(eff.Response))
		}
		return eff, t.effectErr
	})
}

// mine reports whether this call's claim completed the record, in this try or in
// an earlier one whose answer was lost.
func (t *transaction[T]) mine(got backend.Claimed) bool {
	return got.Acquired || got.Record.ClaimID == t.claim.ID && got.Record.Status == backend.Completed
}

// again reports whether a try that surely did nothing is worth another.
func (t *transaction[T]) again(err error, try int) bool {
	switch {
	case t.inDoubt:
		return true
	case errors.Is(err, ErrRetryTx):
		return try < txTries
	case t.effectErr != nil:
		return false
	}
	return try < 4 && (t.ran || time.Now().Before(t.giveUp)) && (errors.Is(err, ErrUnavailable) || !t.ran && !backend.NotApplied(err))
}

func (t *transaction[T]) failed(ctx context.Context, err error) (outcome, error) {
	switch {
	case errors.Is(err, ErrLeaseLost):
		t.e.event(ctx, LeaseLost, t.claim, 0, t.began)
	case t.ran:
		t.e.event(ctx, Released, t.claim, 0, t.began)
	case !backend.NotApplied(err) && t.effectErr == nil:
		return outcome{}, unavailable("transact", driver(err))
	}
	if errors.Is(err, ErrRetryTx) && !errors.Is(err, ErrUnavailable) {
		return outcome{}, &backend.Error{Op: "idem: transact", Kind: ErrUnavailable, Err: err, Hint: "the transaction conflicts with others again and again"}
	}
	return outcome{}, err
}
