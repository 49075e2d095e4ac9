package etcd

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// snapshot is what stands under a key at one revision.
type snapshot struct {
	record             *backend.Record  // nil: none
	started, completed int64            // revision of the record's last change, 0 where it isn't
	lock               clientv3.LeaseID // 0: the lease is over
	granted            int64            // seconds of the lock's lease
}

// read fetches a record and its lock at once. Reads are linearizable, and served
// although the server has run out of space, which it does not do for a Txn that could
// write.
func (b *Backend) read(ctx context.Context, op string, at keys) (snapshot, error) {
	resp, err := b.client.Txn(ctx).Then(at.reads()...).Commit()
	if err != nil {
		return snapshot{}, readError(ctx, op, err)
	}
	return decode(op, at, resp.Responses)
}

// decode reads the answer to keys.reads.
func decode(op string, at keys, answers []*etcdserverpb.ResponseOp) (snapshot, error) {
	var s snapshot
	started, completed, payload, lock := first(answers, 0), first(answers, 1), first(answers, 2), first(answers, 3)
	if lock != nil {
		s.lock, s.granted = clientv3.LeaseID(lock.Lease), parseSeconds(lock.Value)
	}
	kv := started
	switch {
	case started != nil:
		s.started = started.ModRevision
	case completed != nil:
		kv, s.completed = completed, completed.ModRevision
	default:
		return s, nil
	}
	r, err := decodeRecord(at.of, kv)
	if err != nil {
		return snapshot{}, &backend.Error{Op: op, Kind: backend.ErrUnavailable, Err: err}
	}
	if payload != nil {
		r.Payload = bytes.Clone(payload.Value)
	}
	s.record = r
	return s, nil
}

// first is the key that the i-th read of a Txn found, or nil.
func first(answers []*etcdserverpb.ResponseOp, i int) *mvccpb.KeyValue {
	if kvs := answers[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

// claim lets the state machine decide about a claim. What is over is decided by
// etcd: the lock of a lease and a completed record are gone when their time is.
func (s snapshot) claim(c backend.Claim, now time.Time) (*backend.Record, machine.Outcome) {
	if s.record == nil {
		return machine.Step(nil, machine.Claim{Claim: c}, now)
	}
	r := *s.record
	switch {
	case r.Status == backend.Completed:
		r.CompletedAt = now
	case s.lock != 0:
		r.LockedUntil = now.Add(c.Lease)
	default:
		r.LockedUntil = now
	}
	return machine.Step(&r, machine.Claim{Claim: c}, now)
}
