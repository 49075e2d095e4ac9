package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
)

// fill uses a server's quota up.
func fill(t *testing.T, c *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", 1<<20)
	for i := range 100 {
		_, err := c.Put(t.Context(), fmt.Sprint("fill/", i), value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatalf("Put = %v, want ErrNoSpace in the end", err)
		}
	}
	t.Fatal("a hundred megabytes fit into the quota")
}

// makeRoom does what the hint of the error says.
func makeRoom(t *testing.T, c *clientv3.Client) {
	t.Helper()
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s = %v, want nil", what, err)
		}
	}
	del, err := c.Delete(t.Context(), "fill/", clientv3.WithPrefix())
	do("Delete", err)
	_, err = c.Compact(t.Context(), del.Header.Revision, clientv3.WithCompactPhysical())
	do("Compact", err)
	_, err = c.Defragment(t.Context(), c.Endpoints()[0])
	do("Defragment", err)
	_, err = c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}) // all of them
	do("AlarmDisarm", err)
}

// E-7, X-etcd-nospace: a server without space replays, shows and refuses, and what was refused is done when
// there is space again.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t, "--quota-backend-bytes=16777216")
	c := connect(t, srv)
	b := newBackend(t, c)
	done := acquire(t, b, request("done"))
	complete(t, b, done, "done")
	held := acquire(t, b, request("held"))
	fill(t, c)

	got, err := b.Claim(t.Context(), request("done"))
	if err != nil || got.Acquired || string(got.Record.Response.Body) != "done" {
		t.Errorf("Claim(completed, no space) = %+v, %v, want the replay", got, err)
	}
	got, err = b.Claim(t.Context(), request("held"))
	if err != nil || got.Acquired || got.Record.LeaseLeft <= 0 {
		t.Errorf("Claim(in progress, no space) = %+v, %v, want it in progress", got, err)
	}
	if _, err := b.Get(t.Context(), held.Key); err != nil {
		t.Errorf("Get(no space) = %v, want nil", err)
	}
	refused := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, rpctypes.ErrNoSpace) || !strings.Contains(err.Error(), "disarm") {
			t.Errorf("%s(no space) = %v, want ErrUnavailable that says what to do", call, err)
		}
	}
	_, err = b.Claim(t.Context(), request("new"))
	refused("Claim", err)
	refused("Complete", b.Complete(t.Context(), held.Holder(), completion("late")))
	refused("Checkpoint", b.Checkpoint(t.Context(), held.Holder(), backend.Checkpoint{Sequence: 1, Point: "p"}))
	found := findings(t, b)
	if found["etcd/nospace"] != backend.Unsafe {
		t.Errorf("Describe(no space): findings = %v, want etcd/nospace among them", found)
	}
	if s, err := c.Status(t.Context(), srv.Endpoints[0]); err == nil && s.DbSizeQuota > 0 && found["etcd/quota"] != backend.Warning { // said since 3.6
		t.Errorf("Describe(no space): findings = %v, want etcd/quota among them", found)
	}

	makeRoom(t, c)
	complete(t, b, held, "late")
	acquire(t, b, request("new"))
	if found := findings(t, b); found["etcd/nospace"] != "" || found["etcd/quota"] != "" {
		t.Errorf("Describe(space again): findings = %v, want neither etcd/nospace nor etcd/quota", found)
	}
}

// A release takes no space: it goes through on a full server.
func TestReleaseWithoutSpace(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t, "--quota-backend-bytes=16777216")
	c := connect(t, srv)
	b := newBackend(t, c)
	r := acquire(t, b, request("k"))
	fill(t, c)
	if err := b.Release(t.Context(), r.Holder()); err != nil {
		t.Errorf("Release(no space) = %v, want nil", err)
	}
	if _, err := b.Get(t.Context(), r.Key); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Get(released) = %v, want ErrNotFound", err)
	}
}

// E-8: compaction takes history away, and nothing else.
func TestCompactionInBetween(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	c := connect(t, srv)
	b := newBackend(t, c)
	compact := func() {
		t.Helper()
		now, err := c.Get(t.Context(), "k")
		if err == nil {
			_, err = c.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
		}
		if err == nil {
			_, err = c.Defragment(t.Context(), c.Endpoints()[0])
		}
		if err != nil {
			t.Fatalf("compaction = %v, want nil", err)
		}
	}
	r := acquire(t, b, request("k"))
	compact()
	if err := b.Checkpoint(t.Context(), r.Holder(), backend.Checkpoint{Sequence: 1, Point: "p", State: []byte("s")}); err != nil {
		t.Fatalf("Checkpoint(after a compaction) = %v, want nil", err)
	}
	compact()
	if err := b.Renew(t.Context(), r.Holder(), r.Lease); err != nil {
		t.Fatalf("Renew(after a compaction) = %v, want nil", err)
	}
	done := backend.Completion{Sequence: 2, Response: backend.Response{Body: []byte("done")}}
	if err := b.Complete(t.Context(), r.Holder(), done); err != nil {
		t.Fatalf("Complete(after a compaction) = %v, want nil", err)
	}
	compact()
	got, err := b.Claim(t.Context(), request("k"))
	if err != nil || got.Acquired || string(got.Record.Response.Body) != "done" {
		t.Errorf("Claim(after a compaction) = %+v, %v, want the replay", got, err)
	}
}

func findings(t *testing.T, b backend.Backend) map[string]backend.Severity {
	t.Helper()
	d, err := b.Describe(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatalf("Describe = %v, want nil", err)
	}
	found := make(map[string]backend.Severity)
	for _, f := range d.Findings {
		found[f.ID] = f.Severity
		if f.Text == "" || f.Advice == "" {
			t.Errorf("finding %s lacks text or advice", f.ID)
		}
	}
	return found
}
