package idem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

type answer struct {
	res idem.Result[string]
	err error
}

// duplicates starts n calls that wait for a run to end, and returns their answers.
func duplicates(t *testing.T, e *idem.Executor, r idem.Request, n int, effect func(context.Context, *idem.Run) (string, error)) chan answer {
	t.Helper()
	out := make(chan answer, n)
	for range n {
		go func() {
			res, err := idem.Do(t.Context(), e, r, effect)
			out <- answer{res, err}
		}()
	}
	synctest.Wait()
	return out
}

func TestWaitForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		claims := 0
		f := &faulty{Backend: m, claim: func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
			claims++
			return m.Claim(ctx, c)
		}}
		e := newExecutor(t, f, idem.WithWait(time.Minute))
		var dups chan answer
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			dups = duplicates(t, e, request("key-0001"), 20, never(t))
			// Design 6: a mismatch never waits.
			bad := request("key-0001")
			bad.Content.Body = []byte(`{"amount":6}`)
			before := time.Now()
			_, err := idem.Do(t.Context(), e, bad, never(t))
			wantError(t, "Do of another request in flight", err, idem.ErrMismatch)
			if !time.Now().Equal(before) {
				t.Errorf("the mismatch waited %v", time.Since(before))
			}
			return "ok", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if d := <-dups; d.err != nil || d.res.Value != "ok" || !d.res.Replayed {
				t.Errorf("a duplicate got %+v, %v, want the replay", d.res, d.err)
			}
		}
		if claims != 1 {
			t.Errorf("%d claims reached the store, want 1: duplicates wait in memory", claims)
		}
	})
}

func TestWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		a := newExecutor(t, m, idem.WithLease(time.Minute), idem.WithWait(10*time.Second))
		b := newExecutor(t, m, idem.WithLease(time.Minute), idem.WithWait(10*time.Second))
		if _, err := idem.Do(t.Context(), a, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			for name, e := range map[string]*idem.Executor{"this process": a, "another process": b} {
				before := time.Now()
				_, err := idem.Do(t.Context(), e, request("key-0001"), never(t))
				var p *idem.InProgressError
				if !errors.As(err, &p) || p.RetryAfter <= 0 || p.RetryAfter > 2*time.Second {
					t.Errorf("Do in %s = %v, want InProgress with at most the ceiling of 2 s (hard case 16)", name, err)
				}
				if d := time.Since(before); d < 10*time.Second || d > 11*time.Second {
					t.Errorf("Do in %s waited %v, want 10 s", name, d)
				}
			}
			return "ok", nil
		}); err != nil {
			t.Error(err)
		}
	})
}

func TestNoWaitByDefault(t *testing.T) {
	e := newExecutor(t, memory.New())
	if _, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
		_, err := idem.Do(t.Context(), e, request("key-0001"), never(t))
		wantError(t, "Do of a duplicate", err, idem.ErrInProgress)
		return "ok", nil
	}); err != nil {
		t.Error(err)
	}
}

// Retries of a completed request that arrive together are replays all, also where
// duplicates do not wait: they share the leader's look at the store.
func TestConcurrentReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		asked, answer := 0, make(chan struct{})
		f := &faulty{Backend: m}
		e := newExecutor(t, f)
		if _, err := idem.Do(t.Context(), e, request("key-0001"), returns("ok")); err != nil {
			t.Fatal(err)
		}
		f.claim = func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
			asked++
			<-answer
			return m.Claim(ctx, c)
		}
		dups := duplicates(t, e, request("key-0001"), 20, never(t))
		close(answer)
		for range 20 {
			if d := <-dups; d.err != nil || d.res.Value != "ok" || !d.res.Replayed {
				t.Errorf("Do = %+v, %v, want the replay", d.res, d.err)
			}
		}
		if asked != 1 {
			t.Errorf("the store was asked %d times, want once", asked)
		}
	})
}

// The same for a request that another process runs.
func TestConcurrentDuplicatesOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		asked, answer := 0, make(chan struct{})
		f := &faulty{Backend: m, claim: func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
			asked++
			<-answer
			return m.Claim(ctx, c)
		}}
		e := newExecutor(t, f)
		if _, err := idem.Do(t.Context(), newExecutor(t, m), request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			dups := duplicates(t, e, request("key-0001"), 20, never(t))
			close(answer)
			for range 20 {
				wantError(t, "Do", (<-dups).err, idem.ErrInProgress)
			}
			return "ok", nil
		}); err != nil {
			t.Fatal(err)
		}
		if asked != 1 {
			t.Errorf("the store was asked %d times, want once", asked)
		}
	})
}

// Duplicates of another process poll, and get the answer.
func TestWaitForAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		a, b := newExecutor(t, m), newExecutor(t, m, idem.WithWait(time.Minute))
		var dups chan answer
		if _, err := idem.Do(t.Context(), a, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			dups = duplicates(t, b, request("key-0001"), 3, never(t))
			time.Sleep(5 * time.Second)
			return "ok", nil
		}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if d := <-dups; d.err != nil || d.res.Value != "ok" || !d.res.Replayed {
				t.Errorf("a duplicate got %+v, %v, want the replay", d.res, d.err)
			}
		}
	})
}

// A first run that fails leaves the key to one of those that wait.
func TestWaitersOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExecutor(t, memory.New(), idem.WithWait(time.Minute))
		runs := 0
		var dups chan answer
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			dups = duplicates(t, e, request("key-0001"), 5, func(context.Context, *idem.Run) (string, error) {
				runs++
				return "second", nil
			})
			return "", errBoom
		})
		wantError(t, "Do", err, errBoom)
		for range 5 {
			if d := <-dups; d.err != nil || d.res.Value != "second" {
				t.Errorf("a duplicate got %+v, %v, want the second run's answer", d.res, d.err)
			}
		}
		if runs != 1 {
			t.Errorf("the effect ran %d times after the failure, want once", runs)
		}
	})
}

// Hard case 14: those that wait for a run that ends unknown get that error.
func TestWaitersOfAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Backend: memory.New(), complete: func(context.Context, backend.Lease, backend.Completion) error { return errLost }}
		e := newExecutor(t, f, idem.WithWait(time.Hour), idem.WithLease(time.Minute))
		var dups chan answer
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			dups = duplicates(t, e, request("key-0001"), 3, never(t))
			return "ok", nil
		})
		wantError(t, "Do", err, idem.ErrUnknownOutcome)
		for range 3 {
			wantError(t, "Do of a duplicate", (<-dups).err, idem.ErrUnknownOutcome)
		}
	})
}

// A caller that goes away stops waiting.
func TestWaiterGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExecutor(t, memory.New(), idem.WithWait(time.Hour))
		if _, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := idem.Do(ctx, e, request("key-0001"), never(t))
			wantError(t, "Do of a duplicate", err, context.DeadlineExceeded)
			wantError(t, "Do of a duplicate", err, idem.ErrUnavailable)
			return "ok", nil
		}); err != nil {
			t.Error(err)
		}
	})
}
