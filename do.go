package idem

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/backend"
)

// Do runs effect under a lease of the request's key and stores its value, or
// returns what is stored. See the package comment for every outcome.
//
// The effect's context is the caller's; it ends with the cause ErrLeaseLost when
// the lease can't be relied on any more, and what the effect returns after that is
// refused if somebody else took over. A finished effect is not lost to a caller
// that goes away: storing its value has time of its own, until the lease ends.
//
// An error of the effect is returned as it is, nothing is stored and the key is
// free for the next try, except for [Reject] and [MaybeDone]. A panic frees the key
// and goes on.
func Do[V any](ctx context.Context, e *Executor, req Request, effect func(ctx context.Context, run *Run) (V, error)) (Result[V], error) {
	if e == nil || effect == nil {
		return Result[V]{}, invalid("the executor or the effect is nil")
	}
	var value V
	var lost error // the effect ran, but its value can't be stored
	out, err := e.do(ctx, req, func(ctx context.Context, run *Run) (resp Response, err error) {
		value, _, err = settle(effect(ctx, run))
		if err != nil {
			return Response{}, err
		}
		if resp, lost = encode(value); lost != nil {
			return Response{Tombstone: backend.NotStored}, nil //nolint:nilerr // lost says it
		}
		return resp, nil
	})
	if err == nil {
		err = lost
	}
	return result(out, value, err)
}

// outcome is how a call ended that has an answer.
type outcome struct {
	record backend.Record
	ran    bool // in this call
	given  bool // by the effect before it ended, whatever it returned then
}

func result[V any](out outcome, value V, err error) (Result[V], error) {
	if err != nil {
		return Result[V]{}, err
	}
	r := Result[V]{Value: value, Replayed: !out.ran, Attempt: out.record.Attempt}
	if !out.ran || out.given {
		r.Value, err = decode[V](out.record.Response)
	}
	return r, err
}

// do leads a call through: into the flight of its key, to the claim, the effect and
// the completion.
func (e *Executor) do(ctx context.Context, req Request, effect func(context.Context, *Run) (Response, error)) (outcome, error) {
	return e.call(ctx, req, 0, func(cl *call, wait time.Time) (outcome, error) {
		began, c := time.Now(), cl.flight.claim
		got, sent, err := e.acquire(cl, c, wait)
		if err != nil {
			return e.refused(cl, c, got, err, began)
		}
		if !got.Acquired {
			e.event(cl, Replayed, c, got.Record.Attempt, began)
			return outcome{record: got.Record}, nil
		}
		return e.lead(cl, got, sent, effect)
	})
}

// follow waits for another call of this process with the same key. It has no
// answer if the store has to be asked.
func (e *Executor) follow(ctx context.Context, c backend.Claim, fl *flight, until time.Time) (_ outcome, answered bool, _ error) {
	began := time.Now()
	switch part := fl.compare(c); part {
	case backend.Same:
	case backend.Unknown: // the two requests were given fingerprinters of their own
		return outcome{}, true, unknownVersion(fl.claim.Fingerprints[0])
	default:
		e.event(ctx, Mismatch, c, 0, began)
		return outcome{}, true, &MismatchError{Part: part}
	}
	select {
	case <-fl.running:
	case <-fl.landed:
	case <-ctx.Done():
	}
	left := time.NewTimer(time.Until(until))
	defer left.Stop()
	select {
	case <-fl.landed:
	case <-ctx.Done():
		return outcome{}, false, unavailable("wait", context.Cause(ctx))
	case <-left.C:
		select {
		case <-fl.landed: // both: the answer is there
		default:
			e.event(ctx, InProgress, c, 0, began)
			return outcome{}, true, &InProgressError{RetryAfter: min(e.cfg.lease, e.cfg.retryAfter)}
		}
	}
	switch {
	case errors.Is(fl.err, ErrUnknownOutcome):
		e.event(ctx, Unknown, c, 0, began)
		return outcome{}, true, fl.err
	case fl.err != nil && !time.Now().Before(until):
		e.event(ctx, InProgress, c, 0, began)
		return outcome{}, true, fl.err
	case fl.record == nil:
		return outcome{}, false, nil
	}
	got := backend.Claimed{Record: fl.record.Clone()}
	if err := e.read(c, &got, true); err != nil {
		out, err := e.refused(ctx, c, got, err, began)
		return out, true, err
	}
	e.event(ctx, Replayed, c, got.Record.Attempt, began)
	return outcome{record: got.Record}, true, nil
}

// refused reports a call that was not acquired and has no answer.
func (e *Executor) refused(ctx context.Context, c backend.Claim, got backend.Claimed, err error, began time.Time) (outcome, error) {
	switch {
	case errors.Is(err, ErrInProgress):
		e.event(ctx, InProgress, c, got.Record.Attempt, began)
	case errors.Is(err, ErrMismatch):
		e.event(ctx, Mismatch, c, 0, began)
	case errors.Is(err, ErrTombstone), errors.Is(err, ErrNeedsResolution), errors.Is(err, ErrSealed):
		e.event(ctx, Replayed, c, got.Record.Attempt, began)
		return outcome{record: got.Record}, err
	}
	return outcome{}, err
}

// fit gives what is stored of an answer: all of it, or a tombstone.
func (e *Executor) fit(r Response) Response {
	if r.Size() <= e.cfg.maxResponse {
		return r
	}
	return tombstone(r, e.cfg.maxResponse)
}

func tombstone(r Response, limit int) Response {
	if r.Tombstone == "" {
		r.Tombstone = backend.TooLarge
	}
	r.Body = nil
	if len(r.Header) > limit {
		r.Header = nil
	}
	return r
}
