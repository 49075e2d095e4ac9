package etcd_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
)

// E-1: a token is the revision of its claim's Txn, and revisions grow over all keys, also
// over a record that was deleted.
func TestTokensAreRevisions(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	last := int64(0)
	for range 3 {
		r := acquire(t, b, request("k"))
		kv := stored(t, c, srv.Prefix+"started/tenant\x00actor\x00k")
		if int64(r.Token) != kv.ModRevision || int64(r.Token) != kv.CreateRevision || int64(r.Token) <= last {
			t.Errorf("token = %d, want the revision of the record, %d, and more than %d", r.Token, kv.ModRevision, last)
		}
		last = int64(r.Token)
		if err := b.Release(t.Context(), r.Holder()); err != nil {
			t.Fatal(err)
		}
	}
}

// stored is a key as it stands.
func stored(t *testing.T, c *clientv3.Client, key string) *mvccpb.KeyValue {
	t.Helper()
	got, err := c.Get(t.Context(), key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("Get(%q) = %v, %v, want the key", key, got, err)
	}
	return got.Kvs[0]
}

// zombieWrites are what a holder can do whose claim is over.
func zombieWrites(b *etcd.Backend, l backend.Lease) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Renew": func(ctx context.Context) error { return b.Renew(ctx, l, time.Hour) },
		"Checkpoint": func(ctx context.Context) error {
			return b.Checkpoint(ctx, l, backend.Checkpoint{Sequence: 9, Point: "z"})
		},
		"Complete": func(ctx context.Context) error { return b.Complete(ctx, l, backend.Completion{Sequence: 9}) },
	}
}

// refused checks that no write of a holder is taken, and nothing changes.
func refused(t *testing.T, who string, b *etcd.Backend, l backend.Lease) {
	t.Helper()
	before, err := b.Get(t.Context(), l.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range zombieWrites(b, l) {
		if err := write(t.Context()); !errors.Is(err, backend.ErrLeaseLost) {
			t.Errorf("%s(%s) = %v, want ErrLeaseLost", name, who, err)
		}
	}
	if err := b.Release(t.Context(), l); err != nil && !errors.Is(err, backend.ErrLeaseLost) {
		t.Errorf("Release(%s) = %v, want nil or ErrLeaseLost", who, err)
	}
	after, err := b.Get(t.Context(), l.Key)
	if err != nil || after.ClaimID != before.ClaimID || after.Token != before.Token || after.Sequence != before.Sequence ||
		after.Status != before.Status || !after.UpdatedAt.Equal(before.UpdatedAt) {
		t.Errorf("Get after the writes of %s = %+v, %v, want %+v", who, after, err, before)
	}
}

// E-2, field report 26: a lease is no mutual exclusion. What counts is whose the
// record is, and its revision: an old holder is refused even if the lock is bound to its own
// etcd lease, which is alive, and one whose lock is gone may write until somebody
// took over.
func TestALeaseIsNoMutualExclusion(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	lock := srv.Prefix + "lock/tenant\x00actor\x00k"
	first := acquire(t, b, request("k"))
	its := stored(t, c, lock).Lease
	if _, err := c.Delete(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if err := b.Checkpoint(t.Context(), first.Holder(), backend.Checkpoint{Sequence: 1, Point: "p"}); err != nil {
		t.Errorf("Checkpoint(lapsed, not taken over) = %v, want nil", err)
	}
	second := acquire(t, b, request("k"))
	if _, err := c.Put(t.Context(), lock, "60", clientv3.WithLease(clientv3.LeaseID(its))); err != nil {
		t.Fatal(err)
	}
	refused(t, "the old holder, with the lock", b, first.Holder())
	if err := b.Complete(t.Context(), second.Holder(), completion("second")); err != nil {
		t.Errorf("Complete(the new holder, without the lock) = %v, want nil", err)
	}
	refused(t, "the old holder of a completed key", b, first.Holder())
}

// E-3, X-etcd-proxy-deadline: a Txn that was answered by a deadline or a
// cancellation that is not the caller's is sent again by the client, up to a hundred
// times. Each arrives; one is applied.
func TestProxyAnswersDeadlineExceeded(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	p := newGRPCProxy(t, srv)
	prefix := etcd.WithPrefix(srv.Prefix)
	for name, answer := range map[string]error{
		"deadline": status.Error(codes.DeadlineExceeded, "of the proxy"), "canceled": status.Error(codes.Canceled, "by the proxy"),
	} {
		for _, w := range holderWrites() {
			if w.name == "Renew" { // a stream, which the client does not repeat
				continue
			}
			t.Run(name+"/"+w.name, func(t *testing.T) {
				claim := request(name + w.name)
				var r backend.Record
				if w.name != "Claim" {
					r = acquire(t, b, claim)
				}
				through := newBackend(t, p.client(t), prefix)
				n := 0
				p.answers(func(req any) error {
					if n++; !writing(req) || n > 6 {
						return nil
					}
					return answer
				})
				if err := w.do(t.Context(), through, claim, r); err != nil {
					t.Errorf("%s = %v, want nil", w.name, err)
				}
				if txns, _ := p.passedOn(); txns < 3 {
					t.Errorf("the Txn of %s came %d times, want it repeated by the client", w.name, txns)
				}
				if got, err := b.Get(t.Context(), claim.Key); !w.is(got, err) {
					t.Errorf("Get after %s = %+v, %v, want it done once", w.name, got, err)
				}
			})
		}
	}

	// One that never gives another answer: open for as long as the caller waits, here
	// until the client has sent the Txn five times, and done once.
	claim, n := request("always"), 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.answers(func(req any) error {
		if !writing(req) {
			return nil
		}
		if n++; n == 5 {
			cancel()
		}
		return status.Error(codes.DeadlineExceeded, "of the proxy")
	})
	_, err := newBackend(t, p.client(t), prefix).Claim(ctx, claim)
	if txns, _ := p.passedOn(); err == nil || backend.NotApplied(err) || txns < 5 {
		t.Errorf("Claim(always answered by a deadline) = %v after %d times, want an error after 5 that leaves it open", err, txns)
	}
	got, err := b.Claim(t.Context(), claim)
	if err != nil || !got.Acquired || got.Record.Attempt != 1 || got.Record.Token != backend.Token(stored(t, c, srv.Prefix+"started/tenant\x00actor\x00always").CreateRevision) {
		t.Errorf("Claim(again) = %+v, %v, want the claim that was made first", got, err)
	}
}

// E-3: what a client with MaxUnaryRetries 1 sends once is as open, and sooner so.
func TestProxyAnswersDeadlineExceededOnce(t *testing.T) {
	t.Parallel()
	_, _, srv := fresh(t)
	p := newGRPCProxy(t, srv)
	p.answers(func(req any) error {
		if !writing(req) {
			return nil
		}
		return status.Error(codes.DeadlineExceeded, "of the proxy")
	})
	b := newBackend(t, p.client(t, func(c *clientv3.Config) { c.MaxUnaryRetries = 1 }), etcd.WithPrefix(srv.Prefix))
	if _, err := b.Claim(t.Context(), request("k")); err == nil || backend.NotApplied(err) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim(MaxUnaryRetries 1) = %v, want the proxy's answer, which leaves it open", err)
	}
	if txns, _ := p.passedOn(); txns != 1 {
		t.Errorf("the Txn came %d times with MaxUnaryRetries 1, want once", txns)
	}
}

// E-3: a grant whose answer was lost is sent again, and leaves an etcd lease behind that
// nothing is bound to. The claim doesn't mind.
func TestOrphanLeases(t *testing.T) {
	t.Parallel()
	_, c, srv := fresh(t)
	p := newGRPCProxy(t, srv)
	n := 0
	p.answers(func(req any) error {
		if _, grant := req.(*etcdserverpb.LeaseGrantRequest); !grant || n == 3 {
			return nil
		}
		n++
		return status.Error(codes.Unavailable, "transport is closing")
	})
	b := newBackend(t, p.client(t), etcd.WithPrefix(srv.Prefix))
	r := acquire(t, b, brief("k"))
	if _, grants := p.passedOn(); grants != 4 {
		t.Errorf("the lease was granted %d times, want 4: three answers were lost", grants)
	}
	if ttl, err := c.TimeToLive(t.Context(), clientv3.LeaseID(stored(t, c, srv.Prefix+"lock/tenant\x00actor\x00k").Lease)); err != nil || ttl.TTL > int64(r.Lease/time.Second) {
		t.Errorf("the lock's lease = %+v, %v, want what was granted, %v", ttl, err, r.Lease)
	}
	lapse(t, b, r.Key)
}

// E-4: no Txn knows the time. The record and its payload are bound to no lease; the lock
// is, and a completion takes the lock away and binds the record to its retention.
func TestWhatIsBoundToALease(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	at := func(part string) string { return srv.Prefix + part + "/tenant\x00actor\x00k" }
	claim := request("k")
	claim.Payload = []byte("payload")
	r := acquire(t, b, claim)
	for part, bound := range map[string]bool{"started": false, "payload": false, "lock": true} {
		if got := stored(t, c, at(part)).Lease != 0; got != bound {
			t.Errorf("%s of a started record: bound to a lease = %v, want %v", part, got, bound)
		}
	}
	its := stored(t, c, at("lock")).Lease
	complete(t, b, r, "done")
	if got := stored(t, c, at("completed")).Lease; got == 0 || got == its {
		t.Errorf("the completed record is bound to lease %d, want one of its retention, not the claim's (%d)", got, its)
	}
	got, err := c.Get(t.Context(), srv.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || len(got.Kvs) != 1 {
		t.Errorf("%d keys after the completion, %v, want the record alone", len(got.Kvs), err)
	}
}

// E-10: every read is linearizable: none is answered by a member that may be behind.
func TestReadsAreLinearizable(t *testing.T) {
	t.Parallel()
	w := new(wire)
	b, _, _ := fresh(t, w.config)
	reads, serializable := 0, 0
	look := func(r *etcdserverpb.RangeRequest) {
		if r != nil {
			reads++
			if r.Serializable {
				serializable++
			}
		}
	}
	w.set(func(_ string, req any, send func() error) error {
		switch r := req.(type) {
		case *etcdserverpb.RangeRequest:
			look(r)
		case *etcdserverpb.TxnRequest:
			for _, op := range append(r.Success, r.Failure...) {
				look(op.GetRequestRange())
			}
		}
		return send()
	})
	for i, w := range holderWrites() {
		claim, r := prepared(t, b, w.name)
		if err := w.do(t.Context(), b, claim, r); err != nil {
			t.Fatalf("%d: %s = %v, want nil", i, w.name, err)
		}
		_, _ = b.Get(t.Context(), claim.Key)
	}
	acquire(t, b, request("k"))
	if _, err := b.Claim(t.Context(), request("k")); err != nil {
		t.Fatal(err)
	}
	sweep(t, b, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = b.Await(ctx, request("k").Key)
	if reads == 0 || serializable > 0 {
		t.Errorf("%d of %d reads are serializable, want none of many", serializable, reads)
	}
}

// E-12: a restored snapshot takes revisions back, so that a later claim can have the
// token of an earlier one. The claim id tells them apart.
func TestTokensThatRepeat(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	old := acquire(t, b, request("k"))
	if err := b.Checkpoint(t.Context(), old.Holder(), backend.Checkpoint{Sequence: 1, Point: "p"}); err != nil { // writes the token out
		t.Fatal(err)
	}
	// What a restore and a new claim at the old revision leave.
	key := srv.Prefix + "started/tenant\x00actor\x00k"
	value, other := stored(t, c, key).Value, newID()
	text := func(id backend.ClaimID) []byte { return []byte(base64.StdEncoding.EncodeToString(id[:])) }
	forged := bytes.Replace(value, text(old.ClaimID), text(other), 1)
	if bytes.Equal(forged, value) {
		t.Fatalf("the record doesn't hold its claim id: %s", strings.ToValidUTF8(string(value), "?"))
	}
	if _, err := c.Put(t.Context(), key, string(forged)); err != nil {
		t.Fatal(err)
	}
	now, err := b.Get(t.Context(), old.Key)
	if err != nil || now.Token != old.Token || now.ClaimID != other {
		t.Fatalf("Get = token %d, %v, want the token of the old claim, %d, under another id", now.Token, err, old.Token)
	}
	refused(t, "another claim with this token", b, old.Holder())
	if err := b.Complete(t.Context(), now.Holder(), backend.Completion{Sequence: 2}); err != nil {
		t.Errorf("Complete(the new claim) = %v, want nil", err)
	}
}
