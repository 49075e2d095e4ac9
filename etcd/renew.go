package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// Renew implements [backend.Backend]. With the ttl of the claim it keeps the etcd
// lease alive, in two round trips and without a new revision; Record.LockedUntil then
// stays as it is. Another ttl takes a new etcd lease and one round trip more.
func (b *Backend) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	const op = "etcd: renew"
	if err := l.ValidateRenewal(ttl); err != nil {
		return err
	}
	ctx, cancel, err := b.begin(ctx, op)
	if err != nil {
		return err
	}
	defer cancel()
	at := b.keysOf(l.Key)
	s, err := b.read(ctx, op, at)
	if err != nil {
		return err
	}
	for range attempts {
		_, out := machine.Step(s.record, machine.Renew{Lease: l, TTL: ttl}, clock())
		if out.Err != nil || s.record.Status == backend.Completed {
			return outcome(op, out.Err)
		}
		enough, err := b.keepAlive(ctx, op, s, ttl)
		if err != nil || enough {
			return err
		}
		done, now, err := b.extend(ctx, op, at, s, ttl)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound): // it took longer than the lease
			continue
		case err != nil || done:
			return err
		}
		s = now
	}
	return contended(op)
}

// keepAlive reports whether the etcd lease of the lock does for ttl from now.
func (b *Backend) keepAlive(ctx context.Context, op string, s snapshot, ttl time.Duration) (bool, error) {
	switch {
	case s.lock == 0:
		return false, nil
	case seconds(ttl) != s.granted:
		left, _, err := b.left(ctx, op, s)
		return left >= ttl, err
	}
	_, err := b.client.KeepAliveOnce(ctx, s.lock)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return false, nil
	case err != nil:
		return false, writeError(ctx, op, err, 0)
	}
	return true, nil
}

// extend binds the lock to a new lease. The record is written with it, which makes the
// Txn refuse what is not its claim's any more.
func (b *Backend) extend(ctx context.Context, op string, at keys, s snapshot, ttl time.Duration) (bool, snapshot, error) {
	l, err := b.grant(ctx, op, ttl)
	if err != nil {
		return false, snapshot{}, err
	}
	after := *s.record
	after.UpdatedAt = clock()
	after.LockedUntil = after.UpdatedAt.Add(l.ttl)
	c := change{}
	c.then = append(c.then, putLock(at, l))
	return b.replace(ctx, op, at, s, &after, c)
}
