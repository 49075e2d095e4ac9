package idem

import (
	"cmp"
	"context"
	"errors"

	"github.com/idem-go/idem/backend"
)

// Phase runs one step of an effect and stores its result as a recovery point: a
// later run of the request gets the result from the record and does not run the
// step again. A crash between the step and its recovery point runs it again, so it
// is run at least once; a step that writes to the record's own database should be a
// [PhaseTx], one that asks somebody else's system for something a [Call].
//
// An effect goes through its steps one after the other, always in the same order,
// and what stands between them is run by every attempt: it must have no effect of
// its own, and depend on nothing but the request and the results of former steps.
// The executor needs [WithPhases].
//
// The result is what the codec makes of the step's value (encoding/json unless
// [WithCodec] says something else), also in the run that made it, so that no
// attempt sees more than another.
//
// An error of the step is returned as it is and nothing is stored. Otherwise:
// ErrRecoveryPoint where the record was left by code whose steps have other names
// or another order, or where a name is used twice; ErrInvalid for a name that can't
// be stored, a step inside of a step, and a value that does not encode; ErrTooLarge
// where there is no room for another step, and ErrNeedsResolution where there was
// none for its result ([WithMaxState]); ErrLeaseLost, and ErrUnknownOutcome where the
// store does not answer. After any of these the run can't go on: all further steps
// and the end of the effect report the same error. Its record stays, and can be
// resumed.
func Phase[V any](ctx context.Context, run *Run, name string, do func(ctx context.Context) (V, error)) (V, error) {
	var none V
	if run == nil || do == nil {
		return none, invalid("the run or the step is nil")
	}
	v, done, err := begin[V](ctx, run, name)
	if done || err != nil {
		return v, err
	}
	defer run.leave()
	if v, err = do(ctx); err != nil {
		return none, err
	}
	return keep(ctx, run, name, v)
}

// PhaseTx is Phase for a step that is a transaction of the backend that keeps the
// record: its writes and its recovery point are committed together, so it has its
// effect exactly once. b is the run's own backend.
//
// The step writes with tx and must not end it. After a proven rollback it may be
// called again. While it runs the lease is not renewed: the locked row is the
// lease, and the time that is left of it bounds the step.
func PhaseTx[V, T any](ctx context.Context, run *Run, b backend.Transactor[T], name string, do func(ctx context.Context, tx T) (V, error)) (V, error) {
	var none V
	if run == nil || do == nil || isNil(b) {
		return none, invalid("the run, the backend or the step is nil")
	}
	v, done, err := begin[V](ctx, run, name)
	if done || err != nil {
		return v, err
	}
	defer run.leave()
	var stepErr error
	rec, err := inLease(ctx, run, b, func(ctx context.Context, tx T) (backend.Step, error) {
		if v, stepErr = do(ctx, tx); stepErr != nil {
			return backend.Step{}, stepErr
		}
		done, err := run.encode(name, v)
		if err != nil {
			return backend.Step{}, err
		}
		if _, err := decodeStep[V](run, done); err != nil {
			return backend.Step{}, err
		}
		_, state, err := run.note(done)
		return backend.Step{Point: done.point(), State: state}, err
	})
	switch {
	case err == nil:
	case stepErr != nil && errors.Is(err, stepErr):
		return none, err
	default:
		return none, run.stuck(err)
	}
	j, err := readJournal(rec.State)
	if err != nil || len(j.Steps) != run.steps.at+1 {
		return none, run.stuck(unknown("phase", err))
	}
	run.wrote(j)
	return saved[V](run, j.Steps[len(j.Steps)-1])
}

// CompleteTx is a last PhaseTx: its writes are committed together with the answer of
// the request, which is the value, as retries will get it. It saves a round trip and a
// crash point, and is what an effect returns with:
//
//	return idem.CompleteTx(ctx, run, b, func(ctx context.Context, tx pgx.Tx) (Receipt, error) { … })
//
// V is the type of the effect's value. There can be no further step, and what else the
// effect returns does not count. With [Reject] the step's writes are undone and the answer is kept.
func CompleteTx[V, T any](ctx context.Context, run *Run, b backend.Transactor[T], do func(ctx context.Context, tx T) (V, error)) (V, error) {
	var none, v V
	if run == nil || do == nil || isNil(b) {
		return none, invalid("the run, the backend or the step is nil")
	}
	if err := run.last(); err != nil {
		return none, err
	}
	defer run.leave()
	var stepErr error
	rec, err := inLease(ctx, run, b, func(ctx context.Context, tx T) (s backend.Step, err error) {
		if v, s.Undo, stepErr = settle(do(ctx, tx)); stepErr != nil {
			return backend.Step{}, stepErr
		}
		resp, err := encode(v)
		if err == nil {
			resp, err = run.e.seal(run.claim.Key, run.e.fit(resp))
		}
		s.Response = &resp
		return s, err
	})
	switch {
	case err == nil:
		run.final = rec.Response.Tombstone == ""
		run.stored.Store(&rec.Response)
		return v, nil
	case stepErr != nil && errors.Is(err, stepErr):
		return none, err
	}
	return none, run.stuck(err)
}

// inLease runs a step as a transaction, and again until its outcome is known.
func inLease[T any](ctx context.Context, run *Run, b backend.Transactor[T], step func(context.Context, T) (backend.Step, error)) (backend.Record, error) {
	if any(b) != any(run.e.b) {
		return backend.Record{}, invalid("the backend of the step is not the one that the run's executor was made with")
	}
	seq, end := run.next(), run.e.beat.hold(run.beat)
	defer run.e.beat.resume(run.beat)
	asked, inDoubt := ctx, false
	for try := 1; ; try++ {
		if err := run.holds(ctx); err != nil {
			if inDoubt {
				err = unknown("phase", err)
			}
			return backend.Record{}, err
		}
		var ran bool
		var stepErr error
		rec, err := b.InLease(ctx, run.lease, seq, func(ctx context.Context, tx T) (s backend.Step, err error) {
			if inDoubt { // that this is called proves that it was rolled back
				inDoubt = false
				run.open(false)
			}
			if asked.Err() != nil { // nobody waits for another
				stepErr = unavailable("phase", context.Cause(asked))
				return s, stepErr
			}
			ran = true
			s, stepErr = step(ctx, tx)
			return s, stepErr
		})
		switch {
		case err == nil && rec.Sequence != seq: // as it stands: abandoned or ended, without this step
			run.open(false)
			return backend.Record{}, &backend.Error{Op: "idem: phase", Kind: ErrLeaseLost}
		case err == nil:
			run.open(false)
			return rec, nil
		case errors.Is(err, ErrRetryTx) && try < txTries:
		case stepErr != nil:
			return backend.Record{}, err
		case ran && !backend.NotApplied(err) && !inDoubt:
			// A COMMIT in doubt is followed to its end, also if the caller has gone.
			inDoubt = true
			run.open(true)
			detached, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
			defer cancel()
			ctx = detached
		case inDoubt || !ran && (errors.Is(err, ErrUnavailable) || !backend.NotApplied(err)) && try < txTries:
		default:
			return backend.Record{}, err
		}
		if err := sleep(ctx, backoff(try)); err != nil && !inDoubt {
			return backend.Record{}, unavailable("phase", err)
		}
	}
}

// keep stores the result of a step that is done and gives what is stored.
func keep[V any](ctx context.Context, run *Run, name string, v V) (V, error) {
	var none V
	done, err := run.encode(name, v)
	if err != nil {
		return none, run.stuck(err)
	}
	if v, err = decodeStep[V](run, done); err != nil {
		return none, run.stuck(err)
	}
	err = run.record(ctx, done)
	if errors.Is(err, ErrTooLarge) {
		cause := err
		if err = run.record(ctx, step{Name: name, Status: stepLost}); err == nil {
			err = lostResult(cause)
		}
	}
	if err != nil {
		return none, run.stuck(err)
	}
	run.steps.at++
	return v, nil
}

// begin begins a phase, unless a former run has done it and v is its result. If it
// does, the caller ends it with leave.
func begin[V any](ctx context.Context, run *Run, name string) (v V, done bool, err error) {
	s, err := run.enter(name)
	if err != nil {
		return v, false, err
	}
	switch s.Status {
	case stepDone, stepLost:
		v, err = saved[V](run, s)
	case stepSent, stepRefused:
		err = run.stuck(recoveryPoint("the step was a foreign call when the record was left, and is a phase now"))
	default:
		if err = cmp.Or(run.room(name), run.holds(ctx)); err == nil {
			return v, false, nil
		}
		err = run.stuck(err)
	}
	run.leave()
	return v, true, err
}

// saved gives the stored result of a step, and goes on to the next.
func saved[V any](run *Run, s step) (v V, err error) {
	if s.Status == stepLost {
		return v, run.stuck(lostResult(nil))
	}
	if v, err = decodeStep[V](run, s); err != nil {
		return v, run.stuck(err)
	}
	run.steps.at++
	return v, nil
}

func lostResult(cause error) error {
	return &backend.Error{
		Op: "idem: phase", Kind: ErrNeedsResolution, Err: cause,
		Hint: "the step is done, but its result was too large to be stored; resolve the record with the result, or with an answer",
	}
}
