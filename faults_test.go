package idem_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

var (
	errLost = errors.New("connection reset") // a driver's error: the outcome is open
	errDown = &backend.Error{Op: "test", Kind: backend.ErrUnavailable, Err: errLost}
)

// Field report 8: the caller's own claim, whose reply was lost, is not a rival.
func TestClaimReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		lost := 0
		f := &faulty{Backend: m}
		f.claim = func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
			got, err := m.Claim(ctx, c)
			if lost < 2 {
				lost++
				return backend.Claimed{}, errLost
			}
			return got, err
		}
		res, err := idem.Do(t.Context(), newExecutor(t, f), request("key-0001"), returns("ok"))
		if err != nil || res.Value != "ok" || res.Attempt != 1 {
			t.Errorf("Do = %+v, %v, want a first attempt", res, err)
		}
	})
}

// Hard case 10: before an effect can have started, an outcome that stays unknown
// is unavailability, and the key is let go of.
func TestClaimReplyNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		f := &faulty{Backend: m, claim: func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
			_, _ = m.Claim(ctx, c)
			return backend.Claimed{}, errLost
		}}
		e := newExecutor(t, f)
		_, err := idem.Do(t.Context(), e, request("key-0001"), never(t))
		wantError(t, "Do", err, idem.ErrUnavailable)
		wantError(t, "Do", err, errLost)
		if errors.Is(err, idem.ErrUnknownOutcome) {
			t.Errorf("Do = %v, want no unknown outcome", err)
		}
		if err := e.Close(t.Context()); err != nil { // what was left to do is done
			t.Error(err)
		}
		if res, err := idem.Do(t.Context(), newExecutor(t, m), request("key-0001"), returns("ok")); err != nil || res.Attempt != 1 {
			t.Errorf("Do at once after it = %+v, %v, want a fresh run", res, err)
		}
	})
}

// Field report 21: the store is down, the effect does not run.
func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		f := &faulty{Backend: memory.New(), claim: func(context.Context, backend.Claim) (backend.Claimed, error) {
			tries++
			return backend.Claimed{}, errDown
		}}
		e := newExecutor(t, f)
		_, err := idem.Do(t.Context(), e, request("key-0001"), never(t))
		wantError(t, "Do", err, idem.ErrUnavailable)
		if tries < 2 {
			t.Errorf("the store was asked %d times, want more than once", tries)
		}
		// A store that never answers and a caller without a deadline.
		f.claim = func(ctx context.Context, _ backend.Claim) (backend.Claimed, error) {
			<-ctx.Done()
			return backend.Claimed{}, ctx.Err()
		}
		_, err = idem.Do(t.Context(), e, request("key-0002"), never(t))
		wantError(t, "Do on a black hole", err, idem.ErrUnavailable)
	})
}

func TestCallerGone(t *testing.T) {
	e := newExecutor(t, memory.New())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := idem.Do(ctx, e, request("key-0001"), never(t))
	wantError(t, "Do with a dead context", err, idem.ErrUnavailable)
	wantError(t, "Do with a dead context", err, context.Canceled)

	// Field report 2: a finished effect is not lost to a caller that went away.
	ctx, cancel = context.WithCancel(t.Context())
	if _, err := idem.Do(ctx, e, request("key-0002"), func(context.Context, *idem.Run) (string, error) {
		cancel()
		return "ok", nil
	}); err != nil {
		t.Errorf("Do = %v, want the answer stored", err)
	}
	if res, err := idem.Do(t.Context(), e, request("key-0002"), never(t)); err != nil || res.Value != "ok" {
		t.Errorf("Do again = %+v, %v, want a replay", res, err)
	}
}

// Field report 8, for completions: stored, but the reply was lost.
func TestCompletionReplyLost(t *testing.T) {
	for name, always := range map[string]bool{"once": false, "always": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory.New()
				lost := false
				f := &faulty{Backend: m, complete: func(ctx context.Context, l backend.Lease, c backend.Completion) error {
					err := m.Complete(ctx, l, c)
					if err == nil && (always || !lost) {
						lost = true
						return errLost
					}
					return err
				}}
				e := newExecutor(t, f)
				if res, err := idem.Do(t.Context(), e, request("key-0001"), returns("ok")); err != nil || res.Replayed {
					t.Errorf("Do = %+v, %v, want success", res, err)
				}
				if res, err := idem.Do(t.Context(), e, request("key-0001"), never(t)); err != nil || res.Value != "ok" {
					t.Errorf("Do again = %+v, %v, want the replay", res, err)
				}
			})
		})
	}
}

// Design 6: the effect ran and its answer can't be stored: retried until the lease
// ends, then unknown, never a success that a retry would contradict.
func TestCompletionImpossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		var ev events
		f := &faulty{Backend: m, complete: func(context.Context, backend.Lease, backend.Completion) error { return errDown }}
		e := newExecutor(t, f, idem.WithLease(time.Minute), idem.WithObserver(ev.observe))
		start := time.Now()
		_, err := idem.Do(t.Context(), e, request("key-0001"), returns("ok"))
		wantError(t, "Do", err, idem.ErrUnknownOutcome)
		wantError(t, "Do", err, errLost)
		if errors.Is(err, idem.ErrUnavailable) {
			t.Errorf("Do = %v, which claims that surely nothing was done", err)
		}
		if d := time.Since(start); d < time.Minute-time.Minute/8 || d > 2*time.Minute {
			t.Errorf("Do gave up after %v, want about the lease", d)
		}
		ev.want(t, "acquired", "unknown")
		f.complete = nil
		time.Sleep(time.Minute)
		if res, err := idem.Do(t.Context(), e, request("key-0001"), returns("again")); err != nil || res.Attempt != 2 {
			t.Errorf("Do after the lease = %+v, %v, want attempt 2", res, err)
		}
	})
}

// Field report 3: a handler outlives its lease.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		e := newExecutor(t, m, idem.WithLease(time.Minute))
		rival := newExecutor(t, m, idem.WithLease(time.Minute))
		res, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			for range 10 {
				time.Sleep(time.Minute)
				_, err := idem.Do(t.Context(), rival, request("key-0001"), never(t))
				wantError(t, "Do of a rival", err, idem.ErrInProgress)
			}
			return "ok", context.Cause(ctx)
		})
		if err != nil || res.Value != "ok" {
			t.Errorf("Do = %+v, %v", res, err)
		}
	})
}

// Hard case 9: a run that can't confirm its lease ends before the lease does, and
// duplicates of this process ask the store from then on.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		var ev events
		f := &faulty{Backend: m, renew: func(ctx context.Context, _ backend.Lease, _ time.Duration) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		a := newExecutor(t, f, idem.WithLease(time.Minute), idem.WithObserver(ev.observe))
		b := newExecutor(t, m, idem.WithLease(time.Minute))
		start := time.Now()
		_, err := idem.Do(t.Context(), a, request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			<-ctx.Done()
			wantError(t, "the cause of its context", context.Cause(ctx), idem.ErrLeaseLost)
			if d := time.Since(start); d >= time.Minute || d < 45*time.Second {
				t.Errorf("cut off after %v, want shortly before the lease ends", d)
			}
			time.Sleep(time.Minute) // an effect that does not obey
			if res, err := idem.Do(t.Context(), b, request("key-0001"), returns("b")); err != nil || res.Attempt != 2 {
				t.Errorf("Do of another process = %+v, %v, want a takeover", res, err)
			}
			if res, err := idem.Do(t.Context(), a, request("key-0001"), never(t)); err != nil || res.Value != "b" {
				t.Errorf("Do of a duplicate here = %+v, %v, want the other's answer", res, err)
			}
			return "a", nil
		})
		wantError(t, "Do of the paused run", err, idem.ErrLeaseLost)
		ev.want(t, "acquired", "replayed", "lease lost")
	})
}

// Hard case 9: a lapsed lease that nobody took over may still complete.
func TestLateCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Backend: memory.New(), renew: func(context.Context, backend.Lease, time.Duration) error { return errDown }}
		e := newExecutor(t, f, idem.WithLease(time.Minute))
		res, err := idem.Do(t.Context(), e, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			time.Sleep(time.Hour)
			return "late", nil
		})
		if err != nil || res.Value != "late" {
			t.Errorf("Do = %+v, %v, want the late answer", res, err)
		}
	})
}

// A renewal that hangs leaves time for another.
func TestRenewalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		var tries atomic.Int32
		f := &faulty{Backend: m, renew: func(ctx context.Context, l backend.Lease, d time.Duration) error {
			if tries.Add(1)%2 == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return m.Renew(ctx, l, d)
		}}
		e := newExecutor(t, f, idem.WithLease(time.Minute))
		if _, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			time.Sleep(10 * time.Minute)
			return "ok", context.Cause(ctx)
		}); err != nil {
			t.Errorf("Do = %v, want the lease kept", err)
		}
	})
}

// A renewal that finds the lease lost ends the run at once.
func TestLeaseLostIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Backend: memory.New(), renew: func(context.Context, backend.Lease, time.Duration) error { return backend.ErrLeaseLost }}
		e := newExecutor(t, f, idem.WithLease(time.Minute))
		start := time.Now()
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		wantError(t, "Do", err, idem.ErrLeaseLost)
		wantError(t, "Do", err, context.Canceled)
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("noticed after %v, want with the first renewal", d)
		}
	})
}

// A lease that is half over when its owner learns of it is renewed first.
func TestShortLeaseIsRenewedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		f := &faulty{Backend: m}
		f.claim = func(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
			got, err := m.Claim(ctx, c)
			got.Record.LeaseLeft = time.Second
			return got, err
		}
		var renewed atomic.Int32
		f.renew = func(ctx context.Context, l backend.Lease, d time.Duration) error {
			renewed.Add(1)
			return m.Renew(ctx, l, d)
		}
		e := newExecutor(t, f, idem.WithLease(time.Minute))
		if _, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			if renewed.Load() != 1 {
				t.Error("the effect began on a lease that was nearly over")
			}
			time.Sleep(10 * time.Second)
			return "ok", ctx.Err()
		}); err != nil {
			t.Errorf("Do = %v", err)
		}
	})
}

// One timer and a bounded number of goroutines keep 10,000 leases alive. Not parallel:
// it counts the goroutines of the process.
func TestManyRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 10_000
		const renewers = 16 // at once
		own := int32(runtime.NumGoroutine() + runs)
		var goroutines atomic.Int32
		m := memory.New()
		var now, most atomic.Int32
		f := &faulty{Backend: m, renew: func(ctx context.Context, l backend.Lease, d time.Duration) error {
			n := now.Add(1)
			defer now.Add(-1)
			highest(&most, n)
			highest(&goroutines, int32(runtime.NumGoroutine()))
			time.Sleep(20 * time.Millisecond)
			return m.Renew(ctx, l, d)
		}}
		e := newExecutor(t, f, idem.WithLease(time.Minute))
		done := make(chan error, runs)
		for i := range runs {
			go func() {
				r := request("key-0001")
				r.Scope.Actor = string(rune('a'+i%26)) + time.Duration(i).String()
				_, err := idem.Do(t.Context(), e, r, func(ctx context.Context, _ *idem.Run) (string, error) {
					time.Sleep(70 * time.Second)
					return "ok", context.Cause(ctx)
				})
				done <- err
			}()
		}
		for range runs {
			if err := <-done; err != nil {
				t.Fatalf("Do = %v, want no lease lost", err)
			}
		}
		time.Sleep(time.Second) // for renewals under way, whose runs have ended
		if m := most.Load(); m > renewers || m == 0 {
			t.Errorf("%d renewals at once, want at most %d and some", m, renewers)
		}
		// A renewal may begin while the one before it ends, and the timer's function is one.
		if g := goroutines.Load() - own; g > renewers+2 {
			t.Errorf("%d goroutines besides the runs, want at most %d", g, renewers+2)
		}
	})
}

// highest keeps the highest number.
func highest(kept *atomic.Int32, n int32) {
	for o := kept.Load(); n > o && !kept.CompareAndSwap(o, n); o = kept.Load() {
	}
}
