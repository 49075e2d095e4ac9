package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := connect(t, "redis://127.0.0.1:1")
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, HeartbeatFrequency: time.Hour})
	t.Cleanup(func() { must(t, ring.Close()) })
	wrapped := struct{ goredis.UniversalClient }{client}
	long := string(make([]byte, redis.MaxPrefix+1))
	for name, do := range map[string]func() (*redis.Backend, error){
		"nil":                    func() (*redis.Backend, error) { return redis.New(nil) },
		"a Ring":                 func() (*redis.Backend, error) { return redis.New(ring) },
		"no prefix":              func() (*redis.Backend, error) { return redis.New(client, redis.WithPrefix("")) },
		"a long prefix":          func() (*redis.Backend, error) { return redis.New(client, redis.WithPrefix(long)) },
		"-1 replicas":            func() (*redis.Backend, error) { return redis.New(client, redis.WithReplicas(-1, time.Second)) },
		"replicas without time":  func() (*redis.Backend, error) { return redis.New(client, redis.WithReplicas(1, 0)) },
		"replicas, other client": func() (*redis.Backend, error) { return redis.New(wrapped, redis.WithReplicas(1, time.Second)) },
	} {
		if b, err := do(); b != nil || !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("New(%s) = %v, %v, want ErrInvalid", name, b, err)
		}
	}
	if _, err := redis.New(wrapped, redis.WithPrefix(long[:redis.MaxPrefix])); err != nil {
		t.Errorf("New(another client, longest prefix) = %v, want nil", err)
	}
}

func findings(t *testing.T, b *redis.Backend) (backend.Description, []string) {
	t.Helper()
	d, err := b.Describe(t.Context())
	must(t, err)
	var ids []string
	for _, f := range d.Findings {
		ids = append(ids, fmt.Sprintf("%s (%s)", f.ID, f.Severity))
	}
	return d, ids
}

// A Sentinel answers like a server, and keeps nothing.
func TestFindingsOfASentinel(t *testing.T) {
	t.Parallel()
	w := testenv.RedisSentinel(t, time.Minute)
	if _, ids := findings(t, newBackend(t, connect(t, w.Sentinels[0].URL))); !slices.Equal(ids, []string{"redis/sentinel (unsafe)"}) {
		t.Errorf("findings = %q, want that it is a Sentinel", ids)
	}
}

// What Describe finds on servers of every kind.
func TestFindings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		settings  []string
		configure func(client *goredis.Client) error
		durable   bool
		want      []string
	}{
		{"as it should be", []string{"appendonly=yes", "appendfsync=always", "maxmemory=64mb", "maxmemory-policy=noeviction"}, nil, true, nil},
		{"no append-only file", nil, nil, false, []string{"redis/appendonly (unsafe)"}},
		{"synced every second", []string{"appendonly=yes"}, nil, false, []string{"redis/appendfsync (unsafe)"}},
		{"evicting", []string{"appendonly=yes", "appendfsync=always", "maxmemory-policy=volatile-ttl"}, nil, true, []string{"redis/maxmemory-policy (unsafe)"}},
		{"nearly full", []string{"appendonly=yes", "appendfsync=always", "maxmemory=1kb"}, nil, true, []string{"redis/memory (warning)"}},
		{"secretive", []string{"appendonly=yes", "appendfsync=always"}, func(client *goredis.Client) error {
			return client.Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err()
		}, false, []string{"redis/config (warning)"}},
		{"a replica", []string{"appendonly=yes", "appendfsync=always", "replicaof=127.0.0.1 1", "replica-serve-stale-data=yes"}, nil, true, []string{"redis/replica (unsafe)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, client, _ := privately(t, tt.settings...)
			if tt.configure != nil {
				must(t, tt.configure(client))
			}
			d, got := findings(t, b)
			if !slices.Equal(got, tt.want) || d.Capabilities.DurableKill != tt.durable {
				t.Errorf("Describe: findings %q, durable over a kill %v, want %q, %v", got, d.Capabilities.DurableKill, tt.want, tt.durable)
			}
			if d.Name != "redis" || d.Server == "" || !d.Capabilities.Shared || !d.Capabilities.NativeExpiry || d.Capabilities.DurableFailover {
				t.Errorf("Describe = %+v, want a shared redis with its version that expires records and is not durable over a failover", d)
			}
		})
	}
}

// on a full server new work is refused, what runs can end, and what has
// ended is replayed.
func TestServerIsFull(t *testing.T) {
	t.Parallel()
	b, client, _ := privately(t)
	done := completed(t, b, request("done"), "done")
	running := request("running")
	l := acquire(t, b, running).Holder()
	lapsed := request("lapsed")
	lapsed.Lease = time.Millisecond
	acquire(t, b, lapsed)
	until(t, "the lease lapses", func() bool { return get(t, b, lapsed.Key).LeaseLeft == 0 })
	must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())

	for _, key := range []string{"new", "lapsed"} {
		if _, err := b.Claim(t.Context(), request(key)); !errors.Is(err, backend.ErrUnavailable) || !goredis.IsOOMError(err) {
			t.Errorf("Claim(%s) = %v, want ErrUnavailable with Redis's OOM in it", key, err)
		}
	}
	if got, err := b.Claim(t.Context(), request("done")); err != nil || got.Acquired || string(got.Record.Response.Body) != "done" {
		t.Errorf("Claim(completed) = acquired %v, %q, %v, want a replay", got.Acquired, got.Record.Response.Body, err)
	}
	if got, err := b.Claim(t.Context(), request("running")); err != nil || got.Acquired || got.Record.LeaseLeft == 0 {
		t.Errorf("Claim(in flight) = acquired %v, %v, want it in progress", got.Acquired, err)
	}
	if got, err := b.Claim(t.Context(), running); err != nil || !got.Acquired {
		t.Errorf("Claim(in flight, same id) = acquired %v, %v, want acquired", got.Acquired, err)
	}
	must(t, b.Renew(t.Context(), l, time.Hour))
	must(t, b.Checkpoint(t.Context(), l, point(1, "p")))
	must(t, b.Complete(t.Context(), l, completion("stored")))
	if r := get(t, b, l.Key); string(r.Response.Body) != "stored" {
		t.Errorf("body = %q, want stored", r.Response.Body)
	}
	must(t, b.Release(t.Context(), get(t, b, lapsed.Key).Holder()))
	_, err := b.Sweep(t.Context(), 10)
	must(t, err)
	must(t, b.Release(t.Context(), done.Holder()))

	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	acquire(t, b, request("new"))
}

// R-14, field report 27: what Describe warns of. A server that evicts throws away a claim
// that somebody holds and an answer that was given, and both keys are to be had again.
func TestServerEvicts(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"allkeys-lru", "volatile-lru", "volatile-ttl"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b, client, _ := privately(t, "maxmemory=6mb", "maxmemory-policy="+policy)
			if _, ids := findings(t, b); !slices.Contains(ids, "redis/maxmemory-policy (unsafe)") {
				t.Errorf("findings %q, want the policy among them", ids)
			}
			held, done := acquire(t, b, request("held")), completed(t, b, request("done"), "done")
			there := func(keys ...backend.Key) int64 {
				var names []string
				for _, k := range keys {
					names = append(names, b.KeyOf(k))
				}
				n, err := client.Exists(t.Context(), names...).Result()
				must(t, err)
				return n
			}
			body := strings.Repeat("x", 1<<16)
			for i := 0; there(held.Key, done.Key) > 0; i++ {
				if i == 2000 {
					t.Fatal("nothing is evicted by 2000 answers of 64 KiB")
				}
				c := request(fmt.Sprint("more ", i))
				c.Retention, c.Abandon = 30*24*time.Hour, 30*24*time.Hour // they go last
				completed(t, b, c, body)
			}
			acquire(t, b, request("held"))
			acquire(t, b, request("done"))
			if err := b.Complete(t.Context(), held.Holder(), completion("late")); !errors.Is(err, backend.ErrLeaseLost) {
				t.Errorf("Complete of the claim that was thrown away = %v, want ErrLeaseLost", err)
			}
		})
	}
}

// with appendfsync always nothing acknowledged is lost by a kill. Without
// an append-only file it is, which is what Describe says.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	for _, settings := range [][]string{{"appendonly=yes", "appendfsync=always"}, nil} {
		b, client, srv := privately(t, settings...)
		d, _ := findings(t, b)
		held := request("held")
		r := acquire(t, b, held)
		must(t, b.Checkpoint(t.Context(), r.Holder(), point(1, "charged")))
		completed(t, b, request("done"), "done")
		srv.Kill(t)
		if _, err := b.Claim(t.Context(), request("meanwhile")); err == nil {
			t.Error("Claim on a killed server = nil, want an error")
		}
		srv.Start(t)
		until(t, "the client reconnects", func() bool { return client.Ping(t.Context()).Err() == nil })
		got, err := b.Get(t.Context(), held.Key)
		if !d.Capabilities.DurableKill {
			if !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("Get on a server without a file, killed = %v, want ErrNotFound: it loses what it has", err)
			}
			continue
		}
		if err != nil || got.RecoveryPoint != "charged" || got.Token != r.Token || string(got.State) != "state of charged" {
			t.Errorf("Get(held) after a kill = %q, token %d, %v, want its recovery point and token", got.RecoveryPoint, got.Token, err)
		}
		if got := get(t, b, request("done").Key); string(got.Response.Body) != "done" {
			t.Errorf("Get(done) after a kill: body %q, want done", got.Response.Body)
		}
		must(t, b.Complete(t.Context(), r.Holder(), completion("after")))
	}
}

// The commands that the documentation names are enough.
func TestRights(t *testing.T) {
	t.Parallel()
	_, admin, srv := privately(t)
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "service", "on", ">secret", "~idem:*",
		"+eval", "+evalsha", "+time", "+hmget", "+hgetall", "+hset", "+hdel", "+del", "+persist", "+pexpireat",
		"+scan", "+pttl", "+script|load", "+info", "+config|get", "+wait").Err())
	client := connect(t, srv.URL, func(o *goredis.Options) { o.Username, o.Password = "service", "secret" })
	b := newBackend(t, client)
	done := acquire(t, b, request("done")).Holder()
	must(t, b.Renew(t.Context(), done, time.Hour))
	must(t, b.Checkpoint(t.Context(), done, point(1, "p")))
	must(t, b.Complete(t.Context(), done, completion("done")))
	must(t, b.Release(t.Context(), acquire(t, b, request("released")).Holder()))
	c := request("abandoned")
	c.Lease, c.Retention, c.Abandon = time.Second, time.Second, time.Second
	must(t, b.Checkpoint(t.Context(), acquire(t, b, c).Holder(), point(1, "p")))
	until(t, "the run is abandoned", func() bool {
		n, err := b.Sweep(t.Context(), 10)
		return err == nil && n == 1
	})
	if d, ids := findings(t, b); d.Server == "" || slices.Contains(ids, "redis/config (warning)") {
		t.Errorf("Describe = version %q, findings %q, want all read", d.Server, ids)
	}
	weak := newBackend(t, client, redis.WithReplicas(1, time.Millisecond))
	if err := weak.Release(t.Context(), done); err == nil || backend.NotApplied(err) || goredis.IsPermissionError(err) {
		t.Errorf("Release without a replica = %v, want an unknown outcome and no lack of rights", err)
	}
}
