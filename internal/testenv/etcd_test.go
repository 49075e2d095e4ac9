package testenv

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func etcdClient(t *testing.T, s *EtcdServer) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func etcdCount(t *testing.T, c *clientv3.Client, prefix string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatalf("Get = %v, want nil", err)
	}
	return got.Count
}

func TestEtcdGivesEachTestAPrefix(t *testing.T) {
	t.Parallel()
	kept := Etcd(t)
	c := etcdClient(t, kept)
	var lent string
	t.Run("borrower", func(t *testing.T) {
		s := Etcd(t)
		lent = s.Prefix
		for _, prefix := range []string{kept.Prefix, s.Prefix} {
			if _, err := c.Put(t.Context(), prefix+"k", "v"); err != nil {
				t.Fatalf("Put = %v, want nil", err)
			}
		}
	})
	if n := etcdCount(t, c, lent); n != 0 || lent == kept.Prefix {
		t.Errorf("keys with prefix %s after its test = %d, want none", lent, n)
	}
	if n := etcdCount(t, c, kept.Prefix); n != 1 {
		t.Errorf("keys with the prefix of a test that runs = %d, want 1", n)
	}
}

func TestEtcdKillAndStart(t *testing.T) {
	t.Parallel()
	s := EtcdPrivate(t, "--quota-backend-bytes=33554432")
	c := etcdClient(t, s)
	if got, err := c.Status(t.Context(), s.Endpoints[0]); err != nil || got.DbSizeQuota != 0 && got.DbSizeQuota != 33554432 {
		t.Errorf("Status: quota %d, %v, want that of the flag", got.DbSizeQuota, err)
	}
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatalf("Put = %v, want nil", err)
	}
	s.Kill(t)
	s.Start(t)
	if n := etcdCount(t, c, "k"); n != 1 {
		t.Errorf("keys after Kill and Start = %d, want the stored one", n)
	}
	s.Restart(t)
	if n := etcdCount(t, c, "k"); n != 1 {
		t.Errorf("keys after Restart = %d, want the stored one", n)
	}
	s.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "k"); err == nil {
		t.Error("Get on a paused server = nil, want no answer")
	}
	s.Resume(t)
	if n := etcdCount(t, c, "k"); n != 1 {
		t.Errorf("keys after Resume = %d, want 1", n)
	}
}

// A cluster of three goes on without its leader, whether that is killed or paused, and
// takes it back.
func TestEtcdClusterWithoutItsLeader(t *testing.T) {
	t.Parallel()
	cl := EtcdThree(t)
	all := &EtcdServer{Endpoints: cl.Endpoints}
	c := etcdClient(t, all)
	list, err := c.MemberList(t.Context())
	if err != nil || len(list.Members) != etcdMembers || len(cl.Members) != etcdMembers {
		t.Fatalf("MemberList = %v, %v, want %d members", list, err, etcdMembers)
	}
	put := func(when, key string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := c.Put(ctx, key, "v")
			cancel()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("Put %s = %v, want nil", when, err)
			}
		}
	}
	put("at first", "k/1")
	first := cl.Leader(t)
	first.Kill(t)
	second := cl.Leader(t)
	if second == first {
		t.Error("Leader after a kill = the one that was killed, want another one")
	}
	put("without the first leader", "k/2")
	first.Start(t)

	paused := cl.Leader(t)
	paused.Pause(t)
	if cl.Leader(t) == paused {
		t.Error("Leader after a pause = the one that is paused, want another one")
	}
	put("without a paused leader", "k/3")
	paused.Resume(t)
	cl.RestartLeader(t)
	put("after a restart", "k/4")
	for _, m := range cl.Members {
		if n := etcdCount(t, etcdClient(t, m), "k/"); n != 4 {
			t.Errorf("keys on a member = %d, want all 4", n)
		}
	}
}

// Proxies before all members cut a client off from the cluster.
func TestEtcdClusterProxies(t *testing.T) {
	t.Parallel()
	cl := EtcdThree(t)
	through := new(EtcdServer)
	proxies := cl.Proxies(t)
	for _, p := range proxies {
		through.Endpoints = append(through.Endpoints, p.Addr())
	}
	c := etcdClient(t, through)
	if n := etcdCount(t, c, "k"); n != 0 {
		t.Errorf("keys through the proxies = %d, want none", n)
	}
	for _, p := range proxies {
		p.Partition()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "k"); err == nil {
		t.Error("Get behind a partition = nil, want no answer")
	}
	if n := etcdCount(t, etcdClient(t, &EtcdServer{Endpoints: cl.Endpoints}), "k"); n != 0 {
		t.Errorf("keys beside the proxies = %d, want none", n)
	}
	for _, p := range proxies {
		p.Heal()
	}
	if n := etcdCount(t, etcdClient(t, through), "k"); n != 0 {
		t.Errorf("keys through healed proxies = %d, want none", n)
	}
}
