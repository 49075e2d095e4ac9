package etcd

import (
	"cmp"
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
)

var _ backend.Waiter = (*Backend)(nil)

var errWatchClosed = errors.New("the watch has ended")

// Await implements [backend.Waiter] with a watch of the lock, which is gone when its
// claim is completed, released or lapsed. It takes one round trip and the watch. A
// connection that is lost is made again, and what happened meanwhile is told then; a
// cluster without leader, a client that is closed and missing rights are an error.
func (b *Backend) Await(ctx context.Context, k backend.Key) error {
	const op = "etcd: await"
	if err := k.Validate(); err != nil {
		return err
	}
	if err := backend.ContextDone(ctx, op); err != nil {
		return err
	}
	lock := b.keysOf(k).lock
	for {
		held, revision, err := b.held(ctx, op, lock)
		if err != nil || !held {
			return err
		}
		// From the revision after the one that was read: a watch from now on would miss
		// what happened since.
		compacted, err := b.watch(ctx, op, lock, revision+1)
		if err != nil || !compacted {
			return err
		}
	}
}

// held reads whether there is a lock, and at which revision.
func (b *Backend) held(ctx context.Context, op, lock string) (bool, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.timeout)
	defer cancel()
	got, err := b.client.Get(ctx, lock, clientv3.WithKeysOnly())
	if err != nil {
		return false, 0, readError(ctx, op, err)
	}
	return len(got.Kvs) > 0, got.Header.Revision, nil
}

// watch returns when the lock changed, or was perhaps changed in history that is
// compacted.
func (b *Backend) watch(ctx context.Context, op, lock string, from int64) (compacted bool, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range b.client.Watch(ctx, lock, clientv3.WithRev(from)) {
		switch {
		case resp.CompactRevision > 0:
			return true, nil
		case resp.Err() != nil:
			return false, readError(ctx, op, resp.Err())
		case len(resp.Events) > 0:
			return false, nil
		}
	}
	return false, readError(ctx, op, cmp.Or(context.Cause(ctx), errWatchClosed))
}
