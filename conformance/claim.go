package conformance

import (
	"time"

	"github.com/idem-go/idem/backend"
)

var claimCases = []testCase{
	rule("claim/not-before-lapse", "No other claim acquires a record before its lease is over.", claimNotBeforeLapse), // field report 30
	rule("claim/retention-over", "A completed record whose retention is over is as if it were not there, also for another request.", claimRetentionOver),
	rule("claim/race-fresh", "Of many claims of a new key at once one acquires it, and the others see its record.", func(e *env) { // field reports 6, 7, 9
		claimRace(e, request("k"))
	}),
	rule("claim/race-lapsed", "Of many claims of a lapsed record at once one acquires it.", func(e *env) {
		c := hasty("k")
		e.acquire("Claim", c)
		e.lapse(c)
		claimRace(e, c)
	}),
	rule("claim/race-retention-over", "Of many claims of an expired record at once one acquires it.", func(e *env) {
		c := fleeting("k")
		e.completed(c)
		e.advance(c.Retention)
		claimRace(e, c)
	}),
}

func claimNotBeforeLapse(e *env) {
	c := hasty("k")
	sent := time.Now()
	e.acquire("Claim", c)
	e.notBefore("another claim acquires", c.Lease, sent, func() bool { return e.claim("Claim", rival(c)).Acquired })
}

func claimRetentionOver(e *env) {
	c := fleeting("k")
	l := e.acquire("Claim", c).Holder()
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "s")))
	sent := time.Now()
	e.ok("Complete", e.complete(l, answer(2, "done")))
	next := rival(c)
	next.Target.Path, next.Operation = "/other", "other"
	next.Fingerprints = []backend.Fingerprint{fingerprint("v2", "other")}
	e.notBefore("another request acquires", c.Retention, sent, func() bool { return e.claim("Claim", next).Acquired })
	r := e.get(c.Key)
	want := backend.Record{
		Key: c.Key, Operation: next.Operation, Target: next.Target, Fingerprint: next.Fingerprints[0],
		Status: backend.Started, ClaimID: next.ID, Token: r.Token, Attempt: 1,
		Lease: next.Lease, Retention: next.Retention, Abandon: next.Abandon,
		LockedUntil: r.LockedUntil, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt,
	}
	e.same("Get(second life)", r, want)
}

// claimRace claims the key of c many times at once, until one acquires it.
func claimRace(e *env, c backend.Claim) {
	e.Helper()
	const claimers = 20
	handles := []backend.Backend{e.b, e.open(), e.open(), e.open()}
	type reply struct {
		claim backend.Claim
		got   backend.Claimed
		err   error
	}
	var winners int
	e.until("one of many claims acquires", func() bool {
		replies := race(claimers, func(i int) reply {
			n := rival(c)
			n.Wait = 5 * time.Second
			got, err := handles[i%len(handles)].Claim(e.Context(), n)
			return reply{n, got, err}
		})
		now, _ := e.find(c.Key) // the store may just have deleted one that is over
		for _, r := range replies {
			e.ok("Claim(at once)", r.err)
			switch {
			case r.got.Acquired:
				winners++
				if now.ClaimID != r.claim.ID || now.Token != r.got.Record.Token {
					e.Errorf("Claim(at once): acquired with token %d, but the record has %d", r.got.Record.Token, now.Token)
				}
			case r.got.Hidden:
				e.Errorf("Claim(at once): hidden, want the winner's record")
			case r.got.Record.Status == backend.Started && r.got.Record.ClaimID != now.ClaimID:
				e.Errorf("Claim(at once): shown a record of another claim than the winner's")
			}
		}
		return winners > 0
	})
	if winners != 1 {
		e.Errorf("%d of %d claims at once acquired, want 1", winners, claimers)
	}
}
