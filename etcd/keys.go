package etcd

import (
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
)

// keys are where the parts of one record are. A part is absent where it has nothing
// to say.
//
//	started    the record until it is completed
//	completed  the record from then on, bound to an etcd lease of its retention
//	payload    the claim's payload, until the completion
//	lock       exists as long as the lease: bound to an etcd lease of its own
//	lapsed     names the timer that a sweep set for a lapsed run
//
// A key has one record, started or completed: what creates the one demands that the
// other is absent, or deletes it.
type keys struct {
	of                                        backend.Key
	started, completed, payload, lock, lapsed string
}

// The names below the prefix.
const (
	startedName   = "started/"
	completedName = "completed/"
	payloadName   = "payload/"
	lockName      = "lock/"
	lapsedName    = "lapsed/"
	timerName     = "timer/"
)

func (b *Backend) keysOf(k backend.Key) keys {
	// No part of a key contains a control character, see backend.Key.Validate.
	id := k.Tenant + "\x00" + k.Actor + "\x00" + k.Value
	p := b.cfg.prefix
	return keys{k, p + startedName + id, p + completedName + id, p + payloadName + id, p + lockName + id, p + lapsedName + id}
}

// keyAt is the key whose started record is there.
func (b *Backend) keyAt(started string) (backend.Key, bool) {
	parts := strings.Split(strings.TrimPrefix(started, b.cfg.prefix+startedName), "\x00")
	if len(parts) != 3 {
		return backend.Key{}, false
	}
	k := backend.Key{Tenant: parts[0], Actor: parts[1], Value: parts[2]}
	return k, k.Validate() == nil
}

// reads fetches the whole record, in the order that decode expects.
func (k keys) reads() []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(k.started), clientv3.OpGet(k.completed), clientv3.OpGet(k.payload), clientv3.OpGet(k.lock)}
}
