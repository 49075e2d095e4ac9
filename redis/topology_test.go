package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// opener is what a client is made for: a test, or a case of the suite.
type opener interface{ Cleanup(f func()) }

// ofCluster makes a client that is closed when the test ends.
func ofCluster(t opener, g *testenv.RedisGroup, dial dialer) *goredis.ClusterClient {
	c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: g.Addrs(), Password: g.Password, Dialer: dial, PoolSize: 4})
	t.Cleanup(func() { _ = c.Close() }) // nothing to lose
	return c
}

// ofSentinel makes a client that is closed when the test ends.
func ofSentinel(t opener, w *testenv.RedisWatched, dial dialer) *goredis.Client {
	c := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: testenv.SentinelName, SentinelAddrs: w.SentinelAddrs(), SentinelPassword: w.Password,
		Password: w.Password, Dialer: dial, PoolSize: 4,
	})
	t.Cleanup(func() { _ = c.Close() }) // nothing to lose
	return c
}

// durable is how a server has to be set up.
var durable = []string{"appendonly=yes", "appendfsync=always"}

// on a cluster every script stays within its one key, whatever is in its name. All
// servers are killed, paused and cut off together.
func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	g := testenv.RedisCluster(t, durable...)
	conformance.Run(t, func(t *testing.T) conformance.Store {
		proxies, dial := g.Proxied(t)
		return harm(t, g.Nodes, proxies, func() { g.Whole(t) }, func(h opener) goredis.UniversalClient { return ofCluster(h, g, dial) })
	}, clustered.Shown())
}

// A restart is over before the sentinels hold the primary for down. What a failover does is
// shown by TestFailoverConformance.
func TestConformanceBehindSentinel(t *testing.T) {
	t.Parallel()
	w := testenv.RedisSentinel(t, time.Minute, durable...)
	conformance.Run(t, func(t *testing.T) conformance.Store {
		proxies, dial := w.Proxied(t)
		return harm(t, []*testenv.RedisServer{w.Primary}, proxies, func() {}, func(h opener) goredis.UniversalClient { return ofSentinel(h, w, dial) })
	}, watched.Shown())
}

// harm is a store on several servers that can be harmed.
func harm(t *testing.T, servers []*testenv.RedisServer, proxies []*testenv.Proxy, whole func(), client func(h opener) goredis.UniversalClient) conformance.Store {
	t.Helper()
	prefix := redis.WithPrefix(fmt.Sprintf("case%d:", cases.Add(1)))
	return conformance.Store{
		Open: func(h conformance.T) backend.Backend { return newBackend(t, client(h), prefix) },
		Restart: func(conformance.T) {
			for _, s := range servers {
				s.Kill(t)
			}
			for _, s := range servers {
				s.Start(t)
			}
			whole()
		},
		Pause: func(conformance.T) func() {
			for _, s := range servers {
				s.Pause(t)
			}
			return func() {
				for _, s := range servers {
					s.Resume(t)
				}
			}
		},
		Partition: func(conformance.T) func() {
			for _, p := range proxies {
				p.Partition()
			}
			return func() {
				for _, p := range proxies {
					p.Heal()
				}
			}
		},
		Skewed: func(_ conformance.T, by time.Duration) backend.Backend {
			return conformance.Skew(t, by, func(t *testing.T) backend.Backend { return newBackend(t, client(t), prefix) })
		},
	}
}

// a cluster client repeats commands whatever MaxRetries says; not ours. WAIT
// goes where the key is.
func TestClusterReplyIsLost(t *testing.T) {
	t.Parallel()
	g := testenv.RedisCluster(t)
	proxies, dial := g.Proxied(t)
	client := ofCluster(t, g, dial)
	b := newBackend(t, client)
	acquire(t, b, request("warm"))
	c := request("k")
	for _, p := range proxies { // one of them is on the way
		p.Add(testenv.Rule{On: testenv.ToServer, Match: testenv.Contains("evalsha"), Do: testenv.CutAfter})
	}
	if _, err := b.Claim(t.Context(), c); err == nil || backend.NotApplied(err) {
		t.Errorf("Claim, its reply lost = %v, want an error that is not NotApplied", err)
	}
	r := acquire(t, b, c)
	if r.Attempt != 1 {
		t.Errorf("attempt = %d, want 1: the claim knows itself", r.Attempt)
	}
	if d, _ := findings(t, b); d.Server == "" {
		t.Error("Describe on a cluster: no version, want the server's")
	}
	weak := newBackend(t, client, redis.WithReplicas(1, time.Millisecond))
	if err := weak.Complete(t.Context(), r.Holder(), completion("x")); err == nil || backend.NotApplied(err) {
		t.Errorf("Complete without a replica = %v, want an error that is not NotApplied", err)
	}
	if got := get(t, b, c.Key); got.Status != backend.Completed {
		t.Errorf("the record is %v, want completed", got.Status)
	}
}

// braces in any part of a key choose a server and nothing else.
func TestKeysOnACluster(t *testing.T) {
	t.Parallel()
	g := testenv.RedisCluster(t)
	b := newBackend(t, ofCluster(t, g, g.Dial))
	parts := []string{"{}", "{", "}", "a}b", "{a}{b}", "{a", "a{}b", "{{}}", "*"}
	held := make(map[backend.Key]backend.Record)
	for _, part := range parts {
		for _, k := range []backend.Key{
			{Tenant: part, Actor: "actor", Value: "key"}, {Tenant: "tenant", Actor: part, Value: "key"}, {Tenant: "tenant", Actor: "actor", Value: part},
		} {
			c := request("")
			c.Key = k
			held[k] = acquire(t, b, c)
		}
	}
	for k, r := range held {
		must(t, b.Checkpoint(t.Context(), r.Holder(), point(1, "p")))
		must(t, b.Renew(t.Context(), r.Holder(), time.Hour))
		must(t, b.Complete(t.Context(), r.Holder(), completion(fmt.Sprintf("%q", k))))
	}
	for k := range held {
		if got := get(t, b, k); got.Key != k || string(got.Response.Body) != fmt.Sprintf("%q", k) {
			t.Errorf("Get(%q) = %q, want its own answer", k, got.Response.Body)
		}
	}
	for _, k := range []backend.Key{{Actor: "a", Value: "k"}, {Tenant: "t", Value: "k"}, {Tenant: "t", Actor: "a"}} {
		c := request("")
		c.Key = k
		if _, err := b.Claim(t.Context(), c); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("Claim(%q) = %v, want ErrInvalid: a part is empty", k, err)
		}
	}
}
