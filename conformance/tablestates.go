package conformance

import (
	"github.com/idem-go/idem/backend"
)

// The states of a record.
var (
	none    = state{name: "none", claim: request, make: noHolder}
	undone  = state{name: "none, released", claim: request, make: releasedFresh}
	running = state{name: "started, lease alive", claim: request, make: hold}
	atPoint = state{name: "started, lease alive, at a recovery point", claim: request, make: holdAtPoint}
	lapsed  = state{name: "started, lapsed", claim: hasty, make: hold, wait: (*env).lapse}

	lapsedAtPoint      = state{name: "started, lapsed, at a recovery point", claim: hasty, make: holdAtPoint, wait: (*env).lapse}
	takenOver          = state{name: "started, taken over by another claim", claim: hasty, make: hold, wait: takeOver}
	takenOverAtPoint   = state{name: "started, taken over at a recovery point", claim: hasty, make: holdAtPoint, wait: takeOver}
	takenOverCompleted = state{name: "completed by the claim that took it over", claim: hasty, make: holdAtPoint, wait: takeOverAndComplete}
	released           = state{name: "started, released at a recovery point", claim: request, make: releasedAtPoint}
	completed          = state{name: "completed", claim: request, make: holdCompleted}
	over               = state{name: "completed, retention over", claim: fleeting, make: holdCompleted, wait: outlive}
)

func in(s ...state) []state { return s }

func noHolder(_ *env, c backend.Claim) backend.Lease {
	return backend.Lease{Key: c.Key, ClaimID: c.ID, Token: 1}
}

func hold(e *env, c backend.Claim) backend.Lease {
	e.Helper()
	c.Payload = []byte("payload")
	return e.acquire("Claim", c).Holder()
}

func holdAtPoint(e *env, c backend.Claim) backend.Lease {
	e.Helper()
	l := hold(e, c)
	e.ok("Checkpoint", e.checkpoint(l, point(2, "p", "state")))
	return l
}

func holdCompleted(e *env, c backend.Claim) backend.Lease {
	e.Helper()
	l := holdAtPoint(e, c)
	e.ok("Complete", e.complete(l, answer(3, "done")))
	return l
}

func releasedAtPoint(e *env, c backend.Claim) backend.Lease {
	e.Helper()
	l := holdAtPoint(e, c)
	e.ok("Release", e.release(l))
	return l
}

func releasedFresh(e *env, c backend.Claim) backend.Lease {
	e.Helper()
	l := hold(e, c)
	e.ok("Release", e.release(l))
	return l
}

func takeOver(e *env, c backend.Claim) {
	e.Helper()
	e.lapse(c)
	e.acquire("Claim(lapsed)", rival(c))
}

// takeOverAndComplete leaves the response that the first holder would send.
func takeOverAndComplete(e *env, c backend.Claim) {
	e.Helper()
	takeOver(e, c)
	e.ok("Complete", e.complete(e.get(c.Key).Holder(), answer(1, "done")))
}

// outlive waits until the retention of a record is over, by the claim of a key
// that was completed later.
func outlive(e *env, c backend.Claim) {
	e.Helper()
	canary := fleeting("canary of " + c.Key.Value)
	holdCompleted(e, canary)
	e.reclaim(rival(canary), canary.Retention)
}
