package conformance

import (
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
)

var claimCases = []testCase{
	rule("claim/fresh", "A claim of a key without a record acquires it, and the record holds what the claim said.", claimFresh),
	rule("claim/in-progress", "While a lease is alive, another claim gets the record as it stands, with what is left of the lease.", claimInProgress),
	rule("claim/replay", "A claim of a completed record gets it as it stands, with the response.", claimReplay),
	rule("claim/same-id-again", "Claiming again with the same claim id is answered as the first time: same token, untouched.", claimSameID),
	rule("claim/same-id-lapsed", "Its own lapsed lease is acquired again by the same claim id, with the same token and a fresh lease.", claimSameIDLapsed),
	rule("claim/same-id-completed", "A claim id that completed its record gets it as it stands and is not run again.", claimSameIDCompleted),
	rule("claim/takeover", "A lapsed record is taken over: new claim id, higher token, next attempt; nothing else changes.", claimTakeover),
	rule("claim/takeover-resumes", "A takeover keeps the recovery point and its state, and the new claim's sequence starts anew.", claimTakeoverResumes),
	rule("claim/not-before-lapse", "No other claim acquires a record before its lease is over.", claimNotBeforeLapse),
	rule("claim/refuse-takeover", "RefuseTakeover leaves a lapsed record without a recovery point as it is, except for its own claim id.", claimRefuseTakeover),
	rule("claim/refuse-takeover-resumes", "RefuseTakeover doesn't keep a record with a recovery point from being resumed.", claimRefuseTakeoverResumes),
	rule("claim/retention-over", "A completed record whose retention is over is as if it were not there, also for another request.", claimRetentionOver),
	rule("claim/mismatch-in-flight", "Another request under the key gets the record as it stands, also while the first is running.", func(e *env) {
		mismatch(e, request("k"), func(backend.Claim, backend.Lease) {})
	}),
	rule("claim/mismatch-lapsed", "Another request doesn't take a lapsed record over.", func(e *env) {
		mismatch(e, hasty("k"), func(c backend.Claim, _ backend.Lease) { e.lapse(c) })
	}),
	rule("claim/mismatch-released", "Another request doesn't resume a released record.", func(e *env) {
		mismatch(e, request("k"), func(_ backend.Claim, l backend.Lease) {
			e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "")))
			e.ok("Release", e.release(l))
		})
	}),
	rule("claim/mismatch-completed", "Completion keeps target and fingerprint: another request is told apart from the completed one (field report 13).", func(e *env) {
		mismatch(e, request("k"), func(_ backend.Claim, l backend.Lease) {
			e.ok("Complete", e.complete(l, answer(1, "done")))
		})
	}),
	rule("claim/mismatch-own-id", "A claim id that comes with another request doesn't get its record.", claimMismatchOwnID),
	rule("claim/operation-is-a-label", "The operation is never compared (hard case 27).", claimOperation),
	rule("claim/older-fingerprint", "A record is compared in the fingerprint version it was stored with (hard case 4).", claimOlderFingerprint),
	rule("claim/unknown-fingerprint", "A record of a version that the claim carries no fingerprint of is neither acquired nor touched (hard case 28).", claimUnknownFingerprint),
	rule("claim/race-fresh", "Of many claims of a new key at once one acquires it, and the others see its record (field reports 6, 7, 9).", func(e *env) {
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
	rule("claim/payload", "The payload is stored with a new record, kept by a takeover and gone with the completion.", claimPayload),
}

func claimFresh(e *env) {
	e.gone("of a key never claimed", request("k").Key)
	c := request("k")
	c.Payload = []byte("payload")
	r := e.acquire("Claim(new key)", c)
	want := backend.Record{
		Key: c.Key, Operation: c.Operation, Target: c.Target, Fingerprint: c.Fingerprints[0],
		Status: backend.Started, ClaimID: c.ID, Token: r.Token, Attempt: 1, Payload: c.Payload,
		Lease: c.Lease, Retention: c.Retention, Abandon: c.Abandon,
		LockedUntil: r.LockedUntil, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, ExpiresAt: r.ExpiresAt,
	}
	e.same("Claim(new key)", r, want)
	if r.LeaseLeft > c.Lease {
		e.Errorf("Claim(new key): rest of the lease = %v, want at most %v", r.LeaseLeft, c.Lease)
	}
	if r.CreatedAt.IsZero() || r.UpdatedAt.IsZero() || !r.CompletedAt.IsZero() {
		e.Errorf("Claim(new key): created %v, updated %v, completed %v, want the last one zero only", r.CreatedAt, r.UpdatedAt, r.CompletedAt)
	}
}

func claimInProgress(e *env) {
	c := request("k")
	first := e.acquire("Claim", c)
	r := e.refuse("Claim(in flight)", rival(c))
	if r.LeaseLeft <= 0 || r.LeaseLeft > first.LeaseLeft {
		e.Errorf("Claim(in flight): rest of the lease = %v, want more than 0 and at most %v", r.LeaseLeft, first.LeaseLeft)
	}
}

func claimReplay(e *env) {
	c := request("k")
	e.completed(c)
	r := e.refuse("Claim(completed)", rival(c))
	if want := answer(1, "done").Response; r.Status != backend.Completed || !r.Response.Equal(want) || r.LeaseLeft != 0 {
		e.Errorf("Claim(completed) = %v, %+v, lease %v, want completed, %+v, 0", r.Status, r.Response, r.LeaseLeft, want)
	}
}

func claimSameID(e *env) {
	c := request("k")
	first := e.acquire("Claim", c)
	e.same("Claim(same id)", e.acquire("Claim(same id)", c), first)
	l := first.Holder()
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "s")))
	at := e.get(c.Key)
	e.same("Claim(same id, after a checkpoint)", e.acquire("Claim(same id, after a checkpoint)", c), at)
}

func claimSameIDLapsed(e *env) {
	c := hasty("k")
	first := e.acquire("Claim", c)
	e.lapse(c)
	c.Lease = time.Minute
	again := e.acquire("Claim(same id, lapsed)", c)
	if again.Token != first.Token || again.Attempt != first.Attempt {
		e.Errorf("Claim(same id, lapsed): token %d, attempt %d, want %d, %d as before", again.Token, again.Attempt, first.Token, first.Attempt)
	}
	e.refuse("Claim(after the fresh lease)", rival(c))
	e.ok("Complete", e.complete(first.Holder(), answer(1, "done")))
}

func claimSameIDCompleted(e *env) {
	c := request("k")
	e.completed(c)
	if r := e.refuse("Claim(same id, completed)", c); r.ClaimID != c.ID {
		e.Errorf("Claim(same id, completed): claim id = %x, want the one that completed", r.ClaimID)
	}
}

func claimTakeover(e *env) {
	c := hasty("k")
	first := e.acquire("Claim", c)
	e.lapse(c)
	next := rival(c)
	next.Operation, next.Retention, next.Abandon = "renamed", 48*time.Hour, 96*time.Hour
	next.Payload = []byte("another")
	r := e.acquire("Claim(lapsed)", next)
	if r.Token <= first.Token {
		e.Errorf("Claim(lapsed): token = %d, want more than %d", r.Token, first.Token)
	}
	want := first
	want.ClaimID, want.Token, want.Attempt = next.ID, r.Token, 2
	want.Lease, want.Retention, want.Abandon = next.Lease, next.Retention, next.Abandon
	want.LockedUntil, want.UpdatedAt = r.LockedUntil, r.UpdatedAt
	e.same("Claim(lapsed)", r, want)
	e.refuse("Claim(after the takeover)", rival(c))
}

func claimTakeoverResumes(e *env) {
	c := hasty("k")
	l := e.acquire("Claim", c).Holder()
	e.ok("Checkpoint", e.checkpoint(l, point(7, "charged", "state")))
	e.lapse(c)
	r := e.acquire("Claim(lapsed)", rival(c))
	if r.RecoveryPoint != "charged" || string(r.State) != "state" || r.Sequence != 0 {
		e.Errorf("Claim(lapsed): point %q, state %q, sequence %d, want \"charged\", \"state\", 0", r.RecoveryPoint, r.State, r.Sequence)
	}
	e.ok("Checkpoint(sequence 1 of the new claim)", e.checkpoint(r.Holder(), point(1, "shipped", "more")))
	if r := e.get(c.Key); r.RecoveryPoint != "shipped" || string(r.State) != "more" {
		e.Errorf("Get: point %q, state %q, want \"shipped\", \"more\"", r.RecoveryPoint, r.State)
	}
}

func claimNotBeforeLapse(e *env) {
	c := hasty("k")
	sent := time.Now()
	e.acquire("Claim", c)
	e.notBefore("another claim acquires", c.Lease, sent, func() bool { return e.claim("Claim", rival(c)).Acquired })
}

func claimRefuseTakeover(e *env) {
	c := hasty("k")
	first := e.acquire("Claim", c)
	e.lapse(c)
	next := rival(c)
	next.RefuseTakeover = true
	if r := e.refuse("Claim(lapsed, RefuseTakeover)", next); r.LeaseLeft != 0 {
		e.Errorf("Claim(lapsed, RefuseTakeover): rest of the lease = %v, want 0", r.LeaseLeft)
	}
	c.RefuseTakeover, c.Lease = true, time.Minute
	if r := e.acquire("Claim(lapsed, same id, RefuseTakeover)", c); r.Token != first.Token {
		e.Errorf("Claim(lapsed, same id, RefuseTakeover): token = %d, want %d", r.Token, first.Token)
	}
}

func claimRefuseTakeoverResumes(e *env) {
	c := hasty("k")
	e.ok("Checkpoint", e.checkpoint(e.acquire("Claim", c).Holder(), point(1, "p", "")))
	e.lapse(c)
	next := rival(c)
	next.RefuseTakeover = true
	e.acquire("Claim(lapsed at a recovery point, RefuseTakeover)", next)
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

// mismatch brings a record into a state and sends other requests under its key.
func mismatch(e *env, c backend.Claim, bring func(backend.Claim, backend.Lease)) {
	e.Helper()
	bring(c, e.acquire("Claim", c).Holder())
	for part, other := range map[backend.Part]func(*backend.Claim){
		backend.Method:  func(n *backend.Claim) { n.Target.Method = "PUT" },
		backend.Path:    func(n *backend.Claim) { n.Target.Path += " " },
		backend.Content: func(n *backend.Claim) { n.Fingerprints = []backend.Fingerprint{fingerprint("v1", "altered")} },
	} {
		n := rival(c)
		other(&n)
		call := fmt.Sprintf("Claim(other %s)", part)
		if got := n.Compare(e.refuse(call, n)); got != part {
			e.Errorf("%s: compared with the record = %q, want %q", call, got, part)
		}
	}
}

func claimMismatchOwnID(e *env) {
	c := request("k")
	e.acquire("Claim", c)
	c.Fingerprints = []backend.Fingerprint{fingerprint("v1", "altered")}
	e.refuse("Claim(same id, other content)", c)
}

func claimOperation(e *env) {
	c := request("k")
	e.completed(c)
	next := rival(c)
	next.Operation = "POST /v2/payments"
	r := e.refuse("Claim(renamed operation)", next)
	if got := next.Compare(r); got != backend.Same {
		e.Errorf("Claim(renamed operation): differs in %q, want the same request", got)
	}
	h := hasty("k2")
	e.acquire("Claim", h)
	e.lapse(h)
	next = rival(h)
	next.Operation = "POST /v2/payments"
	e.acquire("Claim(renamed operation, lapsed)", next)
}

func claimOlderFingerprint(e *env) {
	old := hasty("k")
	e.acquire("Claim", old)
	e.lapse(old)
	next := rival(old)
	next.Fingerprints = []backend.Fingerprint{fingerprint("v2", "new algorithm"), fingerprint("v1", "altered")}
	e.refuse("Claim(v2, v1 with other content)", next)
	next.Fingerprints[1] = old.Fingerprints[0]
	if r := e.acquire("Claim(v2, v1)", next); r.Fingerprint != old.Fingerprints[0] {
		e.Errorf("Claim(v2, v1): fingerprint of the record has version %q, want %q unchanged", r.Fingerprint.Version, "v1")
	}
	fresh := rival(request("k2"))
	fresh.Fingerprints = next.Fingerprints
	if r := e.acquire("Claim(new key; v2, v1)", fresh); r.Fingerprint != next.Fingerprints[0] {
		e.Errorf("Claim(new key; v2, v1): stored version %q, want the first, %q", r.Fingerprint.Version, "v2")
	}
}

func claimUnknownFingerprint(e *env) {
	for _, in := range []struct {
		state string
		bring func(backend.Claim, backend.Lease)
	}{
		{"in flight", func(backend.Claim, backend.Lease) {}},
		{"lapsed", func(c backend.Claim, _ backend.Lease) { e.lapse(c) }},
		{"completed", func(_ backend.Claim, l backend.Lease) { e.ok("Complete", e.complete(l, answer(1, "done"))) }},
	} {
		c := request(in.state)
		if in.state == "lapsed" {
			c = hasty(in.state)
		}
		in.bring(c, e.acquire("Claim", c).Holder())
		next := rival(c)
		next.Fingerprints = []backend.Fingerprint{{Version: "v9", Sum: c.Fingerprints[0].Sum}}
		r := e.refuse("Claim(unknown version, "+in.state+")", next)
		if got := next.Compare(r); got != backend.Unknown {
			e.Errorf("Claim(unknown version, %s): differs in %q, want %q", in.state, got, backend.Unknown)
		}
	}
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
		now := e.get(c.Key)
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

func claimPayload(e *env) {
	c := hasty("k")
	c.Payload = []byte("payload")
	e.acquire("Claim", c)
	e.lapse(c)
	r := e.acquire("Claim(lapsed)", rival(c))
	if string(r.Payload) != "payload" {
		e.Errorf("Claim(lapsed): payload = %q, want %q", r.Payload, "payload")
	}
	e.ok("Complete", e.complete(r.Holder(), answer(1, "done")))
	if r := e.get(c.Key); len(r.Payload) != 0 {
		e.Errorf("Get(completed): payload has %d bytes, want none", len(r.Payload))
	}
}
