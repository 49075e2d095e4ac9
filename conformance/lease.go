package conformance

import "time"

var leaseCases = []testCase{
	rule("lease/renew-extends", "Renew lets the lease end ttl from now.", leaseExtends),
	rule("lease/left-falls", "What is left of a lease falls as the store's clock goes on.", leaseFalls),
	rule("lease/release-resumed", "Releasing a resumed run keeps the recovery point of the run before.", leaseReleaseResumed),
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

func leaseFalls(e *env) {
	r := e.acquire("Claim", request("k"))
	e.advance(time.Second)
	e.until("the rest of the lease falls", func() bool { return e.get(r.Key).LeaseLeft < r.LeaseLeft })
}

func leaseReleaseResumed(e *env) {
	c := hasty("k")
	e.ok("Checkpoint", e.checkpoint(e.acquire("Claim", c).Holder(), point(1, "p", "s")))
	e.lapse(c)
	e.ok("Release", e.release(e.acquire("Claim(lapsed)", rival(c)).Holder()))
	if r := e.acquire("Claim(released)", rival(c)); r.RecoveryPoint != "p" || string(r.State) != "s" || r.Attempt != 3 {
		e.Errorf("Claim(released): point %q, state %q, attempt %d, want \"p\", \"s\", 3", r.RecoveryPoint, r.State, r.Attempt)
	}
}
