package conformance

import (
	"errors"

	"github.com/idem-go/idem/backend"
)

var fenceCases = []testCase{
	rule("fence/token-grows", "Every claim of a key gets a higher token: after a takeover, a release, the end of the retention and a sweep.", fenceTokenGrows), // hard cases 8, 25
	rule("fence/zombie", "A holder of the key's first life never touches its second.", fenceZombie),                                                            // design 4
	rule("fence/takeover-or-complete", "Of a takeover and the late completion of the old owner exactly one succeeds.", fenceRace),
	rule("fence/one-completes", "Of a key's many runs only one completes.", fenceOneCompletes),
}

// lost checks that no write of a lease gets through.
func lost(e *env, who string, l backend.Lease) {
	e.Helper()
	for _, w := range writes(9) {
		e.still(w.name+"("+who+")", l.Key, backend.ErrLeaseLost, func() error { return w.do(e, l) })
	}
}

func fenceTokenGrows(e *env) {
	var last backend.Token
	grow := func(how string, r backend.Record) backend.Lease {
		e.Helper()
		if r.Token <= last {
			e.Errorf("Claim(%s): token = %d, want more than %d", how, r.Token, last)
		}
		last = r.Token
		return r.Holder()
	}
	c := fleeting("k")
	grow("new key", e.acquire("Claim", c))
	e.lapse(c)
	l := grow("lapsed", e.acquire("Claim(lapsed)", rival(c)))
	e.ok("Release", e.release(l))
	e.gone("after a release", c.Key)

	c = fleeting("k")
	l = grow("released and gone", e.acquire("Claim(released)", c))
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "")))
	e.ok("Release", e.release(l))
	n := rival(c)
	n.Retention, n.Abandon, n.Lease = c.Retention, c.Abandon, c.Lease
	l = grow("released at a point", e.acquire("Claim(released at a point)", n))
	e.ok("Complete", e.complete(l, answer(1, "done")))
	grow("retention over", e.reclaim(fleeting("k"), c.Retention))
	e.ok("Release", e.release(e.get(c.Key).Holder()))

	c = fleeting("k")
	l = grow("released again", e.acquire("Claim(released again)", c))
	e.ok("Complete", e.complete(l, answer(1, "done")))
	e.swept(c)
	grow("swept", e.acquire("Claim(swept)", request("k")))
}

func fenceZombie(e *env) {
	// Released and claimed again.
	c := request("released")
	old := e.acquire("Claim", c).Holder()
	e.ok("Release", e.release(old))
	e.acquire("Claim(second life)", rival(c))
	lost(e, "first life, released", old)

	// Completed, over, claimed again.
	c = fleeting("expired")
	old = e.completed(c).Holder()
	e.reclaim(rival(c), c.Retention)
	lost(e, "first life, retention over", old)

	// Swept, claimed again.
	c = fleeting("swept")
	old = e.acquire("Claim", c).Holder()
	e.swept(c)
	e.acquire("Claim(second life)", rival(c))
	lost(e, "first life, swept", old)
}

func fenceRace(e *env) {
	const rounds = 20
	var cs []backend.Claim
	var ls []backend.Lease
	for i := range rounds {
		cs = append(cs, hasty(string(rune('a'+i))))
		ls = append(ls, e.acquire("Claim", cs[i]).Holder())
	}
	e.advance(short)
	for _, c := range cs {
		e.until("the lease lapses", func() bool { return e.get(c.Key).LeaseLeft == 0 })
	}
	other := e.open()
	type reply struct {
		claimed backend.Claimed
		err     error
	}
	replies := race(2*rounds, func(i int) reply {
		if i%2 == 0 {
			return reply{err: e.complete(ls[i/2], answer(1, "late"))}
		}
		got, err := other.Claim(e.Context(), rival(cs[i/2]))
		return reply{got, err}
	})
	for i := range rounds {
		completed, taken := replies[2*i].err, replies[2*i+1]
		e.ok("Claim(lapsed, against a completion)", taken.err)
		if completed != nil && !errors.Is(completed, backend.ErrLeaseLost) {
			e.Fatalf("Complete(lapsed, against a takeover) = %v, want nil or ErrLeaseLost", completed)
		}
		if done := completed == nil; done == taken.claimed.Acquired && !taken.claimed.Hidden {
			e.Errorf("completed = %v and taken over = %v, want one of them", done, taken.claimed.Acquired)
		}
		if r := e.get(cs[i].Key); (r.Status == backend.Completed) != (completed == nil) {
			e.Errorf("Get: %v after Complete = %v", r.Status, completed)
		}
	}
}

func fenceOneCompletes(e *env) {
	var holders []backend.Lease
	for range 4 {
		c := hasty("k")
		holders = append(holders, e.acquire("Claim", c).Holder())
		e.lapse(c)
	}
	errs := race(len(holders), func(i int) error {
		return e.complete(holders[i], answer(1, string(rune('a'+i))))
	})
	for i, err := range errs {
		last := i == len(holders)-1
		if last && err != nil || !last && !errors.Is(err, backend.ErrLeaseLost) {
			e.Errorf("Complete(run %d of %d) = %v, want only the last to complete", i+1, len(holders), err)
		}
	}
	if got := string(e.get(request("k").Key).Response.Body); got != "d" {
		e.Errorf("Get: response of %q, want that of the last run", got)
	}
}
