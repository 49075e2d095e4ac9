package conformance

import (
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// What a message leaves behind.
var (
	untouched = after{"untouched", func(was *backend.Record, _ machine.Message, _ backend.Record) *backend.Record { return was }}
	gone      = after{"none", func(*backend.Record, machine.Message, backend.Record) *backend.Record { return nil }}

	begun = after{"started, as the claim says, higher token", func(was *backend.Record, m machine.Message, got backend.Record) *backend.Record {
		c := m.(machine.Claim).Claim
		r := backend.Record{
			Key: c.Key, Operation: c.Operation, Target: c.Target, Fingerprint: c.Fingerprints[0], Payload: c.Payload,
			Status: backend.Started, CreatedAt: got.CreatedAt, ExpiresAt: got.ExpiresAt,
		}
		if was != nil {
			r.Token = was.Token
		}
		return grant(r, c, got)
	}}
	resumed = after{"claim id of the claim, higher token, next attempt; the rest kept", func(was *backend.Record, m machine.Message, got backend.Record) *backend.Record {
		return grant(*was, m.(machine.Claim).Claim, got)
	}}
	freshLease = after{"fresh lease, same token", func(was *backend.Record, m machine.Message, got backend.Record) *backend.Record {
		return until(*was, m.(machine.Claim).Lease, got)
	}}
	extended = after{"lease extended", func(was *backend.Record, m machine.Message, got backend.Record) *backend.Record {
		return until(*was, m.(machine.Renew).TTL, got)
	}}
	moved = after{"at the checkpoint", func(was *backend.Record, m machine.Message, got backend.Record) *backend.Record {
		r, c := *was, m.(machine.Checkpoint)
		r.Sequence, r.RecoveryPoint, r.State = c.Sequence, c.Point, c.State
		r.UpdatedAt = got.UpdatedAt
		return &r
	}}
	ended = after{"completed with the response", func(was *backend.Record, m machine.Message, got backend.Record) *backend.Record {
		r, c := *was, m.(machine.Complete)
		r.Status, r.Sequence, r.Response = backend.Completed, c.Sequence, c.Response
		r.State, r.Payload, r.LeaseLeft, r.LockedUntil = nil, nil, 0, time.Time{}
		r.UpdatedAt, r.CompletedAt, r.ExpiresAt = got.UpdatedAt, got.CompletedAt, got.ExpiresAt
		return &r
	}}
	given = after{"lapsed, without a claim id", func(was *backend.Record, _ machine.Message, got backend.Record) *backend.Record {
		r := *was
		r.ClaimID, r.LeaseLeft = backend.ClaimID{}, 0
		r.LockedUntil, r.UpdatedAt = got.LockedUntil, got.UpdatedAt
		return &r
	}}
)

// grant gives the record to a claim. A token that is not higher is told by one
// that would be.
func grant(r backend.Record, c backend.Claim, got backend.Record) *backend.Record {
	r.ClaimID, r.Token, r.Sequence, r.Attempt = c.ID, max(got.Token, r.Token+1), 0, r.Attempt+1
	r.Lease, r.Retention, r.Abandon = c.Lease, c.Retention, c.Abandon
	return until(r, c.Lease, got)
}

// until lets the lease end later than it does, by at most d from now on.
func until(r backend.Record, d time.Duration, got backend.Record) *backend.Record {
	if got.LockedUntil.After(r.LockedUntil) {
		r.LockedUntil = got.LockedUntil
	} else {
		r.LockedUntil = r.LockedUntil.Add(1)
	}
	r.LeaseLeft, r.UpdatedAt = d, got.UpdatedAt
	return &r
}
