package redis_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/redis"
)

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

// a client that sends reads to replicas sends ours to the primary.
func TestReadsGoToThePrimary(t *testing.T) {
	t.Parallel()
	replica, first, second := replicated(t)
	opts, err := goredis.ParseURL(first.URL)
	must(t, err)
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Password: opts.Password, RouteRandomly: true,
		ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
			return []goredis.ClusterSlot{{End: 16383, Nodes: []goredis.ClusterNode{{Addr: first.Addr}, {Addr: second.Addr}}}}, nil
		},
	})
	t.Cleanup(func() { must(t, client.Close()) })
	b := newBackend(t, client)
	must(t, replica.ReplicaOf(t.Context(), "127.0.0.1", "1").Err()) // it knows nothing from now on
	r := acquire(t, b, request("k"))
	until(t, "the client reads from the replica, of its own accord", func() bool {
		n, err := client.Exists(t.Context(), b.KeyOf(r.Key)).Result()
		return err == nil && n == 0
	})
	for range 50 {
		get(t, b, r.Key)
		if got, err := b.Claim(t.Context(), request("k")); err != nil || got.Acquired {
			t.Fatalf("Claim(in flight) = acquired %v, %v, want it in progress", got.Acquired, err)
		}
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
