package etcd

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// page is how many started records a sweep looks at together.
const page = 500

// Sweep implements [backend.Backend]. Completed records end by themselves. What is left
// are runs that nobody finished: the first sweep after a lease ended starts a timer, an
// etcd lease of Claim.Abandon, and the first one after that removes the record, or
// makes it a tombstone. Activity in between starts over. Both count as changes.
//
// A sweep reads the keys of all started records, in two round trips for each 500, and
// takes two or three more for each one that it changes. An error can come with the
// number of records that were changed before it.
func (b *Backend) Sweep(ctx context.Context, limit int) (int, error) {
	const op = "etcd: sweep"
	if err := backend.ValidateSweep(limit); err != nil {
		return 0, err
	}
	if err := backend.ContextDone(ctx, op); err != nil {
		return 0, err
	}
	changed := 0
	from := b.cfg.prefix + startedName
	end := clientv3.GetPrefixRangeEnd(from)
	for changed < limit {
		p, err := b.sweepPage(ctx, op, from, end)
		if err != nil {
			return changed, err
		}
		for i := 0; i < len(p.lapsed) && changed < limit; i++ {
			did, err := b.sweepOne(ctx, op, p, p.lapsed[i])
			if did {
				changed++
			}
			if err != nil {
				return changed, err
			}
		}
		if p.last == "" {
			break
		}
		from = p.last + "\x00"
	}
	return changed, nil
}

// swept is a page of started records.
type swept struct {
	lapsed []candidate
	last   string // the last key of the page; empty: there are no more
	timers map[time.Duration]string
}

// candidate is a started record whose lock is gone.
type candidate struct {
	at      keys
	started int64 // revision of the record
	over    bool  // its timer has run out; else it has none since its last activity
}

// sweepPage finds the lapsed records from a key on that there is something to do
// about.
func (b *Backend) sweepPage(ctx context.Context, op, from, end string) (*swept, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.timeout)
	defer cancel()
	got, err := b.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithKeysOnly())
	if err != nil {
		return nil, readError(ctx, op, err)
	}
	p := &swept{timers: make(map[time.Duration]string)}
	if len(got.Kvs) == 0 {
		return p, nil
	}
	if got.More {
		p.last = string(got.Kvs[len(got.Kvs)-1].Key)
	}
	under := func(name string) (from, end string) {
		root := len(b.cfg.prefix + startedName)
		return b.cfg.prefix + name + string(got.Kvs[0].Key[root:]), b.cfg.prefix + name + string(got.Kvs[len(got.Kvs)-1].Key[root:]) + "\x00"
	}
	locks, locksEnd := under(lockName)
	notes, notesEnd := under(lapsedName)
	around, err := b.client.Txn(ctx).Then(
		clientv3.OpGet(locks, clientv3.WithRange(locksEnd), clientv3.WithKeysOnly()),
		clientv3.OpGet(notes, clientv3.WithRange(notesEnd)),
		clientv3.OpGet(b.cfg.prefix+timerName, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return nil, readError(ctx, op, err)
	}
	held := byKey(around.Responses[0].GetResponseRange().GetKvs())
	noted := byKey(around.Responses[1].GetResponseRange().GetKvs())
	running := byKey(around.Responses[2].GetResponseRange().GetKvs())
	for _, kv := range got.Kvs {
		k, ok := b.keyAt(string(kv.Key))
		at := b.keysOf(k)
		if !ok || held[at.lock] != nil {
			continue
		}
		c := candidate{at: at, started: kv.ModRevision}
		if n := noted[at.lapsed]; n != nil && n.ModRevision > kv.ModRevision {
			if running[string(n.Value)] != nil {
				continue
			}
			c.over = true
		}
		p.lapsed = append(p.lapsed, c)
	}
	return p, nil
}

func byKey(kvs []*mvccpb.KeyValue) map[string]*mvccpb.KeyValue {
	m := make(map[string]*mvccpb.KeyValue, len(kvs))
	for _, kv := range kvs {
		m[string(kv.Key)] = kv
	}
	return m
}

// sweepOne starts the timer of a lapsed run, or ends the run whose timer is over. It
// does nothing to one that has moved on.
func (b *Backend) sweepOne(ctx context.Context, op string, p *swept, c candidate) (bool, error) {
	ctx, cancel, err := b.begin(ctx, op)
	if err != nil {
		return false, err
	}
	defer cancel()
	s, err := b.read(ctx, op, c.at)
	if err != nil || s.started != c.started || s.lock != 0 {
		return false, err
	}
	if !c.over {
		timer, err := b.timer(ctx, op, p, s.record.Abandon)
		if err != nil {
			return false, err
		}
		resp, err := b.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(c.at.started), "=", c.started)).
			Then(clientv3.OpPut(c.at.lapsed, timer)).Commit()
		if err != nil {
			return false, writeError(ctx, op, err, 0)
		}
		return resp.Succeeded, nil
	}
	now := clock()
	r := *s.record
	r.ExpiresAt, r.UpdatedAt, r.LockedUntil = now, now.Add(-r.Abandon), now // as its timer says
	after, _ := machine.Step(&r, machine.Sweep{}, now)
	done, _, err := b.replace(ctx, op, c.at, s, after, change{})
	return done, err
}

// timer gives the key of a timer for the runs of a page, one for each Abandon. It is
// younger than the look at the page: a record that has not changed since that look has
// been idle for at least as long as the timer has run.
func (b *Backend) timer(ctx context.Context, op string, p *swept, abandon time.Duration) (string, error) {
	if key := p.timers[abandon]; key != "" {
		return key, nil
	}
	l, err := b.grant(ctx, op, abandon)
	if err != nil {
		return "", err
	}
	key := b.cfg.prefix + timerName + strings.ToLower(rand.Text())
	if _, err := b.client.Put(ctx, key, "", clientv3.WithLease(l.id)); err != nil {
		return "", writeError(ctx, op, err, 0)
	}
	p.timers[abandon] = key
	return key, nil
}
