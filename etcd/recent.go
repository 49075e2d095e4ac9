package etcd

import (
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/idem-go/idem/backend"
)

// recent remembers what this process last wrote for the claims it holds, so that a
// holder's write need not read first. It is a guess: the write compares revisions, and
// what it would leave unchanged is read again.
type recent struct {
	mu sync.Mutex
	m  map[backend.Lease]written
}

type written struct {
	value    string
	revision int64
}

// Entries of runs that never end stay until there is no room.
const (
	recentEntries = 4096
	recentValue   = 16 << 10 // bytes; larger ones are read again
)

func (c *recent) put(r *backend.Record, value string, revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Status != backend.Started || r.ClaimID == (backend.ClaimID{}) || len(value) > recentValue {
		delete(c.m, r.Holder())
		return
	}
	if c.m == nil {
		c.m = make(map[backend.Lease]written)
	}
	for l := range c.m {
		if len(c.m) < recentEntries {
			break
		}
		delete(c.m, l)
	}
	c.m[r.Holder()] = written{value, revision}
}

func (c *recent) drop(l backend.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, l)
}

// get gives a snapshot without lock and payload.
func (c *recent) get(l backend.Lease) (snapshot, bool) {
	c.mu.Lock()
	w, ok := c.m[l]
	c.mu.Unlock()
	if !ok {
		return snapshot{}, false
	}
	r, err := decodeRecord(l.Key, &mvccpb.KeyValue{Value: []byte(w.value), ModRevision: w.revision})
	return snapshot{record: r, started: w.revision}, err == nil
}
