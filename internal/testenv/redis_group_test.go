package testenv

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// clusterClient goes to the cluster by the names that its servers tell.
func clusterClient(t *testing.T, g *RedisGroup) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: g.Addrs(), Password: g.Password, Dialer: g.Dial, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() }) // nothing to lose
	return client
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	g := RedisCluster(t, "appendonly=yes", "appendfsync=always")
	client := clusterClient(t, g)
	const keys = 60
	for i := range keys {
		if err := client.Set(t.Context(), strconv.Itoa(i), "x", 0).Err(); err != nil {
			t.Fatalf("Set(%d) = %v, want nil", i, err)
		}
	}
	total := 0
	for _, n := range g.Nodes {
		has, err := redisTo(t, n.URL).DBSize(t.Context()).Result()
		if err != nil || has < keys/6 {
			t.Errorf("%s has %d keys of %d, %v, want its share", n.Addr, has, keys, err)
		}
		total += int(has)
	}
	if total != keys {
		t.Errorf("the servers have %d keys, want %d", total, keys)
	}
	for _, n := range g.Nodes {
		n.Kill(t)
	}
	for _, n := range g.Nodes {
		n.Start(t)
	}
	g.Whole(t)
	client = clusterClient(t, g)
	for i := range keys {
		if n, err := client.Exists(t.Context(), strconv.Itoa(i)).Result(); n != 1 || err != nil {
			t.Fatalf("Exists(%d) after a kill of all = %d, %v, want 1", i, n, err)
		}
	}
}

// A server keeps the address that others know, also when one is started while it is down.
func TestRedisPeerLasts(t *testing.T) {
	t.Parallel()
	s := RedisPrivate(t)
	s.Kill(t)
	other := RedisPrivate(t)
	if other.Peer() == s.Peer() {
		t.Errorf("Peer of two servers = %s", s.Peer())
	}
	s.Start(t)
	host, port := s.peerParts(t)
	if err := redisTo(t, other.URL).Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	other.await(t, "the other server reaches it", linked(true))
}

func TestRedisClusterProxied(t *testing.T) {
	t.Parallel()
	g := RedisCluster(t)
	proxies, dial := g.Proxied(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: g.Addrs(), Password: g.Password, Dialer: dial, ContextTimeoutEnabled: true, MaxRedirects: -1})
	t.Cleanup(func() { _ = client.Close() }) // nothing to lose
	set := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		return client.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() })
	}
	if err := set(); err != nil {
		t.Fatalf("Ping to all = %v, want nil", err)
	}
	for i, p := range proxies {
		if p.RoundTrips() == 0 {
			t.Errorf("nothing went through proxy %d", i)
		}
		p.Partition()
	}
	if err := set(); err == nil {
		t.Error("Ping to all, cut off = nil, want an error")
	}
}

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	w := RedisSentinel(t, time.Second)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: SentinelName, SentinelAddrs: w.SentinelAddrs(), SentinelPassword: w.Password, Password: w.Password,
		Dialer: w.Dial, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() }) // nothing to lose
	mustSet(t, client, "copied")
	if n, err := client.Wait(t.Context(), sentinelReplicas, 10*time.Second).Result(); n != sentinelReplicas || err != nil {
		t.Fatalf("Wait = %d, %v, want both replicas", n, err)
	}
	w.Sever(t)
	mustSet(t, client, "lost")
	next := w.Promote(t)
	wantKeys(t, "after the failover", redisTo(t, next.URL), 1, "copied", "lost")
	found := func() bool {
		return client.Set(t.Context(), "after", "x", 0).Err() == nil
	}
	for deadline := time.Now().Add(20 * time.Second); !found(); {
		if time.Now().After(deadline) {
			t.Fatal("the client has not found the new primary in 20s")
		}
	}
	wantKeys(t, "of the client afterwards", redisTo(t, next.URL), 1, "after")
}
