package etcd

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
)

// seconds rounds up to what etcd's leases are counted in.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func formatSeconds(n int64) string { return strconv.FormatInt(n, 10) }

func parseSeconds(v []byte) int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0 // equals no lease that is asked for
	}
	return n
}

// lease is an etcd lease as this process knows it.
type lease struct {
	id   clientv3.LeaseID // 0: none
	ttl  time.Duration    // as granted
	sent time.Time        // before it was asked for, on the monotonic clock
}

func (l lease) end() time.Time { return l.sent.Add(l.ttl) }

// grant makes a lease of at least d. The server has a minimum.
func (b *Backend) grant(ctx context.Context, op string, d time.Duration) (lease, error) {
	sent := time.Now()
	resp, err := b.client.Grant(ctx, seconds(d))
	if err != nil {
		// A lease may have been made, but nothing is bound to it.
		return lease{}, readError(ctx, op, err)
	}
	return lease{id: resp.ID, ttl: time.Duration(resp.TTL) * time.Second, sent: sent}, nil
}

// least is what a lease has left whose lock stands and that etcd counts no whole
// second of any more.
const least = time.Millisecond

// left asks for what is left of a snapshot's lease, rounded down to seconds. gone says
// that the lease has ended since.
func (b *Backend) left(ctx context.Context, op string, s snapshot) (left time.Duration, gone bool, err error) {
	if s.lock == 0 || s.record == nil || s.record.Status != backend.Started {
		return 0, false, nil
	}
	resp, err := b.client.TimeToLive(ctx, s.lock)
	switch {
	case err != nil:
		return 0, false, readError(ctx, op, err)
	case resp.GrantedTTL == 0:
		return 0, true, nil
	}
	return max(time.Duration(resp.TTL)*time.Second, least), false, nil
}
