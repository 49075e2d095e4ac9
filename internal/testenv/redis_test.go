package testenv

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func redisTo(t *testing.T, url string) *redis.Client {
	t.Helper()
	client, err := redisClient(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // nothing to lose
	return client
}

func mustSet(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	if err := client.Set(t.Context(), key, "x", 0).Err(); err != nil {
		t.Fatalf("Set(%q) = %v, want nil", key, err)
	}
}

func wantKeys(t *testing.T, when string, client *redis.Client, want int64, keys ...string) {
	t.Helper()
	if n, err := client.Exists(t.Context(), keys...).Result(); n != want || err != nil {
		t.Errorf("keys %s = %d, %v, want %d", when, n, err, want)
	}
}

func TestRedisGivesEachTestAPrefix(t *testing.T) {
	t.Parallel()
	a := Redis(t)
	client := redisTo(t, a.URL)
	mustSet(t, client, a.Prefix+"mine")
	var inner *RedisServer
	t.Run("borrower", func(t *testing.T) {
		inner = Redis(t)
		if inner.Addr != a.Addr || inner.Prefix == a.Prefix {
			t.Errorf("Redis = %s, %q and %s, %q, want one server and two prefixes", a.Addr, a.Prefix, inner.Addr, inner.Prefix)
		}
		mustSet(t, client, inner.Prefix+"borrowed")
	})
	wantKeys(t, "of a test that has ended", client, 0, inner.Prefix+"borrowed")
	wantKeys(t, "of this test", client, 1, a.Prefix+"mine")
}

func TestRedisPrivate(t *testing.T) {
	t.Parallel()
	srv := RedisPrivate(t, "maxmemory=8mb", "appendonly=yes", "appendfsync=always", "save=3600 1 300 100")
	client := redisTo(t, srv.URL)
	for name, want := range map[string]string{"maxmemory": "8388608", "save": "3600 1 300 100"} {
		if got, err := client.ConfigGet(t.Context(), name).Result(); err != nil || got[name] != want {
			t.Errorf("setting %s = %q, %v, want %q", name, got[name], err, want)
		}
	}
	mustSet(t, client, "kept")
	srv.Kill(t)
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("Ping after Kill = nil, want an error")
	}
	srv.Start(t)
	wantKeys(t, "after Kill and Start", redisTo(t, srv.URL), 1, "kept")
	srv.Restart(t)
	wantKeys(t, "after Restart", redisTo(t, srv.URL), 1, "kept")

	client = redisTo(t, srv.URL)
	srv.Pause(t)
	answered := make(chan error, 1)
	go func() { answered <- client.Ping(context.Background()).Err() }()
	select {
	case err := <-answered:
		t.Fatalf("Ping on a paused server = %v, want no answer", err)
	case <-time.After(100 * time.Millisecond):
	}
	srv.Resume(t)
	if err := <-answered; err != nil {
		t.Errorf("Ping after Resume = %v, want nil", err)
	}

	// Not for everybody: the port of a container is open to the machine's neighbours.
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = nil
	if err := ping(t.Context(), u.String()); !redis.IsAuthError(err) {
		t.Errorf("Ping without a password = %v, want it refused", err)
	}
}

func TestRedisPeer(t *testing.T) {
	t.Parallel()
	first, second := RedisPrivate(t), RedisPrivate(t)
	mustSet(t, redisTo(t, first.URL), "copied")
	host, port, err := net.SplitHostPort(first.Peer())
	if err != nil {
		t.Fatal(err)
	}
	client := redisTo(t, second.URL)
	if err := client.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); client.Exists(t.Context(), "copied").Val() != 1; {
		if time.Now().After(deadline) {
			t.Fatalf("no replica at %s of %s after 20s", second.Addr, first.Peer())
		}
	}
}

func TestRedisThroughAProxy(t *testing.T) {
	t.Parallel()
	srv := Redis(t)
	proxy := srv.Proxy(t)
	client := redisTo(t, srv.Via(proxy.Addr()))
	mustSet(t, client, srv.Prefix+"warm")
	proxy.Reset()
	mustSet(t, client, srv.Prefix+"a")
	mustSet(t, client, srv.Prefix+"b")
	if n := proxy.RoundTrips(); n != 2 {
		t.Errorf("RoundTrips() = %d, want 2", n)
	}
	cut := proxy.Add(Rule{On: ToServer, Match: Contains("incr"), Do: CutAfter})
	if err := client.Incr(t.Context(), srv.Prefix+"n").Err(); err == nil {
		t.Error("Incr, its reply cut = nil, want an error")
	}
	if n, err := client.Get(t.Context(), srv.Prefix+"n").Int(); n != 1 || err != nil || cut.Count() != 1 {
		t.Errorf("the number = %d, %v, cut %d times, want it incremented once", n, err, cut.Count())
	}
}

// The server of an operator is used as it is, and never killed.
func TestRedisFromEnv(t *testing.T) {
	srv := RedisPrivate(t)
	t.Setenv("IDEM_TEST_REDIS_URL", srv.URL)
	got, err := redisFromEnv()
	if err != nil || got.instance != nil || got.base.Host != srv.Addr {
		t.Errorf("redisFromEnv() = %+v, %v, want the server at %s", got, err, srv.Addr)
	}
	for _, wrong := range []string{"localhost:6379", "redis://127.0.0.1:1"} {
		t.Setenv("IDEM_TEST_REDIS_URL", wrong)
		if _, err := redisFromEnv(); err == nil {
			t.Errorf("redisFromEnv() with %s = nil, want an error", wrong)
		}
	}
}
