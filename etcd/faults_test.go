package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/etcd"
)

// holderWrite is a write of a holder and what stands after it.
type holderWrite struct {
	name string
	do   func(ctx context.Context, b *etcd.Backend, c backend.Claim, r backend.Record) error
	is   func(r backend.Record, err error) bool
}

func holderWrites() []holderWrite {
	return []holderWrite{
		{
			"Claim", // the same one again
			func(ctx context.Context, b *etcd.Backend, c backend.Claim, _ backend.Record) error {
				got, err := b.Claim(ctx, c)
				if err == nil && (!got.Acquired || got.Record.Attempt != 1) {
					return errors.New("not acquired, or not as the first time")
				}
				return err
			},
			func(r backend.Record, err error) bool {
				return err == nil && r.Status == backend.Started && r.Attempt == 1
			},
		},
		{
			"Checkpoint",
			func(ctx context.Context, b *etcd.Backend, _ backend.Claim, r backend.Record) error {
				return b.Checkpoint(ctx, r.Holder(), backend.Checkpoint{Sequence: 1, Point: "p", State: []byte("s")})
			},
			func(r backend.Record, err error) bool { return err == nil && r.RecoveryPoint == "p" && r.Sequence == 1 },
		},
		{
			"Complete",
			func(ctx context.Context, b *etcd.Backend, _ backend.Claim, r backend.Record) error {
				return b.Complete(ctx, r.Holder(), completion("done"))
			},
			func(r backend.Record, err error) bool { return err == nil && string(r.Response.Body) == "done" },
		},
		{
			"Renew",
			func(ctx context.Context, b *etcd.Backend, _ backend.Claim, r backend.Record) error {
				return b.Renew(ctx, r.Holder(), time.Hour)
			},
			func(r backend.Record, err error) bool { return err == nil && r.LeaseLeft > time.Minute },
		},
		{
			"Release",
			func(ctx context.Context, b *etcd.Backend, _ backend.Claim, r backend.Record) error {
				return b.Release(ctx, r.Holder())
			},
			func(_ backend.Record, err error) bool { return errors.Is(err, backend.ErrNotFound) },
		},
	}
}

// prepared is the claim of a key and its record, which isn't there yet for Claim.
func prepared(t *testing.T, b *etcd.Backend, what string) (backend.Claim, backend.Record) {
	t.Helper()
	c := request(what)
	if what == "Claim" {
		return c, backend.Record{}
	}
	return c, acquire(t, b, c)
}

var errLost = status.Error(codes.Unavailable, "error reading from server: EOF")

// E-3, X-etcd-reply-lost, field report 26: a write whose reply is lost, or that never arrived, has an open outcome, and can
// be sent again.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(send func() error) error{
		"reply lost": func(send func() error) error {
			if err := send(); err != nil {
				return err
			}
			return errLost
		},
		"never sent": func(func() error) error { return errLost },
	} {
		for _, w := range holderWrites() {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				b, wire := wired(t)
				c, r := prepared(t, b, w.name)
				wire.onNextWrite(fault)
				if err := w.do(t.Context(), b, c, r); err == nil || backend.NotApplied(err) {
					t.Errorf("%s(%s) = %v, want an error that leaves it open", w.name, name, err)
				}
				if err := w.do(t.Context(), b, c, r); err != nil {
					t.Errorf("%s(again) = %v, want nil", w.name, err)
				}
				if got, err := b.Get(t.Context(), c.Key); !w.is(got, err) {
					t.Errorf("Get after %s = %+v, %v, want it done once", w.name, got, err)
				}
			})
		}
	}
}

// The client sends a Txn again that was answered by a deadline of somebody else's:
// the second one meets the first. So does the answer that the space has run out, given
// to the very Txn that used it up.
func TestAppliedInSpiteOfTheAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"deadline": status.Error(codes.DeadlineExceeded, "a proxy's deadline"),
		"canceled": status.Error(codes.Canceled, "a proxy's"),
		"no space": rpctypes.ErrGRPCNoSpace,
	} {
		for _, w := range holderWrites() {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				b, wire := wired(t)
				c, r := prepared(t, b, w.name)
				wire.onNextWrite(func(send func() error) error {
					if err := send(); err != nil {
						return err
					}
					return answer
				})
				if err := w.do(t.Context(), b, c, r); err != nil {
					t.Errorf("%s(applied, answered by %v) = %v, want nil", w.name, answer, err)
				}
				if got, err := b.Get(t.Context(), c.Key); !w.is(got, err) {
					t.Errorf("Get after %s = %+v, %v, want it done once", w.name, got, err)
				}
			})
		}
	}
}

// A write that arrives long after its caller gave up, when others have been there,
// changes nothing (hard case 2).
func TestLateWrites(t *testing.T) {
	t.Parallel()
	for _, w := range holderWrites() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			b, wire := wired(t)
			c, r := prepared(t, b, w.name)
			stuck := make(chan func() error, 1)
			wire.onNextWrite(func(send func() error) error {
				stuck <- send
				return errLost
			})
			if err := w.do(t.Context(), b, c, r); backend.NotApplied(err) {
				t.Errorf("%s(stuck) = %v, want an error that leaves it open", w.name, err)
			}
			if w.name == "Claim" {
				r = acquire(t, b, request(c.Key.Value))
			}
			if err := b.Checkpoint(t.Context(), r.Holder(), backend.Checkpoint{Sequence: 2, Point: "second"}); err != nil {
				t.Fatalf("Checkpoint = %v, want nil", err)
			}
			want, err := b.Get(t.Context(), c.Key)
			if err != nil {
				t.Fatal(err)
			}
			if err := (<-stuck)(); err != nil {
				t.Fatalf("the late write = %v, want an answer", err)
			}
			got, err := b.Get(t.Context(), c.Key)
			if err != nil || got.ClaimID != want.ClaimID || got.RecoveryPoint != "second" || got.Status != backend.Started || !got.LockedUntil.Equal(want.LockedUntil) {
				t.Errorf("Get after the late write = %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// A claim that arrives after another one has come, run and completed starts nothing:
// where there was no record there is none again, but the completed one.
func TestLateClaimOfACompletedKey(t *testing.T) {
	t.Parallel()
	b, wire := wired(t)
	stuck := make(chan func() error, 1)
	wire.onNextWrite(func(send func() error) error {
		stuck <- send
		return errLost
	})
	if _, err := b.Claim(t.Context(), request("k")); backend.NotApplied(err) {
		t.Errorf("Claim(stuck) = %v, want an error that leaves it open", err)
	}
	complete(t, b, acquire(t, b, request("k")), "done")
	if err := (<-stuck)(); err != nil {
		t.Fatalf("the late claim = %v, want an answer", err)
	}
	got, err := b.Claim(t.Context(), request("k"))
	if err != nil || got.Acquired || string(got.Record.Response.Body) != "done" {
		t.Errorf("Claim(after the late one) = %+v, %v, want the replay", got, err)
	}
}

// What a process remembers of its claim is no more than a guess: others write for the
// same claim, too.
func TestOtherProcessesOfAClaim(t *testing.T) {
	t.Parallel()
	b, c, srv := fresh(t)
	other := newBackend(t, c, etcd.WithPrefix(srv.Prefix))
	l := acquire(t, b, request("k")).Holder()
	point := func(b *etcd.Backend, seq backend.Sequence, name string) error {
		return b.Checkpoint(t.Context(), l, backend.Checkpoint{Sequence: seq, Point: name})
	}
	for _, step := range []struct {
		b    *etcd.Backend
		seq  backend.Sequence
		name string
		want error
	}{
		{b, 1, "first", nil},
		{other, 2, "second", nil},
		{b, 1, "late", nil},
		{b, 2, "not the second", backend.ErrConflict},
		{b, 3, "third", nil},
		{other, 3, "not the third", backend.ErrConflict},
	} {
		if err := point(step.b, step.seq, step.name); !errors.Is(err, step.want) {
			t.Errorf("Checkpoint(%d, %q) = %v, want %v", step.seq, step.name, err, step.want)
		}
	}
	if r, err := b.Get(t.Context(), l.Key); err != nil || r.RecoveryPoint != "third" || r.Sequence != 3 {
		t.Errorf("Get = %q at %d, %v, want \"third\" at 3", r.RecoveryPoint, r.Sequence, err)
	}
	if err := other.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := b.Complete(t.Context(), l, backend.Completion{Sequence: 4}); !errors.Is(err, backend.ErrLeaseLost) {
		t.Errorf("Complete(released by another process) = %v, want ErrLeaseLost", err)
	}
}
