package machine_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// at is the time of the tests, in a month when tokens come from the clock.
var at = time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)

// started is a record that claim 1 has held for a second.
func started(change ...func(r *backend.Record)) *backend.Record {
	r := &backend.Record{
		Key: key, Operation: "pay", Target: backend.Target{Method: "POST", Path: "/"}, Fingerprint: fingerprint("content"),
		Status: backend.Started, ClaimID: backend.ClaimID{1}, Token: 5, Attempt: 1, Payload: []byte("payload"),
		Lease: 10 * time.Second, Retention: time.Hour, Abandon: 2 * time.Hour,
		LockedUntil: at.Add(9 * time.Second), CreatedAt: at.Add(-time.Second), UpdatedAt: at.Add(-time.Second),
		ExpiresAt: at.Add(time.Hour + 9*time.Second),
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func atPoint(r *backend.Record) {
	r.Sequence, r.RecoveryPoint, r.State = 2, "charged", []byte("state")
}
func lapsed(r *backend.Record) { r.LockedUntil = at }
func released(r *backend.Record) {
	atPoint(r)
	lapsed(r)
	r.ClaimID = backend.ClaimID{}
}

func completed(r *backend.Record) {
	atPoint(r)
	r.Status, r.Sequence, r.Response = backend.Completed, 3, response(1)
	r.State, r.Payload, r.LockedUntil = nil, nil, time.Time{}
	r.CompletedAt = at.Add(-time.Second)
}

// over ends the retention at this very moment.
func over(r *backend.Record) {
	completed(r)
	r.CompletedAt, r.ExpiresAt = at.Add(-time.Hour), at
}

// remembered is over, too, and known to have been completed for two hours more.
func remembered(r *backend.Record) {
	over(r)
	r.Remember = 2 * time.Hour
}

// forgot is what a sweep leaves of it.
func forgot(r *backend.Record) {
	remembered(r)
	r.Response, r.ExpiresAt = expired, at.Add(2*time.Hour)
}

// unremembered is the end of that at this very moment.
func unremembered(r *backend.Record) {
	remembered(r)
	r.CompletedAt, r.ExpiresAt = at.Add(-3*time.Hour), at
}

// due lets a sweep look at the record.
func due(r *backend.Record) { r.ExpiresAt = at }

// idle was last touched when the record becomes abandoned now.
func idle(r *backend.Record) {
	lapsed(r)
	due(r)
	r.UpdatedAt = at.Add(-2 * time.Hour)
}

func isAbandoned(r *backend.Record) {
	r.Status, r.Response = backend.Completed, backend.Response{Tombstone: backend.Abandoned}
	r.LockedUntil, r.ExpiresAt, r.CompletedAt, r.UpdatedAt = time.Time{}, time.Time{}, at, at
}

// claim is one of the request, with durations of its own.
func claim(id byte, change ...func(c *machine.Claim)) machine.Claim {
	c := machine.Claim{Claim: backend.Claim{
		Key: key, ID: backend.ClaimID{id}, Operation: "renamed", Target: backend.Target{Method: "POST", Path: "/"},
		Fingerprints: []backend.Fingerprint{{Version: "v2"}, fingerprint("content")},
		Lease:        20 * time.Second, Retention: 3 * time.Hour, Abandon: 4 * time.Hour, Payload: []byte("new"),
		Remember: 5 * time.Hour,
	}}
	for _, f := range change {
		f(&c)
	}
	return c
}

func otherMethod(c *machine.Claim) { c.Target.Method = "PUT" }
func otherPath(c *machine.Claim)   { c.Target.Path = "/other" }
func otherContent(c *machine.Claim) {
	c.Fingerprints = []backend.Fingerprint{fingerprint("other")}
}
func unknown(c *machine.Claim)  { c.Fingerprints = c.Fingerprints[:1] }
func refusing(c *machine.Claim) { c.RefuseTakeover = true }
func reviving(c *machine.Claim) { c.Revive = true }

// fresh is the record of claim 2 with a life of its own.
func fresh(token backend.Token) *backend.Record {
	return &backend.Record{
		Key: key, Operation: "renamed", Target: backend.Target{Method: "POST", Path: "/"}, Fingerprint: backend.Fingerprint{Version: "v2"},
		Status: backend.Started, ClaimID: backend.ClaimID{2}, Token: token, Attempt: 1, Payload: []byte("new"),
		Lease: 20 * time.Second, Retention: 3 * time.Hour, Remember: 5 * time.Hour, Abandon: 4 * time.Hour,
		LockedUntil: at.Add(20 * time.Second), CreatedAt: at, UpdatedAt: at, ExpiresAt: at.Add(3*time.Hour + 20*time.Second),
	}
}

// clocked is the token drawn at this moment.
var clocked = backend.Token(at.UnixMicro())

func resumedBy(id byte) func(r *backend.Record) {
	return func(r *backend.Record) {
		r.ClaimID, r.Token, r.Sequence, r.Attempt = backend.ClaimID{id}, clocked, 0, 2
		r.Lease, r.Retention, r.Remember, r.Abandon = 20*time.Second, 3*time.Hour, 5*time.Hour, 4*time.Hour
		r.LockedUntil, r.UpdatedAt = at.Add(20*time.Second), at
	}
}

func lockedFor(d time.Duration) func(r *backend.Record) {
	return func(r *backend.Record) { r.LockedUntil, r.UpdatedAt = at.Add(d), at }
}

// The writes of a holder.
func holder(id byte, token backend.Token) backend.Lease {
	return backend.Lease{Key: key, ClaimID: backend.ClaimID{id}, Token: token}
}

func renew(l backend.Lease, ttl time.Duration) machine.Message {
	return machine.Renew{Lease: l, TTL: ttl}
}

func checkpoint(l backend.Lease, seq backend.Sequence, point, state string) machine.Message {
	return machine.Checkpoint{Lease: l, Checkpoint: backend.Checkpoint{Sequence: seq, Point: point, State: []byte(state)}}
}

func complete(l backend.Lease, seq backend.Sequence, by uint8) machine.Message {
	return machine.Complete{Lease: l, Completion: backend.Completion{Sequence: seq, Response: response(by)}}
}

func release(l backend.Lease) machine.Message { return machine.Release{Lease: l} }

func writes(l backend.Lease) []machine.Message {
	return []machine.Message{renew(l, time.Hour), checkpoint(l, 9, "late", ""), complete(l, 9, 1), release(l)}
}

func stored(seq backend.Sequence, point, state string) func(r *backend.Record) {
	return func(r *backend.Record) {
		r.Sequence, r.RecoveryPoint, r.State, r.UpdatedAt = seq, point, []byte(state), at
	}
}

func completedNow(seq backend.Sequence) func(r *backend.Record) {
	return func(r *backend.Record) {
		r.Status, r.Sequence, r.Response = backend.Completed, seq, response(1)
		r.State, r.Payload, r.LockedUntil = nil, nil, time.Time{}
		r.CompletedAt, r.UpdatedAt = at, at
	}
}

// step checks one arrival of a message.
func step(t *testing.T, before *backend.Record, m machine.Message, acquired bool, wantErr error, want *backend.Record) {
	t.Helper()
	var copied backend.Record
	if before != nil {
		copied = before.Clone()
	}
	after, out := machine.Step(before, m, at)
	if before != nil && !reflect.DeepEqual(*before, copied) {
		t.Errorf("Step(%T) changed the record it was given", m)
	}
	if !errors.Is(out.Err, wantErr) || out.Claimed.Acquired != acquired {
		t.Errorf("Step(%#v): acquired = %v, err = %v, want %v, %v", m, out.Claimed.Acquired, out.Err, acquired, wantErr)
	}
	if !reflect.DeepEqual(after, want) {
		t.Errorf("Step(%#v):\n after %+v\n  want %+v", m, after, want)
	}
	if changed := !reflect.DeepEqual(before, after); out.Changed != changed {
		t.Errorf("Step(%#v): changed = %v, want %v", m, out.Changed, changed)
	}
	if _, ok := m.(machine.Claim); ok {
		c := *want
		c.LeaseLeft = machine.LeaseLeft(c, at)
		if c.Status == backend.Completed && c.Response.Tombstone != backend.Abandoned && !at.Before(c.CompletedAt.Add(c.Retention)) {
			c.Response = expired
		}
		if !reflect.DeepEqual(out.Claimed.Record, c) {
			t.Errorf("Step(%#v):\n claimed %+v\n    want %+v", m, out.Claimed.Record, c)
		}
	}
}

func TestExpiredAtTheExactMoment(t *testing.T) {
	t.Parallel()
	r := *started(over)
	if machine.Expired(r, at.Add(-1)) || !machine.Expired(r, at) {
		t.Error("Expired a nanosecond before and at the end of the retention: want false, true")
	}
	if machine.Remembered(r, at.Add(-1)) || machine.Remembered(r, at) {
		t.Error("Remembered(remember 0) = true, want false")
	}
	r.Remember = time.Hour
	for _, tt := range []struct {
		after               time.Duration
		remembered, expired bool
	}{{-1, false, false}, {0, true, false}, {time.Hour - 1, true, false}, {time.Hour, false, true}} {
		if got := machine.Remembered(r, at.Add(tt.after)); got != tt.remembered {
			t.Errorf("Remembered(%v after the retention, 1h of remembrance) = %v, want %v", tt.after, got, tt.remembered)
		}
		if got := machine.Expired(r, at.Add(tt.after)); got != tt.expired {
			t.Errorf("Expired(%v after the retention, 1h of remembrance) = %v, want %v", tt.after, got, tt.expired)
		}
	}
	r.Response = backend.Response{Tombstone: backend.Abandoned}
	if machine.Remembered(r, at) || machine.Remembered(*started(idle), at) {
		t.Error("Remembered(abandoned or started) = true, want false")
	}
	if machine.Expired(r, at.Add(1000*time.Hour)) || machine.Expired(*started(idle), at.Add(1000*time.Hour)) {
		t.Error("Expired(abandoned or started) = true, want false: somebody has to look, or to sweep")
	}
}

func TestLeaseLeftAtTheExactMoment(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		r    *backend.Record
		want time.Duration
	}{
		{started(func(r *backend.Record) { r.LockedUntil = at.Add(1) }), 1},
		{started(lapsed), 0},
		{started(func(r *backend.Record) { r.LockedUntil = at.Add(-time.Hour) }), 0},
		{started(completed), 0},
	} {
		if got := machine.LeaseLeft(*tt.r, at); got != tt.want {
			t.Errorf("LeaseLeft(locked until %v, at %v) = %v, want %v", tt.r.LockedUntil, at, got, tt.want)
		}
	}
}

// Tokens exceed the record's, the floor and the clock's microseconds.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		old, floor, want backend.Token
	}{
		{5, 0, clocked}, {clocked, 0, clocked + 1}, {clocked + 9, 0, clocked + 10}, {5, clocked, clocked + 1}, {clocked + 3, clocked + 7, clocked + 8},
	} {
		r := started(lapsed)
		r.Token = tt.old
		c := claim(2)
		c.Floor = tt.floor
		if after, _ := machine.Step(r, c, at); after.Token != tt.want {
			t.Errorf("Step(claim with floor %d) of token %d = %d, want %d", tt.floor, tt.old, after.Token, tt.want)
		}
	}
}
