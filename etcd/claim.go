package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
)

// Claim implements [backend.Backend]. It reads first. A replay is answered from there,
// in one round trip; a run in progress takes a second one for what is left of its
// lease; acquiring takes two more, for the etcd lease and for the Txn. Nothing is ever
// hidden, so that c.Wait has no meaning here.
func (b *Backend) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	const op = "etcd: claim"
	if err := validate(c); err != nil {
		return backend.Claimed{}, err
	}
	ctx, cancel, err := b.begin(ctx, op)
	if err != nil {
		return backend.Claimed{}, err
	}
	defer cancel()
	at := b.keysOf(c.Key)
	s, err := b.read(ctx, op, at)
	if err != nil {
		return backend.Claimed{}, err
	}
	for range attempts {
		after, out := s.claim(c, clock())
		if !out.Changed {
			left, gone, err := b.left(ctx, op, s)
			if err == nil && gone {
				s, err = b.read(ctx, op, at)
				if err == nil {
					continue
				}
			}
			if err != nil {
				return backend.Claimed{}, err
			}
			r := *s.record
			r.LeaseLeft = left
			return backend.Claimed{Acquired: out.Claimed.Acquired, Record: r}, nil
		}
		l, err := b.grant(ctx, op, c.Lease)
		if err != nil {
			return backend.Claimed{}, err
		}
		done, now, err := b.acquire(ctx, op, at, s, after, l)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound): // it took longer than the lease
			continue
		case err != nil:
			return backend.Claimed{}, err
		case done:
			r := after.Clone() // its payload is the caller's
			r.LeaseLeft = max(time.Until(l.end()), least)
			return backend.Claimed{Acquired: true, Record: r}, nil
		}
		s = now
	}
	return backend.Claimed{}, contended(op)
}

// acquire stores the record after a claim together with the lock of its lease. The
// token of a new claim is the revision of this Txn.
func (b *Backend) acquire(ctx context.Context, op string, at keys, s snapshot, after *backend.Record, l lease) (bool, snapshot, error) {
	if s.record == nil || s.record.ClaimID != after.ClaimID {
		after.Token, after.Lease = 0, l.ttl
	}
	after.LockedUntil = after.UpdatedAt.Add(l.ttl)
	c := change{then: []clientv3.Op{putLock(at, l)}}
	if s.record == nil && len(after.Payload) > 0 {
		c.then = append(c.then, clientv3.OpPut(at.payload, string(after.Payload)))
	}
	return b.replace(ctx, op, at, s, after, c)
}

// putLock binds the lock to a lease. Its value is the lease's time in seconds.
func putLock(at keys, l lease) clientv3.Op {
	return clientv3.OpPut(at.lock, formatSeconds(seconds(l.ttl)), clientv3.WithLease(l.id))
}
