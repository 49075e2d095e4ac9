package idem

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
)

// Resolution is what a person found out about a request that no program can decide:
// one of [CallDone], [CallRefused], [CallNever], [Answered] and [NothingDone].
type Resolution struct {
	step   string // of the call; empty: it is about the request as a whole
	status stepStatus
	value  any
	reason string
	answer func() (Response, error)

	nothing bool // was done
}

// CallDone: the call, or the phase whose result was lost, has happened, and this is
// its result, as its code would have returned it. The next attempt goes on behind it.
// A result is final, and its type is not checked: code that can't decode it ends with
// ErrInvalid in every attempt, until the request is [Answered].
func CallDone(step string, result any) Resolution {
	return Resolution{step: step, status: stepDone, value: result}
}

// CallRefused: the far side has refused the call for good. The next attempt gets a
// [RefusedError] with the reason.
func CallRefused(step, reason string) Resolution {
	return Resolution{step: step, status: stepRefused, reason: refusal(reason)}
}

// CallNever: the call has not happened and never will. The next attempt sends it.
func CallNever(step string) Resolution { return Resolution{step: step, status: stepNotSent} }

// Answered ends the request: every retry gets this answer, and nothing of it runs any
// more.
func Answered[V any](answer V) Resolution {
	return Resolution{answer: func() (Response, error) { return encode(answer) }}
}

// NothingDone: a run that died before its first recovery point has done nothing. The
// next attempt runs.
func NothingDone() Resolution { return Resolution{nothing: true} }

// Resolve records what a person found out about a request that ended in
// ErrNeedsResolution or, for longer than it should, in ErrUnknownOutcome. It takes the
// record over as a retry would, so it is refused while a run holds it, and what it
// changes is what it has looked at.
//
// ErrNotFound: there is no such record. ErrInProgress: a run holds it; stop that, or
// wait. ErrConflict: the record does not wait for this resolution, because it is
// completed, stands at another step, has recovery points where NothingDone says
// that it has none, or has moved on while it was resolved. ErrInvalid: the resolution says
// nothing, or its value does not encode. What the record says is then unchanged.
func (e *Executor) Resolve(ctx context.Context, scope Scope, key string, r Resolution) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.running.Done()
	k := backend.Key{Tenant: scope.Tenant, Actor: scope.Actor, Value: key}
	if err := k.Validate(); err != nil {
		return err
	}
	old, err := e.b.Get(ctx, k)
	if err != nil {
		return err
	}
	if old.LeaseLeft > 0 {
		return &InProgressError{RetryAfter: min(old.LeaseLeft, e.cfg.retryAfter)}
	}
	// Before it is taken over: one that does not wait for this must not be let go of.
	if _, _, err := r.of(&Run{e: e}, old); err != nil {
		return err
	}
	cl := &call{Context: ctx, e: e, resolves: true, stays: true}
	cl.flight.claim = e.claimAgain(old)
	cl.flight.claim.Revive = true
	if _, leads := e.flights.join(&cl.flight); !leads {
		return &InProgressError{RetryAfter: e.cfg.retryAfter}
	}
	_, err = e.fly(cl, time.Now(), func(cl *call, wait time.Time) (outcome, error) {
		got, sent, err := e.acquire(cl, cl.flight.claim, wait)
		switch {
		case errors.Is(err, ErrTombstone), errors.Is(err, ErrNeedsResolution), err == nil && !got.Acquired:
			return outcome{}, conflict("the record is completed")
		case err != nil:
			return outcome{}, err
		}
		return e.lead(cl, got, sent, func(ctx context.Context, run *Run) (Response, error) {
			if !follows(old, got.Record) {
				return Response{}, conflict("the record has moved on meanwhile")
			}
			return r.apply(ctx, run, old)
		})
	})
	if errors.Is(err, errResolved) {
		return nil
	}
	return err
}

// follows reports whether a claim has taken over this record, and not one that came after.
func follows(old, taken backend.Record) bool { return taken.Attempt == old.Attempt+1 }

// claimAgain is a claim for the request that a record belongs to.
func (e *Executor) claimAgain(r backend.Record) backend.Claim {
	c := backend.Claim{
		Key: r.Key, Operation: r.Operation, Target: r.Target, Fingerprints: []backend.Fingerprint{r.Fingerprint},
		Lease: min(e.cfg.lease, r.Retention), Retention: r.Retention, Remember: r.Remember, Abandon: r.Abandon,
	}
	_, _ = rand.Read(c.ID[:])
	return c
}

// errResolved ends a run that has changed the record and has no answer.
var errResolved = errors.New("idem: resolved")

// of gives what the resolution makes of a record: an answer, or else the last step of its
// journal, which the run takes up. The zero step: there is nothing to store.
func (r Resolution) of(run *Run, rec backend.Record) (resp Response, s step, err error) {
	switch {
	case r.answer == nil && r.step == "" && !r.nothing:
		return resp, s, invalid("the resolution says nothing, or is about a step without a name")
	case rec.Status == backend.Completed && rec.Response.Tombstone != backend.Abandoned:
		return resp, s, conflict("the record is completed")
	case r.answer != nil:
		resp, err = r.answer()
		return resp, s, err
	case r.nothing && rec.RecoveryPoint != "":
		return resp, s, conflict(fmt.Sprintf("the record has the recovery point %q", rec.RecoveryPoint))
	case r.nothing:
		return resp, s, nil
	}
	if rec.RecoveryPoint != "" {
		if err := run.resume(rec.State, true); err != nil {
			return resp, s, err
		}
	}
	last := len(run.steps.journal.Steps) - 1
	if last < 0 || !run.steps.journal.Steps[last].waitsFor(r) {
		return resp, s, conflict(fmt.Sprintf("the record does not wait for an outcome of the step %q; its recovery point is %q", r.step, rec.RecoveryPoint))
	}
	run.steps.at = last
	s = step{Name: r.step, Status: r.status, Reason: r.reason}
	if r.status == stepDone {
		s, err = run.encode(r.step, r.value)
	}
	if err == nil {
		_, _, err = run.note(s)
	}
	return resp, s, err
}

func (r Resolution) apply(ctx context.Context, run *Run, old backend.Record) (Response, error) {
	resp, s, err := r.of(run, old)
	switch {
	case err != nil:
		return resp, err
	case r.answer != nil:
		run.steps.at = len(run.steps.journal.Steps) // whatever they were
		return resp, nil
	case s.Name != "":
		err = run.record(ctx, s)
	}
	if err == nil {
		run.stays = false
		err = errResolved
	}
	return resp, err
}

// waitsFor reports whether the resolution is about this step. A lost result can only be
// found again.
func (s step) waitsFor(r Resolution) bool {
	return s.Name == r.step && (s.Status == stepSent || s.Status == stepLost && r.status == stepDone)
}

func conflict(hint string) error {
	return &backend.Error{Op: "idem: resolve", Kind: ErrConflict, Hint: hint}
}
