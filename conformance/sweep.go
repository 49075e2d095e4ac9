package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
)

var sweepCases = []testCase{
	rule("sweep/nothing", "A sweep that finds nothing returns 0.", func(e *env) {
		e.sweepNone("an empty store")
		e.acquire("Claim", request("started"))
		e.completed(request("completed"))
		e.sweepNone("a store of live records")
	}),
	rule("sweep/live", "A sweep removes no record that is alive: running, resumable or retained.", sweepLive), // hard case 5
	rule("sweep/retention", "A sweep removes no completed record before its retention, counted from the completion, is over.", sweepRetention),
	rule("sweep/abandoned", "A started record without a recovery point goes when it is abandoned, and not before.", sweepAbandoned),
	rule("sweep/activity", "The age of a started record counts from its last activity.", sweepActivity),
	rule("sweep/tombstone", "An abandoned record past a recovery point becomes a tombstone and is never removed.", sweepTombstone),                                      // hard case 5
	rule("sweep/revive", "A claim with Revive takes an abandoned record over at its recovery point; it gets nothing else that is completed.", sweepRevive),              // hard case 29
	rule("sweep/tombstone-completed", "A tombstone \"abandoned\" that its holder stored is never removed, and sweeps come to an end over it.", sweepTombstoneCompleted), // hard case 26
	rule("sweep/limit", "A sweep changes at most limit records, and less than limit means that nothing is left.", sweepLimit),
	rule("sweep/exact", "A sweep changes as many records as are due, up to its limit.", sweepExactly),
	rule("sweep/not-starved", "Records that may not go yet don't keep a sweep from those behind them.", sweepNotStarved),             // hard case 26
	rule("sweep/against-claims", "Sweeps and claims of expired records at once lose no live record.", sweepAgainstClaims),            // field report 5
	rule("sweep/against-takeovers", "Sweeps and takeovers of abandoned records at once lose no live record.", sweepAgainstTakeovers), // field report 5
	rule("sweep/against-completions", "Of a sweep and the late completion of an abandoned record exactly one succeeds.", sweepAgainstCompletions),
}

func (e *env) sweep(limit int) int {
	e.Helper()
	n, err := e.b.Sweep(e.Context(), limit)
	e.ok("Sweep", err)
	if n < 0 || n > limit {
		e.Errorf("Sweep(%d) = %d, want 0 to %d", limit, n, limit)
	}
	return n
}

func (e *env) sweepNone(what string) {
	e.Helper()
	if n := e.sweep(10); n != 0 {
		e.Errorf("Sweep(10) of %s = %d, want 0", what, n)
	}
}

// swept sweeps until the record of c is gone.
func (e *env) swept(c backend.Claim) {
	e.Helper()
	e.advance(c.Lease + max(c.Retention, c.Abandon))
	e.until("the record is swept", func() bool {
		e.sweep(100)
		_, ok := e.find(c.Key)
		return !ok
	})
}

func sweepLive(e *env) {
	started, resumable, done := fleeting("started"), hasty("resumable"), hasty("done")
	resumable.Retention, done.Retention = short, time.Hour
	l := e.acquire("Claim", started).Holder()
	e.ok("Renew", e.renew(l, time.Hour)) // its age is over, its lease is not
	e.ok("Checkpoint", e.checkpoint(e.acquire("Claim", resumable).Holder(), point(1, "p", "s")))
	e.completed(done)
	e.swept2(fleeting("canary"))
	for _, c := range []backend.Claim{started, resumable, done} {
		if _, ok := e.find(c.Key); !ok {
			e.Errorf("Get(%s) after sweeps: ErrNotFound, want the record", c.Key.Value)
		}
	}
	if r := e.get(resumable.Key); r.RecoveryPoint != "p" || r.Status != backend.Started {
		e.Errorf("Get(resumable) = %v at %q, want started at \"p\"", r.Status, r.RecoveryPoint)
	}
	e.ok("Complete", e.complete(l, answer(1, "done")))
}

// swept2 stores a record that is over last and sweeps until it is gone: by then
// every sweep that others were due for has happened.
func (e *env) swept2(canary backend.Claim) {
	e.Helper()
	e.completed(canary)
	e.swept(canary)
}

func sweepRetention(e *env) {
	c := fleeting("k")
	c.Retention, c.Abandon = 2*short, 2*short
	l := e.acquire("Claim", c).Holder()
	e.lapse(c)
	sent := time.Now()
	e.ok("Complete", e.complete(l, answer(1, "done")))
	e.notBefore("the record is swept", c.Retention, sent, func() bool {
		e.sweep(10)
		_, ok := e.find(c.Key)
		return !ok
	})
}

func sweepAbandoned(e *env) {
	c := fleeting("k")
	c.Abandon = 3 * short
	sent := time.Now()
	e.acquire("Claim", c)
	e.notBefore("the record is swept", c.Abandon, sent, func() bool {
		e.sweep(10)
		_, ok := e.find(c.Key)
		return !ok
	})
}

func sweepActivity(e *env) {
	c := fleeting("k")
	c.Abandon = 2 * short
	l := e.acquire("Claim", c).Holder()
	e.lapse(c)
	sent := time.Now()
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "s")))
	e.notBefore("the record is abandoned", c.Abandon, sent, func() bool {
		e.sweep(10)
		return e.get(c.Key).Status == backend.Completed
	})
}

func sweepTombstone(e *env) {
	c := fleeting("k")
	l := e.abandoned(c)
	r := e.get(c.Key)
	if r.Response.Tombstone != backend.Abandoned || r.RecoveryPoint != "charged" || string(r.State) != "state" {
		e.Errorf("Get(abandoned): tombstone %q, point %q, state %q, want %q, \"charged\", \"state\"",
			r.Response.Tombstone, r.RecoveryPoint, r.State, backend.Abandoned)
	}
	e.still("Checkpoint(abandoned)", c.Key, nil, func() error { return e.checkpoint(l, point(2, "q", "")) })
	e.still("Complete(abandoned)", c.Key, backend.ErrConflict, func() error { return e.complete(l, answer(2, "late")) })
	e.still("Release(abandoned)", c.Key, nil, func() error { return e.release(l) })
	e.swept2(fleeting("canary"))
	e.refuse("Claim(abandoned)", rival(c))
	e.same("Get(abandoned, swept again)", e.get(c.Key), r)
}

// abandoned leaves a record whose holder is gone for good, and returns its lease.
func (e *env) abandoned(c backend.Claim) backend.Lease {
	e.Helper()
	l := e.acquire("Claim", c).Holder()
	e.ok("Checkpoint", e.checkpoint(l, point(1, "charged", "state")))
	e.advance(c.Lease + c.Abandon)
	e.until("the record is abandoned", func() bool {
		e.sweep(10)
		return e.get(c.Key).Status == backend.Completed
	})
	return l
}

func sweepRevive(e *env) {
	c := fleeting("k")
	e.abandoned(c)
	n := rival(request("k"))
	n.Revive = true
	got := e.acquire("Claim(abandoned, Revive)", n)
	if got.RecoveryPoint != "charged" || string(got.State) != "state" || got.Response.Tombstone != "" {
		e.Errorf("Claim(abandoned, Revive): point %q, state %q, tombstone %q, want the recovery point", got.RecoveryPoint, got.State, got.Response.Tombstone)
	}
	e.same("Get(revived)", e.get(c.Key), got)
	e.ok("Complete(revived)", e.complete(got.Holder(), answer(1, "done")))
	again := rival(n)
	again.Revive = true
	e.refuse("Claim(completed, Revive)", again)
}

func sweepTombstoneCompleted(e *env) {
	c := fleeting("k")
	l := e.acquire("Claim", c).Holder()
	e.ok("Complete", e.complete(l, backend.Completion{Sequence: 1, Response: backend.Response{Tombstone: backend.Abandoned}}))
	r := e.get(c.Key)
	e.swept2(fleeting("canary"))
	e.advance(time.Hour)
	e.sweep(10)
	e.sweepNone("a store of an abandoned record")
	e.refuse("Claim(abandoned)", rival(c))
	r.ExpiresAt = time.Time{}
	e.same("Get(abandoned, swept)", e.get(c.Key), r)
}

func sweepLimit(e *env) {
	const records, limit = 7, 3
	for i := range records {
		e.completed(fleeting(fmt.Sprintf("k%d", i)))
	}
	e.advance(2 * short)
	total := 0
	e.until("the records are swept", func() bool {
		total += e.sweep(limit)
		for i := range records {
			if _, ok := e.find(request(fmt.Sprintf("k%d", i)).Key); ok {
				return false
			}
		}
		return true
	})
	if d := e.describe(); !d.Capabilities.NativeExpiry && total != records {
		e.Errorf("sweeps changed %d records in all, want %d", total, records)
	}
	e.sweepNone("a swept store")
}

// sweepExactly counts one sweep at a time.
func sweepExactly(e *env) {
	if e.describe().Capabilities.NativeExpiry {
		return // it returns 0
	}
	for i := range 7 {
		e.completed(fleeting(fmt.Sprintf("k%d", i)))
	}
	canary := fleeting("canary") // over when a sweep may take the others
	canary.Retention, canary.Abandon = 2*short, 2*short
	e.completed(canary)
	e.reclaim(rival(canary), canary.Retention)
	for _, want := range []int{3, 3, 1, 0} {
		if n := e.sweep(3); n != want {
			e.Errorf("Sweep(3) of 7 expired records = %d, want %d", n, want)
		}
	}
}

func sweepNotStarved(e *env) {
	for i := range 20 {
		c := fleeting(fmt.Sprintf("held%d", i))
		e.ok("Renew", e.renew(e.acquire("Claim", c).Holder(), time.Hour))
	}
	c := fleeting("over")
	e.completed(c)
	e.advance(c.Lease + c.Retention)
	e.until("the expired record is swept", func() bool {
		for rounds := 0; e.sweep(3) == 3; rounds++ { // to the end, as a sweeper does
			if rounds > 100 {
				e.Fatalf("Sweep(3) of 21 records = 3 for ever, want it to come to an end")
			}
		}
		_, ok := e.find(c.Key)
		return !ok
	})
}

const contested = 24

// contend claims keys with other claims while three sweepers are at work, until
// all are acquired, and checks that none of the records is lost.
func contend(e *env, cs []backend.Claim) {
	e.Helper()
	stop := make(chan struct{})
	swept := make(chan error, 1)
	go func() {
		errs := race(3, func(int) error {
			b := e.b
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				if _, err := b.Sweep(e.Context(), 5); err != nil {
					return err
				}
			}
		})
		swept <- errors.Join(errs...)
	}()
	other := e.open()
	type reply struct {
		claimed backend.Claimed
		err     error
	}
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
	defer cancel()
	replies := race(len(cs), func(i int) reply {
		n := rival(cs[i])
		n.Wait = 5 * time.Second
		for {
			got, err := other.Claim(ctx, n)
			if err != nil || got.Acquired {
				return reply{got, err}
			}
		}
	})
	for _, r := range replies {
		if r.err != nil {
			continue // reported below
		}
		if _, err := e.b.Get(e.Context(), r.claimed.Record.Key); err != nil {
			e.Errorf("Get(claimed while sweeping) = %v, want the record", err)
		}
	}
	close(stop)
	e.ok("Sweep(while claiming)", <-swept)
	for _, r := range replies {
		e.ok("Claim(while sweeping)", r.err)
		e.ok("Complete(claimed while sweeping)", e.complete(r.claimed.Record.Holder(), answer(1, "done")))
	}
}

func sweepAgainstClaims(e *env) {
	var cs []backend.Claim
	for i := range contested {
		c := fleeting(fmt.Sprintf("k%d", i))
		c.Lease = time.Millisecond // so that it is over for claims and for sweeps at once
		got := e.claim("Claim", c)
		e.ok("Complete", e.complete(got.Record.Holder(), answer(1, "done")))
		cs = append(cs, c)
	}
	e.advance(2 * short)
	contend(e, cs)
}

func sweepAgainstTakeovers(e *env) {
	var cs []backend.Claim
	for i := range contested {
		c := fleeting(fmt.Sprintf("k%d", i))
		e.claim("Claim", c)
		cs = append(cs, c)
	}
	e.advance(2 * short)
	contend(e, cs)
}

func sweepAgainstCompletions(e *env) {
	var ls []backend.Lease
	for i := range contested {
		c := fleeting(fmt.Sprintf("k%d", i))
		c.Lease, c.Retention = time.Millisecond, time.Hour // a completed one stays
		c.Abandon = c.Retention
		if e.Advance == nil {
			c.Retention, c.Abandon = 10*short, 10*short
		}
		ls = append(ls, e.claim("Claim", c).Record.Holder())
	}
	e.advance(time.Hour + short)
	start := time.Now()
	errs := race(contested+3, func(i int) error {
		if i < 3 {
			for range contested {
				if _, err := e.b.Sweep(e.Context(), 2); err != nil {
					return err
				}
			}
			return nil
		}
		return e.complete(ls[i-3], answer(1, "late"))
	})
	e.ok("Sweep(while completing)", errors.Join(errs[:3]...))
	for i, err := range errs[3:] {
		r, ok := e.find(ls[i].Key)
		switch {
		case err == nil && !ok && e.Advance == nil && time.Since(start) > 10*short:
			e.Logf("too slow to tell: its retention is over again")
		case err == nil && (!ok || r.Status != backend.Completed):
			e.Errorf("Complete(while sweeping) = nil, but the record is gone, want it completed")
		case err != nil && !errors.Is(err, backend.ErrLeaseLost):
			e.Errorf("Complete(while sweeping) = %v, want nil or ErrLeaseLost", err)
		case err != nil && ok:
			e.Errorf("Complete(while sweeping) = ErrLeaseLost, but the record is there and %v", r.Status)
		}
	}
}
