package etcd_test

import (
	"errors"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
	"github.com/idem-go/idem/internal/testenv"
)

// E-5: an election begins every lease anew. A run that died is resumed later than its
// lease says, never earlier, at its recovery point; the rest of its lease grows back.
func TestElectionStretchesLeases(t *testing.T) {
	t.Parallel()
	cl := testenv.EtcdThree(t)
	b := newBackend(t, connectTo(t, cl.Endpoints))
	const lease = 6 * time.Second
	c := request("k")
	c.Lease = lease
	sent := time.Now()
	held := acquire(t, b, c)
	if err := b.Checkpoint(t.Context(), held.Holder(), backend.Checkpoint{Sequence: 1, Point: "p", State: []byte("s")}); err != nil {
		t.Fatal(err)
	}
	left := func() (left time.Duration, ok bool) {
		r, err := b.Get(t.Context(), c.Key)
		return r.LeaseLeft, err == nil
	}
	before := lease
	eventually(t, "half of the lease is over", func() bool {
		now, ok := left()
		if ok {
			before = now
		}
		return ok && now <= lease/2
	})
	killed := time.Now()
	cl.Leader(t).Kill(t)
	cl.Leader(t)
	var after time.Duration
	eventually(t, "the others answer", func() (ok bool) {
		after, ok = left()
		return ok
	})
	answered := time.Since(killed)
	// Without a new beginning it would end what was left after the kill; etcd counts
	// whole seconds.
	if after+answered < before+time.Second {
		t.Errorf("%v of the lease are left %v after the kill of the leader, %v before it, want more", after, answered, before)
	}
	var next backend.Record
	eventually(t, "another claim acquires", func() bool {
		got, err := b.Claim(t.Context(), request("k"))
		next = got.Record
		return err == nil && got.Acquired
	})
	took := time.Since(sent)
	t.Logf("a lease of %v, with its leader killed after half of it: no answer for %v, %v left before and %v after, ended after %v",
		lease, answered.Round(time.Millisecond), before, after, took.Round(time.Millisecond))
	if took < lease-lease/100 || next.RecoveryPoint != "p" || string(next.State) != "s" || next.Attempt != 2 || next.Token <= held.Token {
		t.Errorf("taken over after %v as attempt %d at %q, want not before %v as attempt 2 at \"p\"", took, next.Attempt, next.RecoveryPoint, lease)
	}
	if err := b.Complete(t.Context(), held.Holder(), completion("late")); !errors.Is(err, backend.ErrLeaseLost) {
		t.Errorf("Complete(taken over) = %v, want ErrLeaseLost", err)
	}
}

// E-10, E-11: a member that is cut off from the majority answers nothing, rather than
// what was so when it last heard; a wait can't be told of anything there and
// says so. Nothing that was acknowledged is lost.
func TestMinorityAnswersNothing(t *testing.T) {
	t.Parallel()
	cl := testenv.EtcdThree(t)
	b := newBackend(t, connectTo(t, cl.Endpoints))
	held := acquire(t, b, request("held"))
	complete(t, b, acquire(t, b, request("done")), "done")
	if d, err := b.Describe(t.Context()); err != nil || !d.Capabilities.DurableFailover {
		t.Errorf("Describe(three members) = %+v, %v, want it to survive the loss of one", d.Capabilities, err)
	}
	if found := findings(t, b); found["etcd/members"] != "" {
		t.Errorf("Describe(three members): findings = %v, want no etcd/members", found)
	}
	w := new(wire)
	last := newBackend(t, connectTo(t, cl.Members[0].Endpoints, w.config), etcd.WithTimeout(2*time.Second))
	told := awaiting(t.Context(), last, held.Key)
	watched(t, w)
	for _, m := range cl.Members[1:] {
		m.Kill(t)
	}
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	select {
	case err := <-told:
		if !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("Await(no majority) = %v, want ErrUnavailable", err)
		}
	case <-limit.C:
		t.Error("Await(no majority) still waits after 20 s")
	}
	if r, err := last.Get(t.Context(), held.Key); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Get(no majority) = %+v, %v, want ErrUnavailable", r, err)
	}
	if got, err := last.Claim(t.Context(), request("done")); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("Claim(completed, no majority) = %+v, %v, want ErrUnavailable", got, err)
	}
	for _, m := range cl.Members[1:] {
		m.Start(t)
	}
	cl.Leader(t)
	eventually(t, "the replay is back", func() bool {
		got, err := last.Claim(t.Context(), request("done"))
		return err == nil && !got.Acquired && string(got.Record.Response.Body) == "done"
	})
	complete(t, b, held, "held")
}
