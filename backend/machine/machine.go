// Package machine is the state machine of an idempotency record as one pure
// function. It is the definition that all backends are measured against: the
// adapters whose store can read, decide and write in one atomic step call it,
// the others are compared with it by the conformance suite.
//
//	record                        message                  outcome        record after
//	none, or remembered no more   claim                    acquired       started, new claim id, higher token, lease
//	any that is not expired,      claim                    as it stands   untouched
//	  another request
//	completed                     claim                    as it stands   untouched
//	completed, retention over,    claim                    as it stands,  untouched
//	  remembered                                           the response
//	                                                       replaced by
//	                                                       "expired"
//	started, lease alive,         claim                    acquired       untouched, the same token
//	  same claim id
//	started, lease alive          claim                    as it stands   untouched
//	started, lapsed,              claim                    acquired       fresh lease, the same token
//	  same claim id
//	started, lapsed               claim                    acquired       new claim id, higher token; point and state kept
//	started, lapsed, no recovery  claim, RefuseTakeover    as it stands   untouched
//	  point
//	abandoned, same request       claim, Revive            acquired       started; new claim id, higher token; point and state kept
//	started, its claim id         renew                    done           lease extended, never shortened
//	started, its claim id         checkpoint, complete     by sequence    higher: as asked; lower: untouched;
//	                                                                      equal: untouched, ErrConflict if it differs
//	started, its claim id         release                  done           gone before the first recovery point,
//	                                                                      else lapsed and without claim id
//	started, other claim id       renew, checkpoint,       ErrLeaseLost   untouched
//	                              complete, release
//	completed, its claim id       complete                 done           untouched; ErrConflict if it differs from a response
//	                                                                      that no sweep took
//	completed, its claim id       renew, checkpoint,       done           untouched
//	                              release
//	completed, other claim id     renew, checkpoint,       ErrLeaseLost   untouched
//	                              complete, release
//	none                          renew, checkpoint,       ErrLeaseLost   none
//	                              complete
//	none; started and released    release                  done           untouched
//	time over                     sweep                    done           gone; with a recovery point: tombstone "abandoned";
//	                                                                      such a tombstone stays for ever
//	retention over, remembered    sweep                    done           the response replaced by "expired"
//
// A completed record is remembered for Retention and Remember from its completion on.
// Only claim and sweep look at the clock.
package machine

import (
	"bytes"
	"time"

	"github.com/idem-go/idem/backend"
)

// Message is one of the things that can arrive at a record: Claim, Renew,
// Checkpoint, Complete, Release or Sweep.
type Message interface {
	step(r *backend.Record, now time.Time) (*backend.Record, Outcome)
}

// Outcome of a step. Claimed is set for claims only.
type Outcome struct {
	Claimed backend.Claimed
	Err     error
	Changed bool // the record after is not the record before
}

// The messages.
type (
	Claim struct {
		backend.Claim
		// Floor is a token that the new one must exceed, for stores whose clock can
		// stand still. 0: none.
		Floor backend.Token
	}
	Renew struct {
		Lease backend.Lease
		TTL   time.Duration
	}
	Checkpoint struct {
		Lease backend.Lease
		backend.Checkpoint
	}
	Complete struct {
		Lease backend.Lease
		backend.Completion
	}
	Release struct{ Lease backend.Lease }
	Sweep   struct{}
)

// Step gives the record after a message arrived at now, by the store's clock.
// nil is "no record", before and after. The record given is not modified, but
// the one returned may share bytes with it and with the message.
func Step(r *backend.Record, m Message, now time.Time) (*backend.Record, Outcome) {
	return m.step(r, now)
}

// Expired reports whether the record is over for claims: they find it as if it
// were not there. Abandoned records never are; a person has to look.
func Expired(r backend.Record, now time.Time) bool {
	return ends(r) && !now.Before(r.CompletedAt.Add(r.Retention+r.Remember))
}

// Remembered reports whether all that is left of the record is that it was completed:
// its retention is over, and claims find no response any more, whether or not a sweep
// took it.
func Remembered(r backend.Record, now time.Time) bool {
	return ends(r) && !now.Before(r.CompletedAt.Add(r.Retention)) && !Expired(r, now)
}

// ends is true of records that expire one day.
func ends(r backend.Record) bool {
	return r.Status == backend.Completed && r.Response.Tombstone != backend.Abandoned
}

// Forgotten is what is left of a response when its retention is over. A tombstone
// goes, too: what it kept belongs to the answer.
func Forgotten(r backend.Response) backend.Response {
	return backend.Response{Tombstone: backend.Expired, Status: r.Status}
}

// LeaseLeft is what is left of the record's lease at now.
func LeaseLeft(r backend.Record, now time.Time) time.Duration {
	if r.Status != backend.Started {
		return 0
	}
	return max(0, r.LockedUntil.Sub(now))
}

func (m Claim) step(r *backend.Record, now time.Time) (*backend.Record, Outcome) {
	if r == nil || Expired(*r, now) {
		var old backend.Token
		if r != nil {
			old = r.Token
		}
		return m.acquire(&backend.Record{
			Key: m.Key, Operation: m.Operation, Target: m.Target, Fingerprint: m.Fingerprints[0],
			Status: backend.Started, Token: old, Payload: m.Payload, CreatedAt: now,
			ExpiresAt: now.Add(m.Lease + m.Retention),
		}, now)
	}
	left := LeaseLeft(*r, now)
	own := r.ClaimID == m.ID
	revived := m.Revive && r.Status == backend.Completed && r.Response.Tombstone == backend.Abandoned
	switch {
	case m.Compare(*r) != backend.Same, r.Status == backend.Completed && !revived, left > 0 && !own,
		m.RefuseTakeover && r.RecoveryPoint == "" && !own:
		return r, Outcome{Claimed: answer(r, false, now)}
	case revived:
		n := *r
		n.Status, n.Response = backend.Started, backend.Response{}
		n.CompletedAt, n.ExpiresAt = time.Time{}, now.Add(m.Lease+m.Retention)
		return m.acquire(&n, now)
	case left > 0:
		return r, Outcome{Claimed: answer(r, true, now)}
	case own:
		n := *r
		n.LockedUntil, n.UpdatedAt = now.Add(m.Lease), now
		return &n, Outcome{Claimed: answer(&n, true, now), Changed: true}
	}
	return m.acquire(r, now)
}

// acquire gives the record, or the new one, to this claim.
func (m Claim) acquire(r *backend.Record, now time.Time) (*backend.Record, Outcome) {
	n := *r
	n.ClaimID = m.ID
	n.Token = max(r.Token+1, m.Floor+1, backend.Token(now.UnixMicro()))
	n.Sequence = 0
	n.Attempt++
	n.Lease, n.Retention, n.Remember, n.Abandon = m.Lease, m.Retention, m.Remember, m.Abandon
	n.LockedUntil, n.UpdatedAt = now.Add(m.Lease), now
	return &n, Outcome{Claimed: answer(&n, true, now), Changed: true}
}

func answer(r *backend.Record, acquired bool, now time.Time) backend.Claimed {
	c := backend.Claimed{Acquired: acquired, Record: *r}
	if Remembered(*r, now) {
		c.Record.Response = Forgotten(r.Response)
	}
	c.Record.LeaseLeft = LeaseLeft(*r, now)
	return c
}

// held reports whether the lease is the record's. A message of any other claim
// ends with ErrLeaseLost.
func held(r *backend.Record, l backend.Lease) bool {
	return r != nil && r.ClaimID == l.ClaimID && r.Token == l.Token
}

func lost(r *backend.Record) (*backend.Record, Outcome) {
	return r, Outcome{Err: backend.ErrLeaseLost}
}

func (m Renew) step(r *backend.Record, now time.Time) (*backend.Record, Outcome) {
	if !held(r, m.Lease) {
		return lost(r)
	}
	if until := now.Add(m.TTL); r.Status == backend.Started && until.After(r.LockedUntil) {
		n := *r
		n.LockedUntil, n.UpdatedAt = until, now
		return &n, Outcome{Changed: true}
	}
	return r, Outcome{}
}

func (m Checkpoint) step(r *backend.Record, now time.Time) (*backend.Record, Outcome) {
	switch {
	case !held(r, m.Lease):
		return lost(r)
	case r.Status == backend.Completed, m.Sequence < r.Sequence:
		return r, Outcome{}
	case m.Sequence == r.Sequence:
		if m.Point != r.RecoveryPoint || !bytes.Equal(m.State, r.State) {
			return r, Outcome{Err: backend.ErrConflict}
		}
		return r, Outcome{}
	}
	n := *r
	n.Sequence, n.RecoveryPoint, n.State, n.UpdatedAt = m.Sequence, m.Point, m.State, now
	return &n, Outcome{Changed: true}
}

func (m Complete) step(r *backend.Record, now time.Time) (*backend.Record, Outcome) {
	switch {
	case !held(r, m.Lease):
		return lost(r)
	case m.Sequence < r.Sequence:
		return r, Outcome{}
	case r.Status == backend.Completed && (m.Response.Equal(r.Response) || r.Response.Tombstone == backend.Expired):
		return r, Outcome{}
	case r.Status == backend.Completed, m.Sequence == r.Sequence:
		return r, Outcome{Err: backend.ErrConflict}
	}
	n := *r
	n.Status, n.Sequence, n.Response = backend.Completed, m.Sequence, m.Response
	n.State, n.Payload, n.LockedUntil, n.LeaseLeft = nil, nil, time.Time{}, 0
	n.CompletedAt, n.UpdatedAt = now, now
	if end := now.Add(n.Retention); end.After(n.ExpiresAt) {
		n.ExpiresAt = end
	}
	return &n, Outcome{Changed: true}
}

func (m Release) step(r *backend.Record, now time.Time) (*backend.Record, Outcome) {
	switch {
	case r == nil, r.ClaimID == backend.ClaimID{}:
		return r, Outcome{}
	case !held(r, m.Lease):
		return lost(r)
	case r.Status == backend.Completed:
		return r, Outcome{}
	case r.RecoveryPoint == "":
		return nil, Outcome{Changed: true}
	}
	n := *r
	n.ClaimID, n.LockedUntil, n.UpdatedAt = backend.ClaimID{}, now, now
	return &n, Outcome{Changed: true}
}

func (Sweep) step(r *backend.Record, now time.Time) (*backend.Record, Outcome) {
	if r == nil || r.ExpiresAt.IsZero() || now.Before(r.ExpiresAt) {
		return r, Outcome{}
	}
	if r.Status == backend.Completed {
		if Expired(*r, now) {
			return nil, Outcome{Changed: true}
		}
		n := *r
		switch {
		case r.Response.Tombstone == backend.Abandoned:
			n.ExpiresAt = time.Time{}
		case Remembered(*r, now):
			n.Response = Forgotten(r.Response)
			n.ExpiresAt = r.CompletedAt.Add(r.Retention + r.Remember)
		default:
			n.ExpiresAt = r.CompletedAt.Add(r.Retention)
		}
		return &n, Outcome{Changed: true}
	}
	due := r.UpdatedAt.Add(r.Abandon)
	if due.Before(r.LockedUntil) {
		due = r.LockedUntil
	}
	switch {
	case now.Before(due):
		n := *r
		n.ExpiresAt = due
		return &n, Outcome{Changed: true}
	case r.RecoveryPoint == "":
		return nil, Outcome{Changed: true}
	}
	// The claim id stays: late writes of the last holder find a completed record.
	n := *r
	n.Status, n.Response = backend.Completed, backend.Response{Tombstone: backend.Abandoned}
	n.LockedUntil, n.ExpiresAt = time.Time{}, time.Time{}
	n.CompletedAt, n.UpdatedAt = now, now
	return &n, Outcome{Changed: true}
}
