package idem

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// Foreign is a call of a system that knows nothing of this library: a payment
// gateway, a sender of messages, a partner's hook. What a run does that finds such a
// call sent and not answered depends on what the far side offers:
//
//	Inquire          it is asked first; what never happened is sent
//	neither, Once    nothing: ErrNeedsResolution, a person has to look
//	neither          it is sent again, under the same key
type Foreign[V any] struct {
	// Do sends the call. key is [Run.Key] of the call's name, the same for every
	// attempt: give it to the far side as its idempotency key, or as the reference
	// by which Inquire finds the call. Do may be run again as long as no outcome of it
	// is stored.
	//
	// Its error says what is known: [Refused] is the far side's final no, [NotDone]
	// means that surely nothing was sent, and any other that it may have been.
	Do func(ctx context.Context, key string) (V, error)

	// Inquire asks the far side what became of the call. Optional.
	Inquire func(ctx context.Context, key string) (V, Outcome, error)

	// Once: the far side doesn't recognise a call that it gets twice. It is sent
	// again only when Inquire says that it never happened.
	Once bool

	// Settle is how long a run waits before it inquires or sends again what an
	// earlier one has sent: the time in which that may still arrive.
	Settle time.Duration
}

// Outcome is what the far side says about a call.
type Outcome uint8

// The outcomes. An error of Inquire counts as OutcomeUnknown.
const (
	OutcomeUnknown Outcome = iota // it can't tell, or not yet
	OutcomeDone                   // it happened, and this is its result
	// OutcomeNever: it did not happen and never will, not even late, so it is sent. A far
	// side that recognises a call that it gets twice (not Once) need not be sure.
	OutcomeNever
)

// RefusedError is the final no of a far side, the same for every attempt. An effect
// usually answers with [Reject] or goes another way.
type RefusedError struct {
	Reason string // as given to Refused
}

func (e *RefusedError) Error() string { return "idem: the call was refused: " + e.Reason }

// Refused is what the Do or Inquire of a [Foreign] call returns where the far side
// has refused it for good, and would refuse it again: a declined card, not an
// overloaded server. The reason is stored like a result, and [Call] returns it as
// a *RefusedError in this and in every later attempt. It should be a code of the far
// side, and not name a person. More than 1 KiB of it is cut off, and all of it where
// [WithMaxState] leaves no room.
func Refused(reason string) error { return &RefusedError{refusal(reason)} }

// refusal is a reason as it is stored.
func refusal(reason string) string {
	const limit = 1 << 10
	return strings.ToValidUTF8(reason[:min(len(reason), limit)], "")
}

// Call sends a foreign call. It notes in the record that it is about to, so that no
// later run is in doubt about whether there is something to ask for, and stores the
// result as Phase does. The errors are those of [Phase], and besides:
//
//   - [RefusedError], which is stored and final;
//   - ErrUnknownOutcome where the call may have been sent and has no result. The error
//     of Do or Inquire is in it. The run can't go on, and the record keeps its lease
//     to the end; the next attempt finds out.
//   - ErrNeedsResolution where nobody can find out but a person ([Executor.Resolve]).
//
// An error of Do that is marked with [NotDone] is returned as it is, and the effect may go
// on: call again, answer, or go another way. That way every later attempt has to take, too,
// which comes to the call first: one that finds other steps in its place ends with
// ErrRecoveryPoint. So a way round a call hangs on [Refused], which is stored, and not on
// NotDone. Where an earlier run has sent the call and no inquiry was sure that it never
// arrives, NotDone is ErrUnknownOutcome, too.
func Call[V any](ctx context.Context, run *Run, name string, f Foreign[V]) (V, error) {
	var none V
	if run == nil || f.Do == nil || f.Settle < 0 {
		return none, invalid("the run or the call's Do is nil, or Settle negative")
	}
	s, err := run.enter(name)
	if err != nil {
		return none, err
	}
	defer run.leave()
	switch s.Status {
	case stepDone, stepLost:
		return saved[V](run, s)
	case stepRefused:
		run.steps.at++
		return none, &RefusedError{s.Reason}
	case stepSent:
		v, settled, err := inquire(ctx, run, name, f)
		if settled || err != nil {
			return v, err
		}
	default:
		if err := run.mark(ctx, name); err != nil {
			return none, run.stuck(err)
		}
	}
	if err := run.holds(ctx); err != nil {
		if s.Status != stepSent { // by an earlier run: nobody need look for what never left
			_ = run.record(ctx, step{Name: name, Status: stepNotSent})
			run.open(false)
		}
		return none, run.stuck(err)
	}
	run.open(true)
	v, err := f.Do(ctx, run.Key(name))
	if err != nil {
		// What an earlier run has sent may still have arrived. Only where a call is Once
		// is an inquiry sure that it never does.
		return none, run.notAnswered(ctx, name, err, s.Status == stepSent && !f.Once)
	}
	if v, err = keep(ctx, run, name, v); err == nil {
		run.open(false)
	}
	return v, err
}

// inquire finds out about a call that an earlier run has sent. It is not settled if
// the call is to be sent (again).
func inquire[V any](ctx context.Context, run *Run, name string, f Foreign[V]) (_ V, settled bool, _ error) {
	var none V
	if f.Settle > 0 {
		if err := sleep(ctx, f.Settle); err != nil {
			return none, false, run.stuck(cmp.Or(run.holds(ctx), unavailable("call", err)))
		}
	}
	switch {
	case f.Inquire == nil && f.Once:
		return none, false, run.stuck(&backend.Error{
			Op: "idem: call", Kind: ErrNeedsResolution,
			Hint: "an earlier run has sent the call, and nobody can ask what became of it; look at the far side and resolve the record",
		})
	case f.Inquire == nil:
		return none, false, nil
	}
	v, outcome, err := f.Inquire(ctx, run.Key(name))
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return none, false, run.refused(ctx, name, refused)
	case err != nil, outcome == OutcomeUnknown:
		return none, false, run.stuck(unknownCall(err))
	case outcome == OutcomeNever:
		return none, false, nil
	case outcome != OutcomeDone:
		return none, false, run.stuck(invalid("Inquire gave an outcome that is none"))
	}
	v, err = keep(ctx, run, name, v)
	return v, err == nil, err
}

// mark notes that a call is about to be sent. A mark that may not be stored stops
// the run before anything is sent.
func (r *Run) mark(ctx context.Context, name string) error {
	if err := cmp.Or(r.room(name), r.holds(ctx)); err != nil {
		return err
	}
	err := r.record(ctx, step{Name: name, Status: stepSent})
	if errors.Is(err, ErrUnknownOutcome) {
		r.open(false) // whatever the record says, nothing was sent
		err = unavailable("call", driver(err))
	}
	return err
}

// notAnswered deals with the error of a call's Do. earlier: a former run has sent the
// call, too, with an outcome that is not known.
func (r *Run) notAnswered(ctx context.Context, name string, err error, earlier bool) error {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return r.refused(ctx, name, refused)
	case notDone(err) && earlier:
		r.open(false) // nothing of this run is out
		return r.stuck(unknownCall(err))
	case notDone(err):
		if stored := r.record(ctx, step{Name: name, Status: stepNotSent}); stored != nil {
			return r.stuck(errors.Join(stored, err))
		}
		r.wrote(r.steps.journal.withoutUnsent())
		r.open(false)
		return err
	}
	return r.stuck(unknownCall(err))
}

// refused stores a final no, and without its reason where there is no room for that.
func (r *Run) refused(ctx context.Context, name string, err *RefusedError) error {
	s := step{Name: name, Status: stepRefused, Reason: refusal(err.Reason)}
	stored := r.record(ctx, s)
	if errors.Is(stored, ErrTooLarge) {
		s.Reason = ""
		stored = r.record(ctx, s)
	}
	if stored != nil {
		return r.stuck(stored)
	}
	r.open(false)
	r.steps.at++
	return &RefusedError{s.Reason}
}

func unknownCall(err error) error {
	return &backend.Error{
		Op: "idem: call", Kind: ErrUnknownOutcome, Err: err,
		Hint: "the call may have been sent; retry with the same key",
	}
}
