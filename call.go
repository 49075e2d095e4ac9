package idem

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/bound"
)

// call is one call of Do, DoTx or DoIn, and the context of what runs inside of it.
// What a call needs is part of it, to be allocated together.
type call struct {
	context.Context // the caller's

	e      *Executor
	inside *call // the call that this one is made in; nil: none
	flight flight

	resolves bool // for a person, who need not know the code's steps
	stays    bool // what it took over and did not end: nobody else knows of it

	// On the leased path, while the effect runs.
	run    Run
	runCtx bound.Context
	beat   beat
}

type callKey struct{}

// Value makes the call known to those inside of it.
func (cl *call) Value(key any) any {
	if key == (callKey{}) {
		return cl
	}
	return cl.Context.Value(key)
}

// newCall validates a request. It refuses a call inside of another with the same
// key, which would wait for itself.
func (e *Executor) newCall(ctx context.Context, req Request) (*call, error) {
	inside, _ := ctx.Value(callKey{}).(*call)
	cl := &call{Context: ctx, e: e, inside: inside}
	var err error
	if cl.flight.claim, err = e.claim(req); err != nil {
		return nil, err
	}
	for o := inside; o != nil; o = o.inside {
		if o.e == e && o.flight.claim.Key == cl.flight.claim.Key {
			return nil, invalid("a call inside of a run of the same key would wait for itself")
		}
	}
	return cl, nil
}

// leader asks the store on behalf of a call, and of those that wait for it.
type leader func(cl *call, wait time.Time) (outcome, error)

// call does what both paths have in common: it validates, and lets one call of a
// key at a time through to the store. wait is the path's default.
func (e *Executor) call(ctx context.Context, req Request, wait time.Duration, lead leader) (outcome, error) {
	if err := e.enter(); err != nil {
		return outcome{}, err
	}
	defer e.running.Done()
	cl, err := e.newCall(ctx, req)
	if err != nil {
		return outcome{}, err
	}
	if err := backend.ContextDone(ctx, "idem: claim"); err != nil {
		return outcome{}, err
	}
	until := time.Now().Add(e.cfg.waitOr(req.Wait, wait))
	for {
		fl, leads := e.flights.join(&cl.flight)
		if leads {
			return e.fly(cl, until, lead)
		}
		out, answered, err := e.follow(cl, cl.flight.claim, fl, until)
		if answered || err != nil {
			return out, err
		}
	}
}

// fly lets the leader lead and tells those that wait how it ended, also if it
// panics.
func (e *Executor) fly(cl *call, until time.Time, lead leader) (out outcome, err error) {
	defer func() {
		var shared error
		if errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrInProgress) {
			shared = err
		}
		e.flights.land(&cl.flight, out.record, shared)
	}()
	return lead(cl, until)
}
