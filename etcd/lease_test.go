package etcd_test

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/testenv"
)

// lapse waits until a lease is over.
func lapse(t *testing.T, b backend.Backend, k backend.Key) {
	t.Helper()
	eventually(t, "the lease lapses", func() bool {
		r, err := b.Get(t.Context(), k)
		return err == nil && r.LeaseLeft == 0
	})
}

// Record, recovery point and answer outlive the lease of their claim (E-5, X-etcd-expire-complete).
func TestRecordsOutliveTheirLease(t *testing.T) {
	t.Parallel()
	b, _, _ := fresh(t)
	complete(t, b, acquire(t, b, brief("done")), "done")
	resumable := acquire(t, b, brief("resumable"))
	if err := b.Checkpoint(t.Context(), resumable.Holder(), backend.Checkpoint{Sequence: 1, Point: "p", State: []byte("s")}); err != nil {
		t.Fatal(err)
	}
	last := acquire(t, b, brief("last"))
	lapse(t, b, last.Key) // claimed last, and so are the others' leases over

	got, err := b.Claim(t.Context(), request("done"))
	if err != nil || got.Acquired || string(got.Record.Response.Body) != "done" {
		t.Errorf("Claim(completed) = %+v, %v, want the replay", got, err)
	}
	if r := acquire(t, b, request("resumable")); r.RecoveryPoint != "p" || string(r.State) != "s" || r.Attempt != 2 {
		t.Errorf("Claim(lapsed) = %+v, want it resumed at p", r)
	}
}

// E-5: the lease granted is the real one, in seconds and no shorter than the server's
// minimum, also where it was asked for less.
func TestLeaseGranted(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t, "--heartbeat-interval=100", "--election-timeout=1000") // etcd's defaults
	b := newBackend(t, connect(t, srv))
	d, err := b.Describe(t.Context())
	if err != nil || d.Capabilities.MinLease != 2*time.Second || d.Capabilities.LeaseRound != time.Second {
		t.Errorf("Describe: shortest lease %v in steps of %v, %v, want 2s in steps of 1s", d.Capabilities.MinLease, d.Capabilities.LeaseRound, err)
	}
	for asked, want := range map[time.Duration]time.Duration{
		time.Millisecond: 2 * time.Second, 2 * time.Second: 2 * time.Second, 2001 * time.Millisecond: 3 * time.Second, time.Minute: time.Minute,
	} {
		c := request(asked.String())
		c.Lease = asked
		r := acquire(t, b, c)
		if r.Lease != want || r.LeaseLeft <= 0 || r.LeaseLeft > want {
			t.Errorf("Claim(%v): lease %v with %v left, want %v", asked, r.Lease, r.LeaseLeft, want)
		}
	}
}

// E-5, X-etcd-lease-restart: a restart begins every lease anew: it ends later, never earlier. What was
// acknowledged is there after a kill.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	srv := testenv.EtcdPrivate(t)
	b := newBackend(t, connect(t, srv))
	const lease, keys = 4 * time.Second, 50
	for i := range keys {
		complete(t, b, acquire(t, b, request(fmt.Sprint("done-", i))), "done")
	}
	c := request("held")
	c.Lease = lease
	sent := time.Now()
	held := acquire(t, b, c)
	eventually(t, "half of the lease is over", func() bool {
		r, err := b.Get(t.Context(), held.Key)
		return err == nil && r.LeaseLeft <= lease/2
	})
	srv.Kill(t)
	srv.Start(t)
	for i := range keys {
		got, err := b.Claim(t.Context(), request(fmt.Sprint("done-", i)))
		if err != nil || got.Acquired || string(got.Record.Response.Body) != "done" {
			t.Fatalf("Claim(completed before the kill) = %+v, %v, want the replay", got, err)
		}
	}
	var next backend.Record
	eventually(t, "another claim acquires", func() bool {
		got, err := b.Claim(t.Context(), request("held"))
		next = got.Record
		return err == nil && got.Acquired
	})
	took := time.Since(sent)
	t.Logf("a lease of %v, with a kill and a restart after half of it, ended after %v", lease, took.Round(time.Millisecond))
	if took < lease-lease/100 || next.Attempt != 2 || next.Token <= held.Token {
		t.Errorf("taken over after %v as attempt %d, want not before %v as attempt 2", took, next.Attempt, lease)
	}
	if err := b.Complete(t.Context(), held.Holder(), completion("late")); err == nil {
		t.Errorf("Complete(taken over) = nil, want ErrLeaseLost")
	}
}

// keptBy tells the etcd leases that completed records are bound to.
func keptBy(t *testing.T, c *clientv3.Client, prefix string) map[int64]int {
	t.Helper()
	got, err := c.Get(t.Context(), prefix+"completed/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	leases := make(map[int64]int)
	for _, kv := range got.Kvs {
		leases[kv.Lease]++
	}
	return leases
}

// E-8: completions share etcd leases that have at least the retention left, also those that
// come at once.
func TestRetentionIsShared(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	const keys = 40
	errs := make(chan error, keys)
	for i := range keys {
		r := acquire(t, b, request(fmt.Sprint("k-", i)))
		go func() { errs <- b.Complete(t.Context(), r.Holder(), completion("x")) }()
	}
	for range keys {
		if err := <-errs; err != nil {
			t.Errorf("Complete = %v, want nil", err)
		}
	}
	leases := keptBy(t, c, srv.Prefix)
	if len(leases) != 1 {
		t.Errorf("%d records are kept by %d leases, want 1", keys, len(leases))
	}
	for id := range leases {
		got, err := c.TimeToLive(t.Context(), clientv3.LeaseID(id))
		if err != nil || time.Duration(got.TTL)*time.Second < request("").Retention {
			t.Errorf("TimeToLive = %d, %v, want the retention at least", got.TTL, err)
		}
	}
}

// A completion that was under way for so long that its lease has less than the
// retention left is bound to another one.
func TestLateCompletionIsKeptLongEnough(t *testing.T) {
	t.Parallel()
	w := new(wire)
	b, _, srv := fresh(t, w.config)
	look := connect(t, srv)
	r := request("k")
	r.Lease, r.Retention = time.Second, 2*time.Second
	held := acquire(t, b, r)
	var first int64
	w.onNextWrite(func(send func() error) error {
		err := send()
		for id := range keptBy(t, look, srv.Prefix) {
			first = id
		}
		// Two windows of a second and the retention: 4 s in all.
		eventually(t, "less than the retention is left", func() bool {
			got, err := look.TimeToLive(t.Context(), clientv3.LeaseID(first))
			return err == nil && got.TTL < 1
		})
		return err
	})
	complete(t, b, held, "x")
	leases := keptBy(t, look, srv.Prefix)
	if first <= 0 || leases[first] != 0 || len(leases) != 1 {
		t.Errorf("the record is kept by %v after a completion with lease %d, want another lease", leases, first)
	}
}
