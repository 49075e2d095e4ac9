package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// wantExpired checks that a call was told that its result expired.
func wantExpired(t *testing.T, call string, err error, status int) {
	t.Helper()
	var ts *idem.TombstoneError
	if !errors.Is(err, idem.ErrTombstone) || !errors.As(err, &ts) {
		t.Errorf("%s = %v, want a TombstoneError", call, err)
		return
	}
	if want := (backend.Response{Tombstone: backend.Expired, Status: status}); !ts.Response.Equal(want) {
		t.Errorf("%s: response = %+v, want %+v", call, ts.Response, want)
	}
	if !strings.Contains(err.Error(), "the result expired") {
		t.Errorf("%s = %q, want it to say that the result expired", call, err)
	}
}

// A retry that comes after the retention is told so, at the exact moment, and runs
// nothing until the record is remembered no more.
func TestRemember(t *testing.T) {
	t.Parallel()
	for _, swept := range []bool{false, true} {
		clock := memory.NewClock(time.Now())
		m := memory.New(memory.WithClock(clock))
		ev := &events{}
		e := newExecutor(t, m, idem.WithRetention(time.Hour), idem.WithRemember(30*24*time.Hour), idem.WithObserver(ev.observe))
		answer := idem.Response{Status: 201, Header: []byte("Location: /1"), Body: []byte("done")}
		first, err := idem.Do(t.Context(), e, request("key-0001"), returns(answer))
		if err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Hour - 1)
		again := func(context.Context, *idem.Run) (idem.Response, error) {
			t.Error("the effect ran again")
			return answer, nil
		}
		res, err := idem.Do(t.Context(), e, request("key-0001"), again)
		if err != nil || !res.Replayed || !res.Value.Equal(first.Value) {
			t.Errorf("Do in the retention = %+v, %v, want the answer", res, err)
		}
		clock.Advance(1)
		if swept {
			clock.Advance(idem.DefaultLease) // sweeps may be that much later
			if n, err := e.Sweep(t.Context()); n != 1 || err != nil {
				t.Errorf("Sweep = %d, %v, want 1", n, err)
			}
		}
		for range 2 {
			_, err := idem.Do(t.Context(), e, request("key-0001"), again)
			wantExpired(t, "Do after the retention", err, 201)
		}
		other := request("key-0001")
		other.Path = "/refunds"
		_, err = idem.Do(t.Context(), e, other, again)
		wantError(t, "Do of another request after the retention", err, idem.ErrMismatch)
		wantError(t, "Resolve", e.Resolve(t.Context(), other.Scope, other.Key, idem.Answered("by hand")), idem.ErrConflict)

		clock.Advance(30 * 24 * time.Hour)
		res, err = idem.Do(t.Context(), e, request("key-0001"), returns(answer))
		if err != nil || res.Replayed {
			t.Errorf("Do when nothing is remembered = %+v, %v, want a run", res, err)
		}
		if swept {
			ev.want(t, "acquired", "replayed", "swept of ", "replayed", "replayed", "mismatch", "acquired")
		} else {
			ev.want(t, "acquired", "replayed", "replayed", "replayed", "mismatch", "acquired")
		}
	}
}

// The tombstone of an answer that was too large expires like an answer, and its header
// with it.
func TestRememberTombstone(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	e := newExecutor(t, memory.New(memory.WithClock(clock)), idem.WithRemember(time.Hour), idem.WithMaxResponse(12))
	big := idem.Response{Status: 201, Header: []byte("Location: /1"), Body: []byte("large")}
	if _, err := idem.Do(t.Context(), e, request("key-0001"), returns(big)); err != nil {
		t.Fatal(err)
	}
	clock.Advance(idem.DefaultRetention)
	_, err := idem.Do(t.Context(), e, request("key-0001"), returns(big))
	wantExpired(t, "Do", err, 201)
}

// A record that a person resolved is remembered for as long as its request said.
func TestRememberResolved(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	m := memory.New(memory.WithClock(clock))
	e := newExecutor(t, m, idem.WithRemember(time.Hour), idem.WithTakeover(func(string) bool { return false }))
	c := backend.Claim{}
	f := &faulty{Backend: m, claim: func(ctx context.Context, cl backend.Claim) (backend.Claimed, error) {
		c = cl
		return m.Claim(ctx, cl)
	}}
	dies := newExecutor(t, f, idem.WithRemember(time.Hour))
	f.complete = func(context.Context, backend.Lease, backend.Completion) error { return errLost }
	_, _ = idem.Do(t.Context(), dies, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
		return "", idem.MaybeDone(errLost)
	})
	if c.Remember != time.Hour {
		t.Fatalf("Claim.Remember = %v, want 1h", c.Remember)
	}
	clock.Advance(idem.DefaultLease)
	if err := e.Resolve(t.Context(), request("").Scope, "key-0001", idem.Answered("by hand")); err != nil {
		t.Fatalf("Resolve = %v", err)
	}
	clock.Advance(idem.DefaultRetention)
	_, err := idem.Do(t.Context(), e, request("key-0001"), never(t))
	wantExpired(t, "Do", err, 0)
}

// The transaction path, and the one in the caller's own transaction.
func TestTxRemember(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b, idem.WithLease(2*time.Second), idem.WithRetention(2*time.Second), idem.WithRemember(time.Hour))
	if _, err := idem.DoTx(t.Context(), e, request("key-0001"), charge("done", nil)); err != nil {
		t.Fatal(err)
	}
	deadline, tick := time.Now().Add(time.Minute), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	again := func() error {
		_, err := idem.DoTx(t.Context(), e, request("key-0001"), neverTx(t))
		return err
	}
	err := again()
	for ; err == nil && time.Now().Before(deadline); err = again() { // until the store says that the retention is over
		<-tick.C
	}
	wantExpired(t, "DoTx after the retention", err, 0)
	doIn := func() error {
		tx, err := b.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		_, err = idem.DoIn(t.Context(), e, tx, request("key-0001"), func(context.Context, *sql.Tx) (string, error) {
			t.Error("the effect ran")
			return "", nil
		})
		return err
	}
	wantExpired(t, "DoIn after the retention", doIn(), 0)
	for n := 0; n == 0; {
		<-tick.C
		if n, err = e.Sweep(t.Context()); err != nil || time.Now().After(deadline) {
			t.Fatalf("Sweep = %d, %v, want the answer taken", n, err)
		}
	}
	wantExpired(t, "DoIn after a sweep", doIn(), 0)
	wantExpired(t, "DoTx after a sweep", again(), 0)
	b.wantCharges(t, 1)
}
