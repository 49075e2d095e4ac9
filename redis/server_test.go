package redis_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
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

// replicated is a primary and a replica of it that is up to date.
func replicated(t *testing.T) (*goredis.Client, *testenv.RedisServer, *testenv.RedisServer) {
	t.Helper()
	first, second := testenv.RedisPrivate(t), testenv.RedisPrivate(t)
	host, port := splitAddr(t, first.Peer())
	replica := connect(t, second.URL)
	must(t, replica.ReplicaOf(t.Context(), host, port).Err())
	until(t, "the replica is connected", func() bool {
		role, err := replica.Do(t.Context(), "ROLE").Slice()
		return err == nil && role[3] == "connected"
	})
	return replica, first, second
}

func splitAddr(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must(t, err)
	return host, port
}

// with WithReplicas a call succeeds once replicas have it. If they are too few it
// is written and its outcome unknown.
func TestReplicas(t *testing.T) {
	t.Parallel()
	replica, first, second := replicated(t)
	client := connect(t, first.URL)
	weak := newBackend(t, client)
	b := newBackend(t, client, redis.WithReplicas(1, 10*time.Second))
	c := request("k")
	r := acquire(t, b, c)
	if n, err := replica.Exists(t.Context(), b.KeyOf(c.Key)).Result(); n != 1 || err != nil {
		t.Errorf("the replica has %d records after Claim, %v, want 1", n, err)
	}
	must(t, b.Checkpoint(t.Context(), r.Holder(), point(1, "p")))

	// Connections that have written nothing since: WAIT on one of them would be
	// content at once.
	var idle []*goredis.Conn
	for range 3 {
		conn := client.Conn()
		must(t, conn.Ping(t.Context()).Err())
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		must(t, conn.Close())
	}
	until(t, "the replica has confirmed everything", func() bool {
		role, err := client.Do(t.Context(), "ROLE").Slice() // "master", offset, replicas: host, port, offset
		must(t, err)
		replicas := role[2].([]any)
		return len(replicas) == 1 && replicas[0].([]any)[2] == strconv.FormatInt(role[1].(int64), 10)
	})
	second.Pause(t)
	b = newBackend(t, client, redis.WithReplicas(1, time.Millisecond))
	for what, do := range map[string]func() error{
		"Claim":    func() error { _, err := b.Claim(t.Context(), request("late")); return err },
		"Complete": func() error { return b.Complete(t.Context(), r.Holder(), completion("done")) },
		"Release":  func() error { return b.Release(t.Context(), acquire(t, weak, request("released")).Holder()) },
	} {
		if err := do(); err == nil || backend.NotApplied(err) {
			t.Errorf("%s without its replica = %v, want an error that is not NotApplied", what, err)
		}
	}
	if got := get(t, weak, c.Key); got.Status != backend.Completed {
		t.Errorf("the record is %v, want it completed all the same", got.Status)
	}
	// Not published as long as it may be lost.
	if _, err := b.Claim(t.Context(), request("k")); err == nil || backend.NotApplied(err) {
		t.Errorf("Claim(completed) without its replica = %v, want an error that is not NotApplied", err)
	}
	second.Resume(t)
	b = newBackend(t, client, redis.WithReplicas(1, 10*time.Second))
	must(t, b.Complete(t.Context(), r.Holder(), completion("done")))
	if _, err := newBackend(t, client, redis.WithReplicas(2, time.Millisecond)).Get(t.Context(), c.Key); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Get with 2 replicas of 1 = %v, want ErrUnavailable", err)
	}
}

// A replica refuses, also to read: it may be behind.
func TestReplicaRefuses(t *testing.T) {
	t.Parallel()
	b, _, _ := privately(t, "replicaof=127.0.0.1 1")
	_, claimed := b.Claim(t.Context(), request("k"))
	_, got := b.Get(t.Context(), request("k").Key)
	for call, err := range map[string]error{"Claim": claimed, "Get": got} {
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%s on a replica = %v, want ErrUnavailable", call, err)
		}
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

// refusals before the script runs are surely not applied.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b, client, _ := privately(t, "min-replicas-to-write=1")
	if _, err := b.Claim(t.Context(), request("k")); !errors.Is(err, backend.ErrUnavailable) || !goredis.IsNoReplicasError(err) {
		t.Errorf("Claim without replicas = %v, want ErrUnavailable with NOREPLICAS in it", err)
	}
	must(t, client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	if got, err := b.Claim(t.Context(), request("k")); err != nil || !got.Acquired {
		t.Errorf("Claim after it = acquired %v, %v, want acquired", got.Acquired, err)
	}
}
