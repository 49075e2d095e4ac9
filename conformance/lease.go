package conformance

import (
	"time"

	"github.com/idem-go/idem/backend"
)

var leaseCases = []testCase{
	rule("lease/renew-extends", "Renew lets the lease end ttl from now.", leaseExtends),
	rule("lease/renew-never-shortens", "Renew never shortens a lease (hard case 20).", leaseNeverShortens),
	rule("lease/renew-lapsed", "A lapsed lease that nobody took over can be renewed.", leaseRenewLapsed),
	rule("lease/renew-not-sequenced", "A renewal changes the end of the lease and nothing else.", leaseOnlyEnd),
	rule("lease/renew-completed", "Renewing what its own claim has completed does nothing.", func(e *env) {
		r := e.completed(request("k"))
		e.still("Renew(completed)", r.Key, nil, func() error { return e.renew(r.Holder(), time.Hour) })
	}),
	rule("lease/renew-missing", "Renewing a record that isn't there is ErrLeaseLost.", func(e *env) {
		l := backend.Lease{Key: request("k").Key, ClaimID: newID(), Token: 1}
		e.still("Renew(no record)", l.Key, backend.ErrLeaseLost, func() error { return e.renew(l, time.Hour) })
	}),
	rule("lease/left-falls", "What is left of a lease falls as the store's clock goes on.", leaseFalls),
	rule("lease/writes-keep-it", "Checkpoints don't move the end of the lease.", func(e *env) {
		r := e.acquire("Claim", request("k"))
		e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "s")))
		if got := e.get(r.Key); !got.LockedUntil.Equal(r.LockedUntil) {
			e.Errorf("Checkpoint moved the end of the lease by %v, want 0", got.LockedUntil.Sub(r.LockedUntil))
		}
	}),
}

func leaseExtends(e *env) {
	c := hasty("k")
	r := e.acquire("Claim", c)
	sent := time.Now()
	e.ok("Renew", e.renew(r.Holder(), 3*short))
	if left := e.get(c.Key).LeaseLeft; left > 3*short && e.Advance != nil {
		e.Errorf("Renew(%v): rest of the lease = %v, want at most the ttl", 3*short, left)
	}
	e.notBefore("another claim acquires", 3*short, sent, func() bool { return e.claim("Claim", rival(c)).Acquired })
}

func leaseNeverShortens(e *env) {
	r := e.acquire("Claim", request("k"))
	e.still("Renew(1ms)", r.Key, nil, func() error { return e.renew(r.Holder(), time.Millisecond) })
	e.advance(time.Second)
	e.refuse("Claim(after a renewal to 1ms)", rival(request("k")))
}

func leaseRenewLapsed(e *env) {
	c := hasty("k")
	r := e.acquire("Claim", c)
	e.lapse(c)
	e.ok("Renew(lapsed)", e.renew(r.Holder(), time.Minute))
	e.refuse("Claim(renewed after the lapse)", rival(c))
}

func leaseOnlyEnd(e *env) {
	r := e.acquire("Claim", request("k"))
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "s")))
	before := e.get(r.Key)
	e.ok("Renew", e.renew(r.Holder(), time.Hour))
	after := e.get(r.Key)
	if !after.LockedUntil.After(before.LockedUntil) {
		e.Errorf("Renew(1h): end of the lease moved by %v, want more than 0", after.LockedUntil.Sub(before.LockedUntil))
	}
	before.LockedUntil, before.UpdatedAt = after.LockedUntil, after.UpdatedAt
	e.same("Renew", after, before)
}

func leaseFalls(e *env) {
	r := e.acquire("Claim", request("k"))
	e.advance(time.Second)
	e.until("the rest of the lease falls", func() bool { return e.get(r.Key).LeaseLeft < r.LeaseLeft })
}
