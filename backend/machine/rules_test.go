package machine_test

import (
	"errors"
	"fmt"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// check names the rule that a step broke, "" if it broke none. s is the state
// before the step.
func (s *state) check(step stepFunc, before *backend.Record, m machine.Message, after *backend.Record, out machine.Outcome) string {
	now, was, is := instant(s.now), compact(before), compact(after)
	expired := was.over(s.now)
	switch {
	case !out.Changed && was != is:
		return "a change is reported"
	case out.Err != nil && was != is:
		return "an error changes nothing"
	case before != nil && before.Status == backend.Completed && !expired && (after == nil || after.Status != backend.Completed || is.response != was.response && (is.response != forgotten || !was.remembered(s.now)) || is.claim != was.claim):
		return "a completed response never changes before the retention is over"
	case after != nil && after.Status == backend.Completed && (before == nil || before.Status == backend.Started) && s.finisher != 0:
		return "of one life at most one claim completes"
	case before != nil && before.Status == backend.Started && after == nil && was.point != 0:
		return "a record past a recovery point never goes unfinished"
	case before != nil && !expired && after != nil && is.point < was.point:
		return "a recovery point is never rolled back"
	}
	switch m := m.(type) {
	case machine.Claim:
		return s.checkClaim(before, m, was, is, out)
	case machine.Sweep:
		if before != nil && before.Status == backend.Started && was.left(s.now) > 0 && (after == nil || after.Status == backend.Completed) {
			return "a sweep takes no record whose lease is alive"
		}
		if was.remembered(s.now) && was.expires <= s.now && (is.response != forgotten || is.expires != was.remembrance()) {
			return "a sweep takes the response of a record that is only remembered"
		}
		if out.Changed {
			if _, again := step(after, m, now); again.Changed {
				return "a sweep comes to an end"
			}
		}
		return ""
	default:
		return s.checkWrite(step, before, m, after, out)
	}
}

func (s *state) checkClaim(before *backend.Record, m machine.Claim, was, is record, out machine.Outcome) string {
	got, shown := out.Claimed, is
	if was.remembered(s.now) {
		shown.response = forgotten
	}
	switch {
	case out.Err != nil:
		return "a claim is answered with a record"
	case compact(&got.Record) != shown:
		return "a claim returns the record after it, without the response where it is only remembered"
	case got.Record.LeaseLeft != is.left(s.now):
		return "a claim tells what is left of the lease"
	case got.Acquired && (is.status != backend.Started || got.Record.ClaimID != m.ID || got.Record.LeaseLeft <= 0):
		return "who acquires a record holds it"
	case before == nil || was.over(s.now):
		if !got.Acquired || is.attempt != 1 || is.point != 0 || is.created != s.now {
			return "a key that is free begins a new life"
		}
	case was.remembered(s.now):
		if got.Acquired || is != was {
			return "a record that is only remembered is not run again, and kept"
		}
	case before.Status == backend.Completed && (got.Acquired || !got.Record.Response.Equal(before.Response)):
		return "a completed record is replayed, always with the same response"
	case before.Status == backend.Started && before.ClaimID != m.ID && was.left(s.now) > 0 && got.Acquired:
		return "nobody takes over while the lease is alive"
	case before.Status == backend.Started && before.ClaimID == m.ID && (!got.Acquired || is.token != int16(before.Token)):
		return "a claim sent again is answered as the first time"
	}
	own := before != nil && before.Status == backend.Started && before.ClaimID == m.ID
	if got.Acquired && !own && is.token <= s.given {
		return "tokens grow over all lives"
	}
	return ""
}

func (s *state) checkWrite(step stepFunc, before *backend.Record, m machine.Message, after *backend.Record, out machine.Outcome) string {
	now, was, is := instant(s.now), compact(before), compact(after)
	l, release := leaseOf(m)
	holder := before != nil && before.ClaimID == l.ClaimID && before.Token == l.Token
	if !holder {
		want := backend.ErrLeaseLost
		if release && was.claim == 0 { // nobody holds it
			want = nil
		}
		switch {
		case was != is:
			return "a write by a claim that doesn't hold the record changes nothing"
		case !errors.Is(out.Err, want):
			return "a write by a claim that doesn't hold the record is ErrLeaseLost"
		}
		return ""
	}
	if again, o := step(after, m, now); !release && (!errors.Is(o.Err, out.Err) || compact(again) != is) {
		return "a write sent again is answered as the first time"
	}
	if out.Err != nil && (before.Response.Tombstone != backend.Abandoned || !errors.Is(out.Err, backend.ErrConflict)) {
		return "a holder's writes succeed, unless the record was abandoned"
	}
	if after != nil && after.ClaimID == before.ClaimID && after.Status == backend.Started && is.locked < was.locked {
		return "no write shortens the lease"
	}
	switch m := m.(type) {
	case machine.Checkpoint:
		if before.Status == backend.Started && is.point < pointNumber(m.Point) {
			return "a checkpoint that was acknowledged is stored"
		}
	case machine.Complete:
		if out.Err == nil && (after == nil || after.Status != backend.Completed || !after.Response.Equal(m.Response) && is.response != forgotten || is.claim != was.claim) {
			return "a completion that was acknowledged is stored"
		}
	case machine.Renew:
		if before.Status == backend.Started && after.LockedUntil.Before(now.Add(m.TTL)) {
			return "a renewal lasts"
		}
	case machine.Release:
		if after != nil && after.Status == backend.Started && (is.claim != 0 || is.left(s.now) > 0) {
			return "a release ends the lease at once"
		}
	}
	return ""
}

func leaseOf(m machine.Message) (l backend.Lease, release bool) {
	switch m := m.(type) {
	case machine.Renew:
		l = m.Lease
	case machine.Checkpoint:
		l = m.Lease
	case machine.Complete:
		l = m.Lease
	case machine.Release:
		return m.Lease, true
	}
	return l, false
}

// unlocked checks that a fresh claim gets the key or its answer, at the latest when
// the lease is over, and that one of another request gets neither.
func (x *exploration) unlocked(s state) {
	if x.broken != "" {
		return
	}
	r := s.rec.full()
	c := claimBy(7, x.limit.remember)
	c.Floor = backend.Token(s.given)
	now := instant(s.now)
	other := c
	other.Fingerprints = []backend.Fingerprint{fingerprint("other")}
	if r != nil && !s.rec.over(s.now) {
		if after, out := x.step(r, other, now); out.Claimed.Acquired || compact(after) != s.rec {
			x.broken = fmt.Sprintf("another request neither gets nor changes a record: %+v", s)
		}
		if r.Status == backend.Started && now.Before(r.LockedUntil) {
			now = r.LockedUntil
		}
	}
	_, out := x.step(r, c, now)
	if got := out.Claimed; !got.Acquired && got.Record.Status != backend.Completed {
		x.broken = fmt.Sprintf("a key is free when its lease is over: %+v", s)
	}
}
