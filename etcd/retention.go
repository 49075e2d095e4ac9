package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// retention has the etcd leases that completed records are bound to. One is shared by
// the completions of a while, since etcd ends no more than a thousand leases a
// second. Who holds turn may look and change.
type retention struct {
	turn   chan struct{}
	leases map[int64]*shared // by the seconds of the retention
}

// shared is a lease for a retention, longer than it by two windows. New records join
// it within the first, so that a completion may be under way for the second.
type shared struct {
	lease
	window time.Duration
	uses   int
}

const (
	maxWindow = time.Hour
	maxShare  = 10_000 // records: etcd deletes them in one step
	maxLeases = 100    // different retentions that are remembered
	minWindow = time.Second
)

func newRetention() retention {
	return retention{turn: make(chan struct{}, 1), leases: make(map[int64]*shared)}
}

// retain gives a lease for a record that is completed now, to be kept for d. The
// record is kept long enough if the completion was confirmed before by.
func (b *Backend) retain(ctx context.Context, op string, d time.Duration) (id clientv3.LeaseID, by time.Time, err error) {
	r := &b.leases
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return 0, time.Time{}, readError(ctx, op, context.Cause(ctx))
	}
	n := seconds(d)
	s := r.leases[n]
	if s == nil || s.uses >= maxShare || time.Since(s.sent) >= s.window {
		w := min(max(d/8, minWindow), maxWindow)
		l, err := b.grant(ctx, op, time.Duration(n)*time.Second+2*w)
		if err != nil {
			return 0, time.Time{}, err
		}
		if len(r.leases) >= maxLeases {
			clear(r.leases)
		}
		s = &shared{lease: l, window: w}
		r.leases[n] = s
	}
	s.uses++
	return s.id, s.end().Add(-d), nil
}

// forget makes the next completion ask for a new lease: this one is gone or too old.
func (b *Backend) forget(ctx context.Context, id clientv3.LeaseID) {
	select {
	case b.leases.turn <- struct{}{}:
		defer func() { <-b.leases.turn }()
	case <-ctx.Done():
		return
	}
	for n, s := range b.leases.leases {
		if s.id == id {
			delete(b.leases.leases, n)
		}
	}
}
