package idem_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

type parcel struct {
	To string `json:"to"`
}

// leave leaves a record that died with this payload.
func leave(t *testing.T, e *idem.Executor, key, payload string) {
	t.Helper()
	r := request(key)
	r.Payload = []byte(payload)
	_, err := idem.Do(t.Context(), e, r, func(context.Context, *idem.Run) (string, error) { return "", idem.MaybeDone(errBoom) })
	wantError(t, "Do", err, errBoom)
}

func completer(t *testing.T, e *idem.Executor, opts ...idem.CompleterOption) *idem.Completer {
	t.Helper()
	c, err := idem.NewCompleter(e, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handle registers the handler that ships parcels.
func handle(t *testing.T, c *idem.Completer, ship func(context.Context, *idem.Run, parcel) (string, error)) {
	t.Helper()
	if err := idem.Handle(c, request("").Operation, ship); err != nil {
		t.Fatal(err)
	}
}

func pass(t *testing.T, c *idem.Completer, want idem.Passed) {
	t.Helper()
	if got, err := c.Pass(t.Context()); err != nil || got != want {
		t.Errorf("Pass = %+v, %v, want %+v", got, err, want)
	}
}

// A run died and its client never came back: the completer ends it, and a client that
// comes back late gets the answer.
func TestCompleter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExecutor(t, memory.New())
		c := completer(t, e)
		handle(t, c, func(_ context.Context, run *idem.Run, p parcel) (string, error) {
			return fmt.Sprintf("to %s, attempt %d", p.To, run.Attempt()), nil
		})
		leave(t, e, "key-0001", `{"to":"ada"}`)
		pass(t, c, idem.Passed{}) // its lease is not over
		time.Sleep(idem.DefaultLease)
		pass(t, c, idem.Passed{Waiting: 1}) // the client may come back first
		time.Sleep(idem.DefaultBackoff)
		pass(t, c, idem.Passed{Completed: 1})
		pass(t, c, idem.Passed{})
		res, err := idem.Do(t.Context(), e, request("key-0001"), never(t))
		if err != nil || res.Value != "to ada, attempt 2" || !res.Replayed {
			t.Errorf("Do = %+v, %v, want what the completer did", res, err)
		}
	})
}

// Steps that are done are not done again, by whom ever.
func TestCompleterResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := phased(t, memory.New()), newSteps()
		effect := s.through("a", "b")
		s.fail["b"] = errBoom
		_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
		wantError(t, "Do", err, errBoom)
		clear(s.fail)
		c := completer(t, e, idem.WithBackoff(0, 0))
		if err := idem.Handle(c, request("").Operation, func(ctx context.Context, run *idem.Run, p []byte) (string, error) {
			if len(p) != 0 {
				t.Errorf("the payload is %q, want none", p)
			}
			return effect(ctx, run)
		}); err != nil {
			t.Fatal(err)
		}
		pass(t, c, idem.Passed{Completed: 1})
		s.want(t, "a", 1)
		s.want(t, "b", 2)
	})
}

// What fails is tried again, later and later, and in the end no more. It stays for its
// client.
func TestCompleterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events, failures []string
		e := newExecutor(t, memory.New(), idem.WithObserver(func(_ context.Context, e idem.Event) {
			if e.Kind == idem.GivenUp {
				events = append(events, fmt.Sprintf("%s %s %d", e.Operation, e.Kind, e.Attempt))
			}
		}))
		c := completer(t, e, idem.WithAttempts(4), idem.WithBackoff(time.Minute, time.Hour), idem.WithFailures(func(_ context.Context, op string, attempt int, err error) {
			failures = append(failures, fmt.Sprintf("%s %d %v", op, attempt, err))
		}))
		var runs []time.Time
		handle(t, c, func(context.Context, *idem.Run, parcel) (string, error) {
			runs = append(runs, time.Now())
			if len(runs) == 2 {
				panic("boom")
			}
			return "", errBoom
		})
		leave(t, e, "key-0001", `{}`)
		for range 60 {
			time.Sleep(time.Minute)
			if _, err := c.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(runs) != 3 || runs[2].Sub(runs[1]) <= runs[1].Sub(runs[0]) {
			t.Errorf("the handler ran at %v, want 3 times, later and later", runs)
		}
		if want := []string{"POST /payments given up 4"}; fmt.Sprint(events) != fmt.Sprint(want) {
			t.Errorf("events = %q, want %q", events, want)
		}
		want := []string{"POST /payments 1 boom", "POST /payments 2 the handler panicked: boom", "POST /payments 3 boom"}
		if fmt.Sprint(failures) != fmt.Sprint(want) {
			t.Errorf("failures = %q, want %q", failures, want)
		}
		pass(t, c, idem.Passed{GivenUp: 1})
		res, err := idem.Do(t.Context(), e, request("key-0001"), returns("the client's own"))
		if err != nil || res.Attempt != 5 {
			t.Errorf("Do = %+v, %v, want a run", res, err)
		}
	})
}

// What can't be run is left as it is, for code that can.
func TestCompleterLeavesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		e := newExecutor(t, m)
		leave(t, e, "key-0001", "no JSON")
		time.Sleep(idem.DefaultLease)
		at := backend.Key{Tenant: "shop", Actor: "ada", Value: "key-0001"}
		before, err := m.Get(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		pass(t, completer(t, e, idem.WithBackoff(0, 0)), idem.Passed{Unhandled: 1})
		c := completer(t, e, idem.WithBackoff(0, 0))
		handle(t, c, func(context.Context, *idem.Run, parcel) (string, error) {
			t.Error("the handler ran")
			return "", nil
		})
		pass(t, c, idem.Passed{Unread: 1})
		c = completer(t, newExecutor(t, m, idem.WithTakeover(func(string) bool { return false })), idem.WithBackoff(0, 0))
		if err := idem.Handle(c, request("").Operation, func(context.Context, *idem.Run, []byte) (string, error) {
			t.Error("the handler ran, though the operation refuses takeovers")
			return "", nil
		}); err != nil {
			t.Fatal(err)
		}
		pass(t, c, idem.Passed{Resolve: 1})
		if after, err := m.Get(t.Context(), at); err != nil || after.Token != before.Token || after.Attempt != 1 {
			t.Errorf("the record is %+v, %v, want it as it was", after, err)
		}
	})
}

// A record that waits for a person uses up no attempts while it does, and can be resolved
// at any time. What was resolved is ended.
func TestCompleterWaitsForAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, far := memory.New(), newSteps(), &farSide{reply: []error{errBoom}}
		e := phased(t, m)
		effect := calling(s, idem.Foreign[string]{Do: far.do, Once: true})
		_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
		wantError(t, "Do", err, idem.ErrUnknownOutcome)
		time.Sleep(idem.DefaultLease)
		c := completer(t, e, idem.WithBackoff(0, 0), idem.WithAttempts(3))
		if err := idem.Handle(c, request("").Operation, func(ctx context.Context, run *idem.Run, _ []byte) (string, error) { return effect(ctx, run) }); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			pass(t, c, idem.Passed{Resolve: 1})
		}
		r, err := m.Get(t.Context(), backend.Key{Tenant: "shop", Actor: "ada", Value: "key-0001"})
		if err != nil || r.Attempt != 2 || r.LeaseLeft != 0 {
			t.Errorf("the record has attempt %d and %v of its lease, %v, want the one attempt that found out, and no lease", r.Attempt, r.LeaseLeft, err)
		}
		if err := e.Resolve(t.Context(), request("").Scope, "key-0001", idem.CallDone("charge", "ch_1")); err != nil {
			t.Fatal(err)
		}
		c2 := completer(t, e, idem.WithBackoff(0, 0))
		if err := idem.Handle(c2, request("").Operation, func(ctx context.Context, run *idem.Run, _ []byte) (string, error) { return effect(ctx, run) }); err != nil {
			t.Fatal(err)
		}
		pass(t, c2, idem.Passed{Completed: 1})
		far.want(t, 1)
	})
}

// Several processes side by side run each record once, no more than so many at a time.
func TestCompletersSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, concurrency = 50, 3
		m := memory.New()
		for i := range keys {
			leave(t, newExecutor(t, m), fmt.Sprintf("key-%04d", i), fmt.Sprintf(`{"to":"%d"}`, i))
		}
		time.Sleep(idem.DefaultLease)
		var runs [keys]atomic.Int64
		var wg sync.WaitGroup
		var total atomic.Int64
		for range 3 {
			var now, most atomic.Int64
			c := completer(t, newExecutor(t, m), idem.WithBackoff(0, 0), idem.WithConcurrency(concurrency))
			handle(t, c, func(_ context.Context, _ *idem.Run, p parcel) (string, error) {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer now.Add(-1)
				time.Sleep(time.Second)
				i, err := strconv.Atoi(p.To)
				runs[i].Add(1)
				return "", err
			})
			wg.Go(func() {
				p, err := c.Pass(t.Context())
				if err != nil {
					t.Error(err)
				}
				total.Add(int64(p.Completed))
				if most.Load() != concurrency {
					t.Errorf("%d runs at a time, want %d", most.Load(), concurrency)
				}
			})
		}
		wg.Wait()
		for i := range runs {
			if n := runs[i].Load(); n != 1 {
				t.Errorf("key %d ran %d times, want once", i, n)
			}
		}
		if total.Load() != keys {
			t.Errorf("%d completed, want %d", total.Load(), keys)
		}
	})
}

func TestCompleterMisused(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, memory.New())
	_, err := idem.NewCompleter(nil)
	wantError(t, "NewCompleter(nil)", err, idem.ErrInvalid)
	_, err = idem.NewCompleter(newExecutor(t, &faulty{Backend: memory.New()}))
	wantError(t, "NewCompleter(no Lister)", err, idem.ErrInvalid)
	for _, o := range []idem.CompleterOption{nil, idem.WithConcurrency(0), idem.WithAttempts(0), idem.WithBackoff(-1, 1), idem.WithBackoff(2, 1), idem.WithFailures(nil)} {
		_, err = idem.NewCompleter(e, o)
		wantError(t, "NewCompleter(a bad option)", err, idem.ErrInvalid)
	}
	c := completer(t, e)
	handler := func(context.Context, *idem.Run, parcel) (string, error) { return "", nil }
	if err := idem.Handle(c, "ship", handler); err != nil {
		t.Error(err)
	}
	wantError(t, "Handle(again)", idem.Handle(c, "ship", handler), idem.ErrInvalid)
	wantError(t, "Handle(nil)", idem.Handle[parcel, string](c, "other", nil), idem.ErrInvalid)
	wantError(t, "Run(0)", c.Run(t.Context(), 0), idem.ErrInvalid)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	wantError(t, "Run(ended)", c.Run(ctx, time.Hour), errBoom)
	_, err = c.Pass(ctx)
	wantError(t, "Pass(ended)", err, errBoom)
}
