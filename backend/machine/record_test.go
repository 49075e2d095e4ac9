package machine_test

import (
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// Durations of the small-scope test, in seconds.
const (
	lease     = 2
	renewal   = 1 // less than is left of a lease at first
	retention = 4
	abandon   = 8
)

var key = backend.Key{Tenant: "tenant", Actor: "actor", Value: "key"}

// instant gives the time of the small scope. It lies before 1970, so that tokens
// come from the machine's counting and not from the clock.
func instant(s int16) time.Time { return time.Unix(int64(s)-1e6, 0).UTC() }

func seconds(t time.Time) int16 {
	if t.IsZero() {
		return -1
	}
	return int16(t.Unix() + 1e6)
}

// record is what of a backend.Record differs in the small scope.
type record struct {
	status                                      backend.Status // 0: there is none
	claim, point, response                      uint8
	token                                       int16
	sequence                                    int8
	attempt                                     int8
	remember                                    int8
	locked, created, updated, finished, expires int16
}

// The numbers of the responses that a sweep leaves, and of any other without a body.
const (
	abandoned = 9
	forgotten = 8
	strange   = 7
)

func (r record) full() *backend.Record {
	if r.status == 0 {
		return nil
	}
	b := &backend.Record{
		Key: key, Fingerprint: fingerprint("content"), Status: r.status,
		ClaimID: backend.ClaimID{r.claim}, Token: backend.Token(r.token), Sequence: backend.Sequence(r.sequence), Attempt: int(r.attempt),
		RecoveryPoint: pointName(r.point),
		Lease:         lease * time.Second, Retention: retention * time.Second, Abandon: abandon * time.Second,
		Remember:  time.Duration(r.remember) * time.Second,
		CreatedAt: instant(r.created), UpdatedAt: instant(r.updated),
		LockedUntil: timeOf(r.locked), CompletedAt: timeOf(r.finished), ExpiresAt: timeOf(r.expires),
	}
	switch r.response {
	case 0:
	case abandoned:
		b.Response = backend.Response{Tombstone: backend.Abandoned}
	case forgotten:
		b.Response = expired
	default:
		b.Response = response(r.response)
	}
	return b
}

func timeOf(s int16) time.Time {
	if s < 0 {
		return time.Time{}
	}
	return instant(s)
}

func compact(b *backend.Record) record {
	if b == nil {
		return record{}
	}
	r := record{
		status: b.Status, claim: b.ClaimID[0], point: pointNumber(b.RecoveryPoint),
		token: int16(b.Token), sequence: int8(b.Sequence), attempt: int8(b.Attempt),
		remember: int8(b.Remember / time.Second),
		locked:   seconds(b.LockedUntil), created: seconds(b.CreatedAt), updated: seconds(b.UpdatedAt),
		finished: seconds(b.CompletedAt), expires: seconds(b.ExpiresAt),
	}
	switch {
	case b.Response.Tombstone == backend.Abandoned:
		r.response = abandoned
	case b.Response.Equal(expired):
		r.response = forgotten
	case len(b.Response.Body) > 0:
		r.response = b.Response.Body[0]
	case b.Response.Tombstone != "" || b.Response.Status != 0:
		r.response = strange
	}
	return r
}

// over, remembered and left say what the machine is to say of a record, in other words.
func (r record) over(now int16) bool {
	return r.status == backend.Completed && r.response != abandoned && now >= r.remembrance()
}

func (r record) remembered(now int16) bool {
	return r.status == backend.Completed && r.response != abandoned && now >= r.finished+retention && now < r.remembrance()
}

// remembrance is when it ends.
func (r record) remembrance() int16 { return r.finished + retention + int16(r.remember) }

func (r record) left(now int16) time.Duration {
	if r.status != backend.Started {
		return 0
	}
	return time.Duration(max(0, r.locked-now)) * time.Second
}

// nextInstant is the next one after now at which something of the record is over,
// or the retention or the remembrance nearly so.
func (r record) nextInstant(now int16) int16 {
	next := now
	for _, at := range []int16{r.locked, r.expires, r.finished + retention - 1, r.finished + retention, r.remembrance() - 1, r.remembrance(), r.updated + abandon} {
		if r.status != 0 && at > now && (next == now || at < next) {
			next = at
		}
	}
	return next
}

func pointName(n uint8) string {
	if n == 0 {
		return ""
	}
	return string(rune('a' + n))
}

func pointNumber(name string) uint8 {
	if name == "" {
		return 0
	}
	return name[0] - 'a'
}

var expired = backend.Response{Tombstone: backend.Expired, Status: 200}

func response(by uint8) backend.Response { return backend.Response{Status: 200, Body: []byte{by}} }

func fingerprint(content string) backend.Fingerprint {
	f := backend.Fingerprint{Version: "v1"}
	copy(f.Sum[:], content)
	return f
}

func claimBy(id uint8, remember int8) machine.Claim {
	return machine.Claim{Claim: backend.Claim{
		Key: key, ID: backend.ClaimID{id}, Fingerprints: []backend.Fingerprint{fingerprint("content")},
		Lease: lease * time.Second, Retention: retention * time.Second, Abandon: abandon * time.Second,
		Remember: time.Duration(remember) * time.Second,
	}}
}

// message is what the letter says. Recovery points are numbered on from the one
// that the claimer resumed at.
func (l letter) message(given int16, remember int8) machine.Message {
	h := backend.Lease{Key: key, ClaimID: backend.ClaimID{l.by}, Token: backend.Token(l.token)}
	switch l.kind {
	case claims:
		c := claimBy(l.by, remember)
		c.Floor = backend.Token(given)
		return c
	case checkpoints1:
		return machine.Checkpoint{Lease: h, Checkpoint: backend.Checkpoint{Sequence: 1, Point: pointName(l.from + 1)}}
	case checkpoints2:
		return machine.Checkpoint{Lease: h, Checkpoint: backend.Checkpoint{Sequence: 2, Point: pointName(l.from + 2)}}
	case renews:
		return machine.Renew{Lease: h, TTL: renewal * time.Second}
	case completes:
		return machine.Complete{Lease: h, Completion: backend.Completion{Sequence: 3, Response: response(l.by)}}
	default:
		return machine.Release{Lease: h}
	}
}
