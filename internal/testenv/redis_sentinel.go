package testenv

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelName is what the sentinels of [RedisSentinel] call the primary that they watch.
const SentinelName = "idem"

// How many servers [RedisSentinel] starts. When one replica has taken over there is another to
// confirm its writes, and two sentinels of three agree.
const (
	sentinelReplicas = 2
	sentinels        = 3
)

// RedisWatched is a primary, replicas of it, and sentinels that let one of those take its
// place when it is down.
type RedisWatched struct {
	*RedisGroup // all of them

	Primary   *RedisServer // until [RedisWatched.Promote]
	Replicas  []*RedisServer
	Sentinels []*RedisServer
}

// RedisSentinel starts a primary, two replicas and three sentinels to whom a server is
// down that has not answered for so long, and stops them when the test ends. Settings are those
// of the primary and the replicas, as in [RedisPrivate].
func RedisSentinel(t testing.TB, downAfter time.Duration, settings ...string) *RedisWatched {
	t.Helper()
	w := &RedisWatched{RedisGroup: &RedisGroup{Password: redisPassword()}, Primary: RedisPrivate(t, settings...)}
	host, port := w.Primary.peerParts(t)
	for range sentinelReplicas {
		w.Replicas = append(w.Replicas, RedisPrivate(t, slices.Concat(settings, []string{"replicaof=" + host + " " + port})...))
	}
	w.follow(t, w.Primary, w.Replicas...) // before the sentinels ask, who do that every 10 s
	watch := sentinelConfig(w.Password, host, port, downAfter)
	for range sentinels {
		w.Sentinels = append(w.Sentinels, redisPrivate(t, redisConfig{sentinel: watch}))
	}
	w.Nodes = slices.Concat([]*RedisServer{w.Primary}, w.Replicas, w.Sentinels)
	for _, s := range w.Sentinels {
		s.await(t, "the sentinel knows the others", func(ctx context.Context, c *redis.Client) (bool, error) {
			m, err := watched(ctx, c)
			return m["num-slaves"] == strconv.Itoa(sentinelReplicas) && m["num-other-sentinels"] == strconv.Itoa(sentinels-1), err
		})
	}
	return w
}

func sentinelConfig(password, host, port string, downAfter time.Duration) string {
	var conf strings.Builder
	for _, line := range [][]any{
		{"monitor", SentinelName, host, port, sentinels/2 + 1},
		{"auth-pass", SentinelName, password},
		{"sentinel-pass", password},
		{"down-after-milliseconds", SentinelName, downAfter.Milliseconds()},
		{"failover-timeout", SentinelName, (20 * time.Second).Milliseconds()},
	} {
		fmt.Fprintln(&conf, append([]any{"sentinel"}, line...)...)
	}
	return conf.String()
}

// watched is what a sentinel says of the primary.
func watched(ctx context.Context, c *redis.Client) (map[string]string, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", SentinelName)
	_ = c.Process(ctx, cmd) // Result has the error, too
	return cmd.Result()
}

// SentinelAddrs are the addresses of the sentinels, for clients with [RedisGroup.Dial].
func (w *RedisWatched) SentinelAddrs() []string { return addrs(w.Sentinels) }

// Sever ends replication, of which neither clients nor sentinels take notice: the replicas
// are refused by the primary from now on.
func (w *RedisWatched) Sever(t testing.TB) {
	t.Helper()
	for _, r := range w.Replicas {
		err := r.tell(func(ctx context.Context, c *redis.Client) error {
			if err := c.ConfigSet(ctx, "masterauth", "wrong").Err(); err != nil {
				return err
			}
			return c.Do(ctx, "CLIENT", "KILL", "TYPE", "master").Err()
		})
		if err != nil {
			t.Fatalf("cutting a replica off: %v", err)
		}
		r.await(t, "the replica is cut off", linked(false))
	}
}

// Promote kills the primary and returns the replica that the sentinels made one, when the
// other follows it.
func (w *RedisWatched) Promote(t testing.TB) *RedisServer {
	t.Helper()
	w.Primary.Kill(t)
	for _, r := range w.Replicas {
		err := r.tell(func(ctx context.Context, c *redis.Client) error {
			return c.ConfigSet(ctx, "masterauth", w.Password).Err()
		})
		if err != nil {
			t.Fatalf("letting a replica in again: %v", err)
		}
	}
	var addr string
	w.Sentinels[0].await(t, "another server is the primary", func(ctx context.Context, c *redis.Client) (bool, error) {
		m, err := watched(ctx, c)
		addr = net.JoinHostPort(m["ip"], m["port"])
		return addr != w.Primary.Peer(), err
	})
	i := slices.Index(addrs(w.Replicas), addr)
	if i < 0 {
		t.Fatalf("the new primary is %s, want one of %q", addr, addrs(w.Replicas))
	}
	next := w.Replicas[i]
	w.follow(t, next, slices.Delete(slices.Clone(w.Replicas), i, i+1)...)
	return next
}

// follow waits until the replicas have all that the primary has.
func (w *RedisWatched) follow(t testing.TB, primary *RedisServer, replicas ...*RedisServer) {
	t.Helper()
	for _, r := range replicas {
		r.await(t, "the replica follows", linked(true))
	}
	primary.await(t, "the primary has its replicas", func(ctx context.Context, c *redis.Client) (bool, error) {
		info, err := c.Info(ctx, "replication").Result()
		return strings.Contains(info, "role:master") && strings.Count(info, "state=online") == len(replicas), err
	})
}

// linked tells whether a replica has, or has not, a primary that answers.
func linked(want bool) func(ctx context.Context, c *redis.Client) (bool, error) {
	return func(ctx context.Context, c *redis.Client) (bool, error) {
		info, err := c.Info(ctx, "replication").Result()
		return strings.Contains(info, "master_link_status:up") == want, err
	}
}
