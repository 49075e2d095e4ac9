package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
)

// change is what a Txn does besides replacing the record.
type change struct {
	then []clientv3.Op
	kept clientv3.LeaseID // what a completed record is bound to; 0: kept for ever
}

// replace makes after of the record that s was read with (nil: none), in one Txn that
// demands that nobody has changed it since. A lock that was gone then is gone still,
// since nobody binds one to a lease without writing the record. done is false where somebody has, and then s
// is what stands there now. That somebody may be this call itself: the client sends a
// Txn again when the first was answered by a deadline, or by a proxy's.
func (b *Backend) replace(ctx context.Context, op string, at keys, s snapshot, after *backend.Record, c change) (done bool, now snapshot, err error) {
	value, then, size := "", c.then, 0
	if after != nil {
		if value, err = encode(after); err != nil {
			return false, snapshot{}, &backend.Error{Op: op, Kind: backend.ErrInvalid, Err: err}
		}
		size = len(value) + len(after.Payload)
	}
	switch {
	case after == nil:
		then = append(then, clientv3.OpDelete(at.started), clientv3.OpDelete(at.payload), clientv3.OpDelete(at.lock), clientv3.OpDelete(at.lapsed))
	case after.Status == backend.Started:
		then = append(then, clientv3.OpPut(at.started, value))
		if s.completed != 0 { // revived
			then = append(then, clientv3.OpDelete(at.completed))
		}
	default:
		then = append(then, clientv3.OpPut(at.completed, value, clientv3.WithLease(c.kept)),
			clientv3.OpDelete(at.started), clientv3.OpDelete(at.lock), clientv3.OpDelete(at.lapsed))
		if len(after.Payload) == 0 {
			then = append(then, clientv3.OpDelete(at.payload))
		}
	}
	if s.record != nil {
		b.recent.drop(s.record.Holder())
	}
	resp, err := b.client.Txn(ctx).If(
		clientv3.Compare(clientv3.ModRevision(at.started), "=", s.started),
		clientv3.Compare(clientv3.ModRevision(at.completed), "=", s.completed),
	).Then(then...).Else(at.reads()...).Commit()
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return b.outOfSpace(ctx, op, at, s, err)
	case err != nil:
		return false, snapshot{}, writeError(ctx, op, err, size)
	case !resp.Succeeded:
		now, err = decode(op, at, resp.Responses)
		return false, now, err
	}
	now = snapshot{record: after, started: resp.Header.Revision}
	if after != nil {
		if after.Token == 0 {
			after.Token = backend.Token(resp.Header.Revision)
		}
		if after.Status == backend.Completed {
			now.started, now.completed = 0, resp.Header.Revision
		}
		b.recent.put(after, value, resp.Header.Revision)
	}
	return true, now, nil
}

// outOfSpace finds out what became of a Txn that was answered by ErrNoSpace. The
// server gives this answer before it begins, or after it has applied the very Txn
// that used the space up.
func (b *Backend) outOfSpace(ctx context.Context, op string, at keys, s snapshot, refusal error) (bool, snapshot, error) {
	now, err := b.read(ctx, op, at)
	if err != nil {
		return false, snapshot{}, writeError(ctx, op, errors.Join(refusal, err), 0)
	}
	if now.started == s.started && now.completed == s.completed {
		return false, snapshot{}, readError(ctx, op, refusal)
	}
	return false, now, nil
}
