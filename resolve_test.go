package idem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// stuckCall leaves a record whose call was sent once and can't be asked about.
func stuckCall(t *testing.T) (*idem.Executor, *steps, *farSide, func(context.Context, *idem.Run) (string, error)) {
	t.Helper()
	clock := memory.NewClock(time.Now())
	m, s, far := memory.New(memory.WithClock(clock)), newSteps(), &farSide{reply: []error{errBoom}}
	e := phased(t, m)
	effect := calling(s, idem.Foreign[string]{Do: far.do, Once: true})
	_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
	wantError(t, "Do", err, idem.ErrUnknownOutcome)
	clock.Advance(idem.DefaultLease)
	_, err = idem.Do(t.Context(), e, request("key-0001"), effect)
	wantError(t, "Do(resumed)", err, idem.ErrNeedsResolution)
	far.want(t, 1)
	return e, s, far, effect
}

// Hard case 29: a person finds out, and the next attempt goes on from there.
func TestResolveCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r     idem.Resolution
		calls int
		want  string
		err   error
	}{
		"done":     {idem.CallDone("charge", "ch_1"), 1, "ch_1", nil},
		"never":    {idem.CallNever("charge"), 2, "charge of ", nil},
		"answered": {idem.Answered("by hand"), 1, "by hand", nil},
		"refused":  {idem.CallRefused("charge", "declined"), 1, "", &idem.RefusedError{Reason: "declined"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _, far, effect := stuckCall(t)
			// The person's tool knows nothing of the code.
			if err := e.Resolve(t.Context(), request("").Scope, "key-0001", c.r); err != nil {
				t.Fatalf("Resolve = %v", err)
			}
			res, err := idem.Do(t.Context(), e, request("key-0001"), effect)
			var refused *idem.RefusedError
			switch {
			case errors.As(c.err, &refused):
				if got, ok := errors.AsType[*idem.RefusedError](err); !ok || *got != *refused {
					t.Errorf("Do = %v, want %v", err, c.err)
				}
			case err != nil || !strings.HasPrefix(res.Value, c.want):
				t.Errorf("Do = %+v, %v, want %q", res, err, c.want)
			}
			far.want(t, c.calls)
		})
	}
}

// What a record does not wait for changes nothing of it.
func TestResolveNot(t *testing.T) {
	t.Parallel()
	e, _, _, effect := stuckCall(t)
	scope := request("").Scope
	for name, r := range map[string]idem.Resolution{
		"of another step": idem.CallDone("ship", "x"), "of a step that is done": idem.CallNever("create"),
		"as if nothing was done": idem.NothingDone(),
	} {
		wantError(t, "Resolve("+name+")", e.Resolve(t.Context(), scope, "key-0001", r), idem.ErrConflict)
	}
	wantError(t, "Resolve(a value that does not encode)", e.Resolve(t.Context(), scope, "key-0001", idem.CallDone("charge", func() {})), idem.ErrInvalid)
	wantError(t, "Resolve(no such record)", e.Resolve(t.Context(), scope, "key-0002", idem.NothingDone()), idem.ErrNotFound)
	wantError(t, "Resolve(no scope)", e.Resolve(t.Context(), idem.Scope{}, "key-0001", idem.NothingDone()), idem.ErrInvalid)
	_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
	wantError(t, "Do after all that", err, idem.ErrNeedsResolution)

	_, err = idem.Do(t.Context(), e, request("key-0003"), func(context.Context, *idem.Run) (string, error) {
		wantError(t, "Resolve(a run holds it)", e.Resolve(t.Context(), scope, "key-0003", idem.Answered("x")), idem.ErrInProgress)
		return "its own", nil
	})
	if err != nil {
		t.Error(err)
	}
	wantError(t, "Resolve(completed)", e.Resolve(t.Context(), scope, "key-0003", idem.Answered("x")), idem.ErrConflict)
}

// Another process holds the record: it is not taken from it.
func TestResolveHeldElsewhere(t *testing.T) {
	t.Parallel()
	m := memory.New()
	_, err := idem.Do(t.Context(), newExecutor(t, m), request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
		wantError(t, "Resolve", newExecutor(t, m).Resolve(ctx, request("").Scope, "key-0001", idem.Answered("x")), idem.ErrInProgress)
		return "", nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Hard case 29, of operations that refuse takeovers.
func TestResolveRefusedTakeover(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]idem.Resolution{"nothing done": idem.NothingDone(), "answered": idem.Answered("by hand")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := memory.NewClock(time.Now())
			m := memory.New(memory.WithClock(clock))
			e := newExecutor(t, m, idem.WithTakeover(func(string) bool { return false }))
			_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) { return "", idem.MaybeDone(errBoom) })
			wantError(t, "Do", err, errBoom)
			clock.Advance(idem.DefaultLease)
			_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
			wantError(t, "Do(lapsed)", err, idem.ErrNeedsResolution)
			if err := e.Resolve(t.Context(), request("").Scope, "key-0001", r); err != nil {
				t.Fatalf("Resolve = %v", err)
			}
			res, err := idem.Do(t.Context(), e, request("key-0001"), returns("run"))
			if want := map[bool]string{true: "by hand", false: "run"}[name == "answered"]; err != nil || res.Value != want {
				t.Errorf("Do = %+v, %v, want %q", res, err, want)
			}
		})
	}
}

// A lost result can be found again, and nothing else.
func TestResolveLostResult(t *testing.T) {
	t.Parallel()
	m, s := memory.New(), newSteps()
	effect := func(ctx context.Context, run *idem.Run) (string, error) {
		return s.phase(ctx, run, "a", strings.Repeat("x", 300))
	}
	e := phased(t, m, idem.WithMaxState(300))
	_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
	wantError(t, "Do", err, idem.ErrNeedsResolution)
	wantError(t, "Resolve(never)", e.Resolve(t.Context(), request("").Scope, "key-0001", idem.CallNever("a")), idem.ErrConflict)
	if err := e.Resolve(t.Context(), request("").Scope, "key-0001", idem.CallDone("a", "short")); err != nil {
		t.Fatal(err)
	}
	res, err := idem.Do(t.Context(), e, request("key-0001"), effect)
	if err != nil || res.Value != "short" {
		t.Errorf("Do = %+v, %v, want the result that was found", res, err)
	}
	s.want(t, "a", 1)
}

// Hard case 5: what nobody finished in its time waits for a person, who can take it up
// again or end it.
func TestResolveAbandoned(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]idem.Resolution{"done": idem.CallDone("charge", "ch_1"), "answered": idem.Answered("ch_1")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := memory.NewClock(time.Now())
			m, s, far := memory.New(memory.WithClock(clock)), newSteps(), &farSide{reply: []error{errBoom}}
			e := phased(t, m)
			effect := calling(s, idem.Foreign[string]{Do: far.do})
			_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
			wantError(t, "Do", err, idem.ErrUnknownOutcome)
			clock.Advance(2 * idem.DefaultAbandon)
			for range 2 { // the second finds a record that may not be deleted
				if _, err := e.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
			wantError(t, "Do(abandoned)", err, idem.ErrNeedsResolution)
			if err := e.Resolve(t.Context(), request("").Scope, "key-0001", r); err != nil {
				t.Fatalf("Resolve = %v", err)
			}
			res, err := idem.Do(t.Context(), e, request("key-0001"), effect)
			if err != nil || res.Value != "ch_1" {
				t.Errorf("Do = %+v, %v, want ch_1", res, err)
			}
			far.want(t, 1)
			clock.Advance(2 * idem.DefaultAbandon)
			if _, err := e.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r, err := m.Get(t.Context(), backend.Key{Tenant: "shop", Actor: "ada", Value: "key-0001"}); !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("Get after the retention = a %v record, %v, want none", r.Status, err)
			}
		})
	}
}

// A message was sent, and the process died before it knew. The operator of the far side
// says that it arrived.
func ExampleExecutor_Resolve() {
	clock := memory.NewClock(time.Now())
	ex, err := idem.New(memory.New(memory.WithClock(clock)), idem.WithPhases("1"))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	notify := func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.Call(ctx, run, "sms", idem.Foreign[string]{
			Do:   func(context.Context, string) (string, error) { return "", errors.New("connection reset") },
			Once: true,
		})
	}
	_, err = idem.Do(ctx, ex, order, notify)
	fmt.Println(errors.Is(err, idem.ErrUnknownOutcome))
	clock.Advance(idem.DefaultLease)
	_, err = idem.Do(ctx, ex, order, notify)
	fmt.Println(errors.Is(err, idem.ErrNeedsResolution))

	fmt.Println(ex.Resolve(ctx, order.Scope, order.Key, idem.CallDone("sms", "message 17")))
	res, err := idem.Do(ctx, ex, order, notify)
	fmt.Println(res.Value, err)
	// Output:
	// true
	// true
	// <nil>
	// message 17 <nil>
}
