package conformance

import "github.com/idem-go/idem/backend"

var releaseCases = []testCase{
	rule("release/fresh", "Before the first recovery point a release removes the record, and a retry starts fresh.", releaseFresh),
	rule("release/at-a-point", "After a recovery point a release keeps the record and ends its lease at once: a retry resumes there.", releaseAtPoint),
	rule("release/old-id", "After a release the old claim's writes are ErrLeaseLost; releasing again is a no-op (hard case 1).", releaseOldID),
	rule("release/same-id-claims", "A claim id that released its record and claims again gets a new, higher token.", releaseSameID),
	rule("release/completed", "Releasing what is completed does nothing, so that it can always be deferred.", func(e *env) {
		r := e.completed(request("k"))
		e.still("Release(completed)", r.Key, nil, func() error { return e.release(r.Holder()) })
	}),
	rule("release/missing", "Releasing what isn't there does nothing.", func(e *env) {
		l := backend.Lease{Key: request("k").Key, ClaimID: newID(), Token: 1}
		e.still("Release(no record)", l.Key, nil, func() error { return e.release(l) })
	}),
	rule("release/lapsed", "A lapsed claim that nobody took over can be released.", func(e *env) {
		c := hasty("k")
		l := e.acquire("Claim", c).Holder()
		e.lapse(c)
		e.ok("Release(lapsed)", e.release(l))
		e.gone("after a release", c.Key)
	}),
	rule("release/resumed", "Releasing a resumed run keeps the recovery point of the run before.", releaseResumed),
}

func releaseFresh(e *env) {
	c := request("k")
	first := e.acquire("Claim", c)
	e.ok("Release", e.release(first.Holder()))
	e.gone("after a release", c.Key)
	next := rival(c)
	next.Fingerprints = []backend.Fingerprint{fingerprint("v1", "another request")}
	if r := e.acquire("Claim(released)", next); r.Attempt != 1 || r.Token <= first.Token {
		e.Errorf("Claim(released): attempt %d, token %d, want 1 and more than %d", r.Attempt, r.Token, first.Token)
	}
}

func releaseAtPoint(e *env) {
	c := request("k")
	r := e.acquire("Claim", c)
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "s")))
	want := e.get(c.Key)
	e.ok("Release", e.release(r.Holder()))
	got := e.get(c.Key)
	want.ClaimID, want.LockedUntil, want.UpdatedAt = backend.ClaimID{}, got.LockedUntil, got.UpdatedAt
	e.same("Get(released)", got, want)
	if got.LeaseLeft != 0 {
		e.Errorf("Get(released): rest of the lease = %v, want 0", got.LeaseLeft)
	}
	next := e.acquire("Claim(released)", rival(c))
	if next.RecoveryPoint != "p" || string(next.State) != "s" || next.Attempt != 2 || next.Token <= r.Token {
		e.Errorf("Claim(released): point %q, state %q, attempt %d, token %d, want \"p\", \"s\", 2, more than %d",
			next.RecoveryPoint, next.State, next.Attempt, next.Token, r.Token)
	}
}

func releaseOldID(e *env) {
	c := request("k")
	l := e.acquire("Claim", c).Holder()
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "s")))
	e.ok("Release", e.release(l))
	for _, w := range writes(2) {
		want := backend.ErrLeaseLost
		if w.name == "Release" {
			want = nil
		}
		e.still(w.name+"(released at a point)", c.Key, want, func() error { return w.do(e, l) })
	}

	c = request("gone")
	l = e.acquire("Claim", c).Holder()
	e.ok("Release", e.release(l))
	for _, w := range writes(2) {
		want := backend.ErrLeaseLost
		if w.name == "Release" {
			want = nil
		}
		e.still(w.name+"(released and gone)", c.Key, want, func() error { return w.do(e, l) })
	}
}

func releaseSameID(e *env) {
	c := request("k")
	r := e.acquire("Claim", c)
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "s")))
	e.ok("Release", e.release(r.Holder()))
	again := e.acquire("Claim(same id, released)", c)
	if again.Token <= r.Token || again.Sequence != 0 {
		e.Errorf("Claim(same id, released): token %d, sequence %d, want more than %d, 0", again.Token, again.Sequence, r.Token)
	}
	lost(e, "same id, released lease", r.Holder())
}

func releaseResumed(e *env) {
	c := hasty("k")
	e.ok("Checkpoint", e.checkpoint(e.acquire("Claim", c).Holder(), point(1, "p", "s")))
	e.lapse(c)
	e.ok("Release", e.release(e.acquire("Claim(lapsed)", rival(c)).Holder()))
	if r := e.acquire("Claim(released)", rival(c)); r.RecoveryPoint != "p" || string(r.State) != "s" || r.Attempt != 3 {
		e.Errorf("Claim(released): point %q, state %q, attempt %d, want \"p\", \"s\", 3", r.RecoveryPoint, r.State, r.Attempt)
	}
}
