package conformance

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// known is what a history knows of a record: everything but its times. The zero
// value is "no record".
type known struct {
	key          backend.Key
	operation    string
	target       backend.Target
	fingerprint  backend.Fingerprint
	status       backend.Status
	id           backend.ClaimID
	token        backend.Token
	sequence     backend.Sequence
	attempt      int
	point        string
	state        string
	payload      string
	tombstone    backend.Tombstone
	code         int
	header, body string
}

func know(r backend.Record) known {
	return known{
		r.Key, r.Operation, r.Target, r.Fingerprint, r.Status, r.ClaimID, r.Token, r.Sequence, r.Attempt,
		r.RecoveryPoint, string(r.State), string(r.Payload),
		r.Response.Tombstone, r.Response.Status, string(r.Response.Header), string(r.Response.Body),
	}
}

// moment is the time of everything in the model. Tokens are not drawn from it.
var moment = time.Unix(0, 0)

// modelled is a record as the model has it, and what is known of its token.
type modelled struct {
	known
	lapsed bool
	// last is the highest token of the key. After a claim whose reply was lost it is
	// only a bound of it, and the record's own is 0.
	last backend.Token
}

// record is the state as the machine takes it.
func (s modelled) record() *backend.Record {
	if s.known == (known{}) {
		return nil
	}
	r := &backend.Record{
		Key: s.key, Operation: s.operation, Target: s.target, Fingerprint: s.fingerprint, Status: s.status,
		ClaimID: s.id, Token: s.token, Sequence: s.sequence, Attempt: s.attempt,
		RecoveryPoint: s.point, State: []byte(s.state), Payload: []byte(s.payload),
		Response:  backend.Response{Tombstone: s.tombstone, Status: s.code, Header: []byte(s.header), Body: []byte(s.body)},
		Retention: time.Hour, CompletedAt: moment, LockedUntil: moment,
	}
	if !s.lapsed {
		r.LockedUntil = moment.Add(time.Hour)
	}
	return r
}

// call is an operation of a history: a message, or a Get where there is none.
type call struct {
	name    string
	message machine.Message
}

// reply is what a call returned.
type reply struct {
	lost     bool // it may have been applied, or not, or will be
	err      error
	acquired bool
	alive    bool // something is left of the lease; only where leases don't lapse
	record   known
}

// model is the machine without a clock.
type model struct {
	lapses bool // a lease may be over at any time
}

func (m model) porcupine() porcupine.Model {
	seed := maphash.MakeSeed()
	n := porcupine.NondeterministicModel{
		Init: func() []any { return []any{modelled{}} },
		Step: func(s, in, out any) []any { return m.step(s.(modelled), in.(call), out.(reply)) },
		Hash: func(s any) uint64 { return maphash.Comparable(seed, s.(modelled)) },
	}
	return n.ToModel()
}

// step gives the states that a call can have left behind when it found s and
// returned out. There are none if it can't have returned that. A call that never
// arrives is one that arrives when all others are over.
func (m model) step(s modelled, in call, out reply) []any {
	var next []any
	for _, s := range m.readings(s, in, out) {
		after, got := m.apply(s, in, out)
		if out.lost || got == out {
			next = append(next, after)
		}
	}
	return next
}

// readings gives what the state can be when a call arrives: time may have passed,
// and a token that nobody has seen may be the one that the call or its reply shows.
func (m model) readings(s modelled, in call, out reply) []modelled {
	all := []modelled{s}
	if s.status == backend.Started && s.token == 0 {
		for _, seen := range []struct {
			id    backend.ClaimID
			token backend.Token
		}{{leaseOf(in).ClaimID, leaseOf(in).Token}, {out.record.id, out.record.token}} {
			if seen.id == s.id && seen.token >= s.last {
				n := s
				n.token, n.last = seen.token, seen.token
				all = append(all, n)
			}
		}
	}
	if m.lapses && s.status == backend.Started && !s.lapsed {
		for _, n := range all {
			n.lapsed = true
			all = append(all, n)
		}
	}
	return all
}

func leaseOf(in call) backend.Lease {
	switch msg := in.message.(type) {
	case machine.Renew:
		return msg.Lease
	case machine.Checkpoint:
		return msg.Lease
	case machine.Complete:
		return msg.Lease
	case machine.Release:
		return msg.Lease
	}
	return backend.Lease{}
}

// apply is what the machine does.
func (m model) apply(s modelled, in call, out reply) (modelled, reply) {
	r := s.record()
	msg := in.message
	switch c := msg.(type) {
	case nil:
		if r == nil {
			return s, reply{err: backend.ErrNotFound}
		}
		return s, reply{record: s.known, alive: m.alive(*r)}
	case machine.Claim:
		c.Floor = max(s.last, out.record.token-1) // the store may draw any that is higher
		msg = c
	}
	after, o := machine.Step(r, msg, moment)
	got := reply{err: o.Err, acquired: o.Claimed.Acquired, record: know(o.Claimed.Record), alive: m.alive(o.Claimed.Record)}
	if after == nil {
		return modelled{last: s.last}, got
	}
	n := modelled{known: know(*after), last: max(s.last, after.Token)}
	n.lapsed = n.status == backend.Started && machine.LeaseLeft(*after, moment) == 0
	if out.lost && n.id != s.id && n.token > s.last {
		n.token = 0
	}
	return n, got
}

func (m model) alive(r backend.Record) bool {
	return !m.lapses && machine.LeaseLeft(r, moment) > 0
}

// replied gives the reply of a call as the model has it. It is false for a call
// that surely did nothing and says nothing of the record.
func (m model) replied(got backend.Claimed, err error) (out reply, told bool) {
	for _, kind := range []error{backend.ErrLeaseLost, backend.ErrConflict, backend.ErrNotFound} {
		if errors.Is(err, kind) {
			return reply{err: kind}, true
		}
	}
	switch {
	case errors.Is(err, backend.ErrUnavailable), errors.Is(err, backend.ErrRetryTx), err == nil && got.Hidden:
		return reply{}, false
	case err != nil && !backend.NotApplied(err):
		return reply{lost: true}, true
	case err != nil:
		return reply{err: err}, true // nothing that the machine says
	}
	return reply{acquired: got.Acquired, record: know(got.Record), alive: !m.lapses && got.Record.LeaseLeft > 0}, true
}

func (c call) String() string {
	switch m := c.message.(type) {
	case machine.Claim:
		return fmt.Sprintf("%s(%x)", c.name, m.ID[:3])
	case machine.Checkpoint:
		return fmt.Sprintf("%s(%x/%d, %d %s)", c.name, m.Lease.ClaimID[:3], m.Lease.Token, m.Sequence, m.State)
	case machine.Complete:
		return fmt.Sprintf("%s(%x/%d, %d %s)", c.name, m.Lease.ClaimID[:3], m.Lease.Token, m.Sequence, m.Response.Body)
	case nil:
		return c.name
	}
	l := leaseOf(c)
	return fmt.Sprintf("%s(%x/%d)", c.name, l.ClaimID[:3], l.Token)
}

func (r reply) String() string {
	switch {
	case r.lost:
		return "?"
	case r.err != nil:
		return r.err.Error()
	case r.record == (known{}):
		return "done"
	}
	s := fmt.Sprintf("%v by %x/%d, attempt %d, at %d %q %q %q", r.record.status, r.record.id[:3], r.record.token,
		r.record.attempt, r.record.sequence, r.record.point, r.record.state, r.record.body)
	if r.acquired {
		s = "acquired, " + s
	}
	return s
}
