package etcd_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	b := newBackend(t, connect(t, srv))
	d, err := b.Describe(t.Context())
	if err != nil {
		t.Fatalf("Describe = %v, want nil", err)
	}
	if d.Name != "etcd" || d.Server == "" {
		t.Errorf("Describe: name %q, server %q, want etcd and a version", d.Name, d.Server)
	}
	c := d.Capabilities
	if c.Transactions || !c.DurableKill || c.DurableFailover || !c.Shared || !c.NativeExpiry || c.Clock != backend.ClockServer || !c.FreshReads ||
		c.MaxValue != etcd.DefaultMaxValue || c.MinLease != time.Second || c.LeaseRound != time.Second || c.LeaseStretch == 0 || !slices.Equal(c.TokensBreakOn, []string{"restore"}) {
		t.Errorf("Describe(one member): capabilities = %+v", c)
	}
	if found := findings(t, b); found["etcd/members"] != backend.Warning {
		t.Errorf("Describe(one member): findings = %v, want etcd/members among them", found)
	}
}

// A second member that is never started takes the majority away.
func TestDescribeWithoutQuorum(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	c := connect(t, srv)
	b := newBackend(t, c, etcd.WithTimeout(2*time.Second))
	if _, err := c.MemberAdd(t.Context(), []string{"http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the leader is gone", func() bool { return findings(t, b)["etcd/quorum"] == backend.Unsafe })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.Claim(ctx, request("k")); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Claim(no quorum) = %v, want ErrUnavailable", err)
	}
}

func TestDescribeLongLeases(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t, "--heartbeat-interval=1000", "--election-timeout=6000", "--initial-election-tick-advance=true")
	b := newBackend(t, connect(t, srv))
	d, err := b.Describe(t.Context())
	if err != nil || d.Capabilities.MinLease != 9*time.Second {
		t.Errorf("Describe: shortest lease %v, %v, want 9s", d.Capabilities.MinLease, err)
	}
	if found := findings(t, b); found["etcd/min-lease"] != backend.Warning {
		t.Errorf("Describe: findings = %v, want etcd/min-lease among them", found)
	}
}

// An endpoint that is down is a finding; all of them are an error.
func TestDescribeEndpoints(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	dead := "127.0.0.1:1"
	b := newBackend(t, connect(t, srv, func(c *clientv3.Config) { c.Endpoints = append(slices.Clone(srv.Endpoints), dead) }))
	if found := findings(t, b); found["etcd/endpoints"] != backend.Warning {
		t.Errorf("Describe: findings = %v, want etcd/endpoints among them", found)
	}
	b = newBackend(t, connect(t, srv, func(c *clientv3.Config) { c.Endpoints = []string{dead} }), etcd.WithTimeout(time.Second))
	if _, err := b.Describe(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Describe(no server) = %v, want ErrUnavailable", err)
	}
}

// E-13: the suite's user has rights on its prefix only, which is all that keeping records
// takes.
func TestRights(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	root := connect(t, srv)
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s = %v, want nil", what, err)
		}
	}
	for _, u := range []string{"root", "idem"} {
		_, err := root.UserAdd(t.Context(), u, "secret")
		do("UserAdd", err)
		_, err = root.RoleAdd(t.Context(), u)
		do("RoleAdd", err)
		_, err = root.UserGrantRole(t.Context(), u, u)
		do("UserGrantRole", err)
	}
	_, err := root.RoleGrantPermission(t.Context(), "idem", "idem/", clientv3.GetPrefixRangeEnd("idem/"), clientv3.PermissionType(clientv3.PermReadWrite))
	do("RoleGrantPermission", err)
	_, err = root.AuthEnable(t.Context())
	do("AuthEnable", err)

	c := connect(t, srv, func(c *clientv3.Config) { c.Username, c.Password = "idem", "secret" })
	b := newBackend(t, c)
	r := acquire(t, b, request("k"))
	do("Checkpoint", b.Checkpoint(t.Context(), r.Holder(), backend.Checkpoint{Sequence: 1, Point: "p"}))
	do("Renew", b.Renew(t.Context(), r.Holder(), time.Minute))
	do("Renew", b.Renew(t.Context(), r.Holder(), time.Hour))
	do("Complete", b.Complete(t.Context(), r.Holder(), backend.Completion{Sequence: 2}))
	acquire(t, b, forgotten("lapsed"))
	lapse(t, b, forgotten("lapsed").Key)
	if n := sweep(t, b, 10); n != 1 {
		t.Errorf("Sweep = %d, want 1", n)
	}
	if d, err := b.Describe(t.Context()); err != nil {
		t.Errorf("Describe = %+v, %v, want nil", d, err)
	}
	elsewhere := newBackend(t, c, etcd.WithPrefix("elsewhere/"))
	if _, err := elsewhere.Claim(t.Context(), request("k")); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Claim(no rights) = %v, want ErrUnavailable", err)
	}
}
