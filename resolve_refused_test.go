package idem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

var theKey = backend.Key{Tenant: "shop", Actor: "ada", Value: "key-0001"}

// lapsedWithout leaves a record that died before its first recovery point, of an
// operation that refuses takeovers.
func lapsedWithout(t *testing.T, b backend.Backend, clock *memory.Clock) *idem.Executor {
	t.Helper()
	e := newExecutor(t, b, idem.WithTakeover(func(string) bool { return false }))
	leave(t, e, "key-0001", "")
	clock.Advance(idem.DefaultLease)
	return e
}

// Hard case 29: a resolution that the record does not wait for leaves a request that
// died before its first recovery point as it is. Let go of, it would run again.
func TestResolveNotWithoutRecoveryPoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r    idem.Resolution
		want error
	}{
		"of a step":                {idem.CallDone("charge", "ch_1"), idem.ErrConflict},
		"of a step that never was": {idem.CallNever("charge"), idem.ErrConflict},
		"of no step":               {idem.CallNever(""), idem.ErrInvalid},
		"done, of no step":         {idem.CallDone("", "x"), idem.ErrInvalid},
		"nothing said":             {idem.Resolution{}, idem.ErrInvalid},
		"no JSON":                  {idem.Answered(func() {}), idem.ErrInvalid},
		"no HTTP answer":           {idem.Answered(idem.Response{Status: -1}), idem.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := memory.NewClock(time.Now())
			m := memory.New(memory.WithClock(clock))
			e := lapsedWithout(t, m, clock)
			before, err := m.Get(t.Context(), theKey)
			if err != nil {
				t.Fatal(err)
			}
			wantError(t, "Resolve", e.Resolve(t.Context(), request("").Scope, "key-0001", c.r), c.want)
			if after, err := m.Get(t.Context(), theKey); err != nil || after.Token != before.Token || after.Attempt != 1 {
				t.Errorf("the record is %+v, %v, want it as it was", after, err)
			}
			_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
			wantError(t, "Do", err, idem.ErrNeedsResolution)
		})
	}
}

// A resolution that an abandoned record does not wait for leaves it abandoned.
func TestResolveNotAbandoned(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	m, s, far := memory.New(memory.WithClock(clock)), newSteps(), &farSide{reply: []error{errBoom}}
	e := phased(t, m)
	_, err := idem.Do(t.Context(), e, request("key-0001"), calling(s, idem.Foreign[string]{Do: far.do}))
	wantError(t, "Do", err, idem.ErrUnknownOutcome)
	clock.Advance(2 * idem.DefaultAbandon)
	if _, err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantError(t, "Resolve", e.Resolve(t.Context(), request("").Scope, "key-0001", idem.CallNever("ship")), idem.ErrConflict)
	_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
	wantError(t, "Do", err, idem.ErrNeedsResolution)
}

// The record moved on after Resolve had looked at it: what a person found out about the
// old one is not put into the new one.
func TestResolveMovedOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(ctx context.Context, m *memory.Backend, clock *memory.Clock, c backend.Claim) error
		attempt   int // of the record after all
	}{
		"gone": {func(ctx context.Context, m *memory.Backend, _ *memory.Clock, c backend.Claim) error {
			c.ID[0]++
			got, err := m.Claim(ctx, c)
			return errors.Join(err, m.Release(ctx, got.Record.Holder()))
		}, 0},
		"run again": {func(ctx context.Context, m *memory.Backend, clock *memory.Clock, c backend.Claim) error {
			c.ID[0]++
			_, err := m.Claim(ctx, c)
			clock.Advance(c.Lease)
			return err
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := memory.NewClock(time.Now())
			m := memory.New(memory.WithClock(clock))
			f := &faulty{Backend: m}
			e := lapsedWithout(t, f, clock)
			f.claim = func(ctx context.Context, cl backend.Claim) (backend.Claimed, error) {
				if err := c.meanwhile(ctx, m, clock, cl); err != nil {
					t.Error(err)
				}
				return m.Claim(ctx, cl)
			}
			wantError(t, "Resolve", e.Resolve(t.Context(), request("").Scope, "key-0001", idem.Answered("by hand")), idem.ErrConflict)
			r, err := m.Get(t.Context(), theKey)
			if c.attempt == 0 {
				wantError(t, "Get", err, idem.ErrNotFound)
			} else if err != nil || r.Status != backend.Started || r.Attempt != c.attempt {
				t.Errorf("Get = %+v, %v, want the record of somebody else's run", r, err)
			}
		})
	}
}

// A completed record whose retention is over is no request that could be answered.
func TestResolveExpired(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	e := newExecutor(t, memory.New(memory.WithClock(clock)))
	if _, err := idem.Do(t.Context(), e, request("key-0001"), returns("its own")); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * idem.DefaultRetention)
	wantError(t, "Resolve", e.Resolve(t.Context(), request("").Scope, "key-0001", idem.Answered("by hand")), idem.ErrConflict)
	res, err := idem.Do(t.Context(), e, request("key-0001"), returns("a new one"))
	if err != nil || res.Value != "a new one" {
		t.Errorf("Do = %+v, %v, want a run of its own", res, err)
	}
}

// The reply to a claim that took over is lost for good. The owner lets go of what it
// may hold, but a request that died before its first recovery point is not forgotten.
func TestClaimReplyLostKeepsTheDead(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	m := memory.New(memory.WithClock(clock))
	f := &faulty{Backend: m}
	e := lapsedWithout(t, f, clock)
	f.claim = func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
		_, _ = m.Claim(ctx, c)
		return backend.Claimed{}, errLost
	}
	wantError(t, "Resolve", e.Resolve(t.Context(), request("").Scope, "key-0001", idem.Answered("by hand")), idem.ErrUnavailable)
	f.claim = nil
	if err := e.Close(t.Context()); err != nil { // what was left to do is done
		t.Fatal(err)
	}
	clock.Advance(idem.DefaultLease)
	_, err := idem.Do(t.Context(), newExecutor(t, m, idem.WithTakeover(func(string) bool { return false })), request("key-0001"), never(t))
	wantError(t, "Do", err, idem.ErrNeedsResolution)
}
