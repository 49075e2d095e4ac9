package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/limits"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

var page = limits.Of("redis", "one server with appendonly yes and appendfsync always, for the failover three of them behind Sentinel")

var (
	waiting   = page.Variant("with WithReplicas(1, 500ms)")
	moved     = page.Variant("with a clock that the suite moves, to check exact boundaries")
	clustered = page.Variant("on a cluster of three primaries")
	watched   = page.Variant("behind Sentinel")
)

var cases atomic.Int64

// ofServers are the groups that want a server they can kill.
var ofServers = []string{"capability", "fault"}

// Each case has a prefix of its own, each handle a client of its own, as
// different processes would.
func TestConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	conformance.Run(t, func(t *testing.T) conformance.Store {
		prefix := fmt.Sprintf("%s%d:", srv.Prefix, cases.Add(1))
		return conformance.Store{Open: func(h conformance.T) backend.Backend {
			return newBackend(t, connect(h, srv.URL), redis.WithPrefix(prefix))
		}}
	}, conformance.Without(ofServers...), page.Shown())
}

// What a server as it should be promises, and how it takes being killed, paused and
// cut off.
func TestServerConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.RedisPrivate(t, "appendonly=yes", "appendfsync=always")
	conformance.Run(t, func(t *testing.T) conformance.Store {
		prefix := redis.WithPrefix(fmt.Sprintf("case%d:", cases.Add(1)))
		proxy := srv.Proxy(t)
		return conformance.Store{
			Open: func(h conformance.T) backend.Backend {
				return newBackend(t, connect(h, srv.Via(proxy.Addr())), prefix)
			},
			Restart: func(conformance.T) {
				srv.Kill(t)
				srv.Start(t)
			},
			Pause: func(conformance.T) func() {
				srv.Pause(t)
				return func() { srv.Resume(t) }
			},
			Partition: func(conformance.T) func() {
				proxy.Partition()
				return proxy.Heal
			},
			Skewed: func(_ conformance.T, by time.Duration) backend.Backend {
				return conformance.Skew(t, by, func(t *testing.T) backend.Backend {
					return newBackend(t, connect(t, srv.URL), prefix)
				})
			},
		}
	}, conformance.Only(ofServers...), conformance.Without("capability/durable-failover"), page.Shown()) // see TestFailoverConformance
}

// With a clock that the suite moves it checks the boundaries exactly.
func TestConformanceWithAMovedClock(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	conformance.Run(t, func(t *testing.T) conformance.Store {
		m := move(t, srv)
		return conformance.Store{
			Open: func(h conformance.T) backend.Backend {
				return newBackend(t, connect(h, srv.URL), redis.WithPrefix(m.prefix)).WithClock(m.name)
			},
			Advance: func(d time.Duration) { m.advance(t, d) },
		}
	}, conformance.Without(ofServers...), moved.Shown())
}

// movedClock is a clock that only the test moves, and the server's expiry with
// it.
type movedClock struct {
	client       *goredis.Client
	prefix, name string
}

func move(t *testing.T, srv *testenv.RedisServer) *movedClock {
	t.Helper()
	n := cases.Add(1)
	m := &movedClock{
		client: connect(t, srv.URL),
		prefix: fmt.Sprintf("%s%d:", srv.Prefix, n), name: fmt.Sprintf("%sclock%d:", srv.Prefix, n),
	}
	must(t, m.client.Set(t.Context(), m.name+"now", time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC).UnixMicro(), 0).Err())
	return m
}

var expireDue = goredis.NewScript(`
local now = redis.call('INCRBY', KEYS[1], ARGV[1])
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))) do
  redis.call('DEL', key)
  redis.call('ZREM', KEYS[2], key)
end
return string.format('%.0f', now)`)

func (m *movedClock) advance(t *testing.T, d time.Duration) {
	t.Helper()
	must(t, expireDue.Run(t.Context(), m.client, []string{m.name + "now", m.name + "due"}, d.Microseconds()).Err())
}
