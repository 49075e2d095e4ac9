package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
)

// capabilityFailover shows what a failover leaves of what was acknowledged, also where
// nothing is claimed: an operator has to know what the limit looks like.
func capabilityFailover(e *env) {
	c := e.describe().Capabilities
	if c.DurableFailover && !c.DurableKill {
		e.measured("DurableFailover", "not even a kill is survived", false)
		return
	}
	if e.Failover == nil {
		if c.DurableFailover {
			e.notShown("the harness lacks %s", PowerFailover)
		}
		return
	}
	lost, twice, acked := e.failover()
	switch {
	case twice:
		e.measured("DurableFailover", "what was acknowledged was lost, and the key ran twice", !c.DurableFailover)
	case lost:
		e.measured("DurableFailover", "what was acknowledged was lost", !c.DurableFailover)
	case acked:
		e.measured("DurableFailover", true, true)
		e.tried("1 failover")
	default: // which is how one keeps a promise, too
		e.measured("DurableFailover", "nothing was acknowledged that could be lost", true)
		e.tried("1 failover")
	}
}

// failover lets one client claim and another also complete while the server's machine is about
// to be lost, and rivals come afterwards. It tells whether anything that was acknowledged
// was lost, whether a key had two runs that were told that it is theirs, and
// whether anything was acknowledged at all.
func (e *env) failover() (lost, twice, acked bool) {
	e.Helper()
	runs := []*inFlight{{claim: request("claimed"), last: atClaim}, {claim: request("completed"), last: atCompletion}}
	_, _ = e.b.Get(e.Context(), runs[0].claim.Key) // has a connection
	promote := sync.OnceFunc(e.Failover(e.T))
	e.Cleanup(promote)
	errs := race(len(runs), func(i int) error {
		ctx, cancel := context.WithTimeout(e.Context(), 5*time.Second)
		defer cancel()
		return runs[i].run(ctx, e.b)
	})
	promote()
	for i, f := range runs {
		left := stageOf(e.insist(f.claim.Key))
		if errs[i] != nil && backend.NotApplied(errs[i]) && left >= f.tried {
			e.Errorf("a call before the failover = %v, and it was applied all the same", errs[i])
		}
		acked = acked || f.acked > noRecord
		lost = lost || left < f.acked
		got := e.persistClaim(rival(f.claim))
		switch {
		case got.Acquired:
			twice = twice || f.acked > noRecord
			e.refuseLost(f, got.Record.Holder())
		case got.Record.ClaimID != f.claim.ID:
			e.Errorf("Claim after the failover: the claim id of the record is nobody's, want that of the run before")
		}
	}
	return lost, twice, acked
}

// refuseLost completes a key that a run was lost of. Whatever a store forgets, that
// run is not let in again.
func (e *env) refuseLost(old *inFlight, now backend.Lease) {
	e.Helper()
	e.ok("Complete(after a failover)", e.persist(func(ctx context.Context) error { return e.b.Complete(ctx, now, answer(1, "rival's")) }))
	if old.lease.Token == 0 {
		return // it never knew that it had the key
	}
	if err := e.persist(func(ctx context.Context) error { return e.b.Complete(ctx, old.lease, answer(2, "old")) }); !errors.Is(err, backend.ErrLeaseLost) {
		e.Errorf("Complete(of a claim that the failover lost) = %v, want ErrLeaseLost", err)
	}
}
