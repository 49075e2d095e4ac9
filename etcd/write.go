package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// Checkpoint implements [backend.Backend]. It takes one round trip, two where this
// process doesn't know the record.
func (b *Backend) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	if err := c.Validate(l, b.cfg.maxValue); err != nil {
		return err
	}
	return b.write(ctx, "etcd: checkpoint", l, machine.Checkpoint{Lease: l, Checkpoint: c})
}

// Complete implements [backend.Backend]. It takes one round trip, a second one where
// this process doesn't know the record, and another when the etcd lease that
// completed records share has to be renewed.
func (b *Backend) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if err := c.Validate(l, b.cfg.maxValue); err != nil {
		return err
	}
	return b.write(ctx, "etcd: complete", l, machine.Complete{Lease: l, Completion: c})
}

// Release implements [backend.Backend]. It takes one round trip, two where this process
// doesn't know the record.
func (b *Backend) Release(ctx context.Context, l backend.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return b.write(ctx, "etcd: release", l, machine.Release{Lease: l})
}

// write lets the state machine decide about a write of a holder and stores what it
// says, as long as nobody else changed the record in between.
func (b *Backend) write(ctx context.Context, op string, l backend.Lease, m machine.Message) error {
	ctx, cancel, err := b.begin(ctx, op)
	if err != nil {
		return err
	}
	defer cancel()
	at := b.keysOf(l.Key)
	s, guessed := b.recent.get(l)
	if !guessed {
		if s, err = b.read(ctx, op, at); err != nil {
			return err
		}
	}
	for range attempts {
		after, out := machine.Step(s.record, m, clock())
		if !out.Changed {
			if !guessed {
				return outcome(op, out.Err)
			}
			guessed = false
			if s, err = b.read(ctx, op, at); err != nil {
				return err
			}
			continue
		}
		done, now, err := b.store(ctx, op, at, s, after)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound): // gone before its time
			continue
		case err != nil:
			return err
		case done:
			return nil
		}
		s, guessed = now, false
	}
	return contended(op)
}

func outcome(op string, kind error) error {
	if kind == nil {
		return nil
	}
	return &backend.Error{Op: op, Kind: kind}
}

// store replaces the record of a holder's write.
func (b *Backend) store(ctx context.Context, op string, at keys, s snapshot, after *backend.Record) (bool, snapshot, error) {
	switch {
	case after == nil || after.Status == backend.Started && after.ClaimID != backend.ClaimID{}:
		return b.replace(ctx, op, at, s, after, change{})
	case after.Status == backend.Started: // released at a recovery point
		return b.replace(ctx, op, at, s, after, change{then: []clientv3.Op{clientv3.OpDelete(at.lock)}})
	case after.Response.Tombstone == backend.Abandoned: // waits for a person, however long
		after.ExpiresAt = time.Time{}
		return b.replace(ctx, op, at, s, after, change{})
	}
	for {
		id, by, err := b.retain(ctx, op, after.Retention)
		if err != nil {
			return false, snapshot{}, err
		}
		done, now, err := b.replace(ctx, op, at, s, after, change{kept: id})
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			b.forget(ctx, id)
		}
		if !done || time.Now().Before(by) {
			return done, now, err
		}
		// It was on its way for so long that the record would be kept for less than its
		// retention: bind it to another lease.
		b.forget(ctx, id)
		s = now
	}
}
