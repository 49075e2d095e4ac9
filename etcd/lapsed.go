package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
)

var _ backend.Lister = (*Backend)(nil)

// lapsedPage is how many started records are read together. They come with their state.
const lapsedPage = 50

// Lapsed implements [backend.Lister], in the order of the keys. It reads what is started,
// in one round trip for each 50.
func (b *Backend) Lapsed(ctx context.Context, yield func(backend.Lapse) bool) error {
	const op = "etcd: lapsed"
	if err := backend.ContextDone(ctx, op); err != nil {
		return err
	}
	from := ""
	for {
		page, last, err := b.lapsedFrom(ctx, op, from)
		if err != nil {
			return err
		}
		for _, l := range page {
			if !yield(l) {
				return nil
			}
		}
		if last == "" {
			return nil
		}
		from = last + "\x00"
	}
}

// lapsedFrom gives a page of lapsed records, and the last key it has looked at where
// there are more. Records and locks are read at one revision; there are no more locks
// than records, and so none of the page's beyond as many.
func (b *Backend) lapsedFrom(ctx context.Context, op, from string) (page []backend.Lapse, last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.timeout)
	defer cancel()
	under := func(name string, more ...clientv3.OpOption) clientv3.Op {
		root := b.cfg.prefix + name
		return clientv3.OpGet(root+from, append(more, clientv3.WithRange(clientv3.GetPrefixRangeEnd(root)))...)
	}
	resp, err := b.client.Txn(ctx).Then(
		under(startedName, clientv3.WithLimit(lapsedPage)),
		under(lockName, clientv3.WithLimit(lapsedPage), clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return nil, "", readError(ctx, op, err)
	}
	started := resp.Responses[0].GetResponseRange()
	held := byKey(resp.Responses[1].GetResponseRange().GetKvs())
	for _, kv := range started.GetKvs() {
		k, ok := b.keyAt(string(kv.Key))
		at := b.keysOf(k)
		if !ok || held[at.lock] != nil {
			continue
		}
		if r, err := decodeRecord(k, kv); err == nil { // one of another format is not for this version
			page = append(page, backend.Lapse{Key: k, Operation: r.Operation, Token: r.Token, Attempt: r.Attempt})
		}
	}
	if started.GetMore() {
		last = string(started.Kvs[len(started.Kvs)-1].Key[len(b.cfg.prefix+startedName):])
	}
	return page, last, nil
}
