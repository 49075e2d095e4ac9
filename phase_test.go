package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// steps is an effect of steps, and how often each was run.
type steps struct {
	runs map[string]int
	fail map[string]error // by step
}

func newSteps() *steps { return &steps{runs: make(map[string]int), fail: make(map[string]error)} }

func (s *steps) phase(ctx context.Context, run *idem.Run, name, value string) (string, error) {
	return idem.Phase(ctx, run, name, func(context.Context) (string, error) {
		s.runs[name]++
		return value, s.fail[name]
	})
}

// through is an effect that goes through phases with these names and returns their
// values.
func (s *steps) through(names ...string) func(context.Context, *idem.Run) (string, error) {
	return func(ctx context.Context, run *idem.Run) (string, error) {
		var all []string
		for _, name := range names {
			v, err := s.phase(ctx, run, name, "did "+name)
			if err != nil {
				return "", err
			}
			all = append(all, v)
		}
		return strings.Join(all, ", "), nil
	}
}

func (s *steps) want(t *testing.T, name string, n int) {
	t.Helper()
	if s.runs[name] != n {
		t.Errorf("step %q ran %d times, want %d", name, s.runs[name], n)
	}
}

func phased(t *testing.T, b backend.Backend, opts ...idem.Option) *idem.Executor {
	t.Helper()
	return newExecutor(t, b, append([]idem.Option{idem.WithPhases("1")}, opts...)...)
}

// Field report 17: a phase is done, a later one fails; the retry goes on after the
// first. Nothing that is done runs again.
func TestPhasesResume(t *testing.T) {
	t.Parallel()
	m, s := memory.New(), newSteps()
	e := phased(t, m)
	s.fail["b"] = errBoom
	_, err := idem.Do(t.Context(), e, request("key-0001"), s.through("a", "b", "c"))
	wantError(t, "Do", err, errBoom)
	delete(s.fail, "b")
	res, err := idem.Do(t.Context(), e, request("key-0001"), s.through("a", "b", "c"))
	if want := (idem.Result[string]{Value: "did a, did b, did c", Attempt: 2}); err != nil || res != want {
		t.Errorf("Do = %+v, %v, want %+v", res, err, want)
	}
	s.want(t, "a", 1)
	s.want(t, "b", 2)
	s.want(t, "c", 1)
	res, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
	if err != nil || !res.Replayed {
		t.Errorf("Do again = %+v, %v, want a replay", res, err)
	}
}

// Field report 31: the code of a record in the middle was changed. Whatever it was,
// no step runs, and the record can be resumed by code that knows it.
func TestChangedCode(t *testing.T) {
	t.Parallel()
	for name, changed := range map[string]func(*steps) func(context.Context, *idem.Run) (string, error){
		"renamed":     func(s *steps) func(context.Context, *idem.Run) (string, error) { return s.through("a", "B", "c") },
		"reordered":   func(s *steps) func(context.Context, *idem.Run) (string, error) { return s.through("b", "a", "c") },
		"removed":     func(s *steps) func(context.Context, *idem.Run) (string, error) { return s.through("a", "c") },
		"cut short":   func(s *steps) func(context.Context, *idem.Run) (string, error) { return s.through("a") },
		"put before":  func(s *steps) func(context.Context, *idem.Run) (string, error) { return s.through("new", "a", "b") },
		"named twice": func(s *steps) func(context.Context, *idem.Run) (string, error) { return s.through("a", "a", "b") },
		"a call now": func(s *steps) func(context.Context, *idem.Run) (string, error) {
			return func(ctx context.Context, run *idem.Run) (string, error) {
				_, _ = idem.Call(ctx, run, "other", idem.Foreign[string]{Do: func(context.Context, string) (string, error) {
					s.runs["other"]++
					return "", nil
				}})
				return "an answer that ignores the error", nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, s := memory.New(), newSteps()
			e := phased(t, m)
			s.fail["c"] = errBoom
			effect := s.through("a", "b", "c")
			_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
			wantError(t, "Do", err, errBoom)
			clear(s.runs)
			_, err = idem.Do(t.Context(), e, request("key-0001"), changed(s))
			wantError(t, "Do(changed code)", err, idem.ErrRecoveryPoint)
			if len(s.runs) != 0 {
				t.Errorf("steps that ran: %v, want none", s.runs)
			}
			clear(s.fail)
			res, err := idem.Do(t.Context(), e, request("key-0001"), effect)
			if err != nil || res.Value != "did a, did b, did c" || s.runs["a"]+s.runs["b"] != 0 {
				t.Errorf("Do(the old code) = %+v, %v after %v, want the rest of it", res, err, s.runs)
			}
		})
	}
}

// Code without steps would do again what they did; neither does it get to a record of
// another version.
func TestVersions(t *testing.T) {
	t.Parallel()
	m, s := memory.New(), newSteps()
	s.fail["b"] = errBoom
	_, err := idem.Do(t.Context(), phased(t, m), request("key-0001"), s.through("a", "b"))
	wantError(t, "Do", err, errBoom)
	_, err = idem.Do(t.Context(), newExecutor(t, m), request("key-0001"), never(t))
	wantError(t, "Do(without steps)", err, idem.ErrRecoveryPoint)
	_, err = idem.Do(t.Context(), newExecutor(t, m, idem.WithPhases("2")), request("key-0001"), never(t))
	wantError(t, "Do(version 2)", err, idem.ErrRecoveryPoint)
	clear(s.fail)
	res, err := idem.Do(t.Context(), newExecutor(t, m, idem.WithPhases("2", "1")), request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		if got := run.Version(); got != "1" {
			t.Errorf("Version() = %q, want 1", got)
		}
		return s.through("a", "b")(ctx, run)
	})
	if err != nil || res.Value != "did a, did b" {
		t.Errorf("Do(version 2 that accepts 1) = %+v, %v", res, err)
	}
	res, err = idem.Do(t.Context(), newExecutor(t, m, idem.WithPhases("2", "1")), request("key-0002"), func(_ context.Context, run *idem.Run) (string, error) {
		return run.Version(), nil
	})
	if err != nil || res.Value != "2" {
		t.Errorf("Version() of a new record = %+v, %v, want 2", res, err)
	}
	s.want(t, "a", 1)
}

func TestStepsMisused(t *testing.T) {
	t.Parallel()
	m := memory.New()
	do := func(context.Context) (string, error) { return "v", nil }
	bad := map[string]struct {
		e      *idem.Executor
		want   error
		effect func(context.Context, *idem.Run) (string, error)
	}{
		"without the option": {newExecutor(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Phase(ctx, run, "a", do)
		}},
		"no name": {phased(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Phase(ctx, run, "", do)
		}},
		"a long name": {phased(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Phase(ctx, run, strings.Repeat("a", 250), do)
		}},
		"a control character": {phased(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Phase(ctx, run, "a\n", do)
		}},
		"within another": {phased(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Phase(ctx, run, "a", func(ctx context.Context) (string, error) { return idem.Phase(ctx, run, "b", do) })
		}},
		"nothing to run": {phased(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Phase[string](ctx, run, "a", nil)
		}},
		"a call of nothing": {phased(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Call(ctx, run, "a", idem.Foreign[string]{})
		}},
		"does not encode": {phased(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			_, err := idem.Phase(ctx, run, "a", func(context.Context) (func(), error) { return func() {}, nil })
			return "", err
		}},
		"does not decode": {phased(t, m), idem.ErrInvalid, func(ctx context.Context, run *idem.Run) (string, error) {
			_, err := idem.Phase(ctx, run, "a", func(context.Context) (error, error) { return errBoom, nil })
			return "", err
		}},
		"its error ignored": {phased(t, m), idem.ErrRecoveryPoint, func(ctx context.Context, run *idem.Run) (string, error) {
			_, _ = idem.Phase(ctx, run, "a", do)
			_, _ = idem.Phase(ctx, run, "a", do)
			return "an answer", nil
		}},
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := idem.Do(t.Context(), c.e, request("key-"+name), c.effect)
			wantError(t, "Do", err, c.want)
			res, err := idem.Do(t.Context(), phased(t, m), request("key-"+name), newSteps().through("a"))
			if err != nil || res.Replayed {
				t.Errorf("Do after it = %+v, %v, want a run", res, err)
			}
		})
	}
}

// A run gets what its record holds, as every later one does.
func TestResultsAreTheRecords(t *testing.T) {
	t.Parallel()
	type result struct {
		Amount int
		secret string
	}
	_, err := idem.Do(t.Context(), phased(t, memory.New()), request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		got, err := idem.Phase(ctx, run, "a", func(context.Context) (result, error) { return result{5, "lost"}, nil })
		if got.Amount != 5 || got.secret != "" {
			t.Errorf("Phase = %+v, want what encodes of it", got)
		}
		return "", err
	})
	if err != nil {
		t.Error(err)
	}
}

// A result that has no room is lost, its step is not: a person has to look. A step
// that has no room at all does not run.
func TestStateTooLarge(t *testing.T) {
	t.Parallel()
	m, s := memory.New(), newSteps()
	e := phased(t, m, idem.WithMaxState(300))
	big := func(ctx context.Context, run *idem.Run) (string, error) {
		v, err := s.phase(ctx, run, "a", strings.Repeat("x", 300))
		if err != nil {
			return "", err
		}
		return s.phase(ctx, run, "b", v)
	}
	for range 2 {
		_, err := idem.Do(t.Context(), e, request("key-0001"), big)
		wantError(t, "Do", err, idem.ErrNeedsResolution)
	}
	s.want(t, "a", 1)
	s.want(t, "b", 0)
	r, err := m.Get(t.Context(), backend.Key{Tenant: "shop", Actor: "ada", Value: "key-0001"})
	if err != nil || r.RecoveryPoint != "a (lost)" || r.Status != backend.Started {
		t.Errorf("the record is %v at %q, %v, want it started at a lost result", r.Status, r.RecoveryPoint, err)
	}

	clear(s.runs)
	_, err = idem.Do(t.Context(), e, request("key-0002"), func(ctx context.Context, run *idem.Run) (string, error) {
		if _, err := s.phase(ctx, run, "a", strings.Repeat("x", 200)); err != nil {
			return "", err
		}
		return s.phase(ctx, run, "b", "v")
	})
	wantError(t, "Do", err, idem.ErrTooLarge)
	s.want(t, "a", 1)
	s.want(t, "b", 0)
}

// The store's own limit is lower than the executor's: the same, once it says so.
func TestStateTooLargeForTheStore(t *testing.T) {
	t.Parallel()
	m, s := memory.New(), newSteps()
	f := &faulty{Backend: m, checkpoint: func(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
		if err := c.Validate(l, 300); err != nil {
			return err
		}
		return m.Checkpoint(ctx, l, c)
	}}
	for range 2 {
		_, err := idem.Do(t.Context(), phased(t, f), request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
			v, err := s.phase(ctx, run, "a", strings.Repeat("x", 300))
			if err != nil {
				return "", err
			}
			return s.phase(ctx, run, "b", v)
		})
		wantError(t, "Do", err, idem.ErrNeedsResolution)
	}
	s.want(t, "a", 1)
	s.want(t, "b", 0)
	// A call that has no room for its mark is not sent.
	far := &farSide{}
	_, err := idem.Do(t.Context(), phased(t, f), request("key-0002"), func(ctx context.Context, run *idem.Run) (string, error) {
		if _, err := s.phase(ctx, run, "c", strings.Repeat("x", 235)); err != nil {
			return "", err
		}
		return idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: far.do})
	})
	wantError(t, "Do", err, idem.ErrTooLarge)
	far.want(t, 0)
}

// A recovery point whose answer was lost is stored once; one that the store does not
// answer at all is an unknown outcome, and the record is taken over when the lease
// is over.
func TestRecoveryPointWithoutAnswer(t *testing.T) {
	for name, lost := range map[string]int{"one": 1, "all": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := memory.New(), newSteps()
				n := lost
				f := &faulty{Backend: m, checkpoint: func(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
					err := m.Checkpoint(ctx, l, c)
					if n--; n >= 0 {
						return errLost
					}
					return err
				}}
				e := phased(t, f)
				res, err := idem.Do(t.Context(), e, request("key-0001"), s.through("a", "b"))
				if lost == 1 {
					if err != nil || res.Value != "did a, did b" {
						t.Errorf("Do = %+v, %v, want it done", res, err)
					}
					s.want(t, "a", 1)
					return
				}
				wantError(t, "Do", err, idem.ErrUnknownOutcome)
				s.want(t, "b", 0)
				n = 0
				res, err = idem.Do(t.Context(), phased(t, f, idem.WithWait(idem.DefaultLease)), request("key-0001"), s.through("a", "b"))
				if err != nil || res.Value != "did a, did b" || res.Attempt != 2 {
					t.Errorf("Do(retry) = %+v, %v, want a second attempt", res, err)
				}
				s.want(t, "a", 1)
			})
		})
	}
}

// A step that ended after its lease has time to be stored, also on a store that is
// slow; nobody took over. One that somebody took over is refused (field report 4), and
// nothing runs after it.
func TestLateRecoveryPoint(t *testing.T) {
	for name, taken := range map[string]bool{"nobody took over": false, "taken over": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := memory.New(), newSteps()
				f := &faulty{Backend: m, renew: func(context.Context, backend.Lease, time.Duration) error { return errDown }}
				f.checkpoint = func(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
					select {
					case <-time.After(time.Second):
						return m.Checkpoint(ctx, l, c)
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				res, err := idem.Do(t.Context(), phased(t, f), request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
					v, err := idem.Phase(ctx, run, "a", func(context.Context) (string, error) {
						time.Sleep(2 * idem.DefaultLease)
						if taken {
							if res, err := idem.Do(t.Context(), phased(t, m), request("key-0001"), s.through("a", "b")); err != nil || res.Attempt != 2 {
								t.Errorf("Do of another = %+v, %v, want a takeover", res, err)
							}
						}
						return "late", nil
					})
					if taken {
						wantError(t, "Phase(taken over)", err, idem.ErrLeaseLost)
						_, err = s.phase(ctx, run, "never", "")
					}
					return v, err
				})
				s.want(t, "never", 0)
				switch {
				case taken:
					wantError(t, "Do", err, idem.ErrLeaseLost)
				case err != nil || res.Value != "late":
					t.Errorf("Do = %+v, %v, want the late answer", res, err)
				}
			})
		})
	}
}

// Field report 3: a process that is stopped on its way to the store asks it once more
// when it goes on, and learns that another one took over.
func TestStoppedOnTheWayToTheStore(t *testing.T) {
	for name, phases := range map[string][]string{"with a recovery point": {"a"}, "with the answer": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := memory.New(), newSteps()
				stopped := false
				stop := func(ctx context.Context) error {
					if stopped {
						return nil
					}
					stopped = true
					time.Sleep(2 * idem.DefaultLease)
					if res, err := idem.Do(t.Context(), phased(t, m), request("key-0001"), s.through(phases...)); err != nil || res.Attempt != 2 {
						t.Errorf("Do of another = %+v, %v, want a takeover", res, err)
					}
					return &backend.Error{Op: "test", Kind: backend.ErrUnavailable, Err: ctx.Err()}
				}
				f := &faulty{Backend: m, renew: func(context.Context, backend.Lease, time.Duration) error { return errDown }}
				f.checkpoint = func(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
					if err := stop(ctx); err != nil {
						return err
					}
					return m.Checkpoint(ctx, l, c)
				}
				f.complete = func(ctx context.Context, l backend.Lease, c backend.Completion) error {
					if err := stop(ctx); err != nil {
						return err
					}
					return m.Complete(ctx, l, c)
				}
				_, err := idem.Do(t.Context(), phased(t, f), request("key-0001"), s.through(phases...))
				wantError(t, "Do", err, idem.ErrLeaseLost)
				if errors.Is(err, idem.ErrUnknownOutcome) {
					t.Errorf("Do = %v, want no unknown outcome", err)
				}
			})
		})
	}
}

// What runs within the last step can't be a step of its own: it would wait for the
// record that the transaction has.
func TestStepWithinTheLast(t *testing.T) {
	t.Parallel()
	b, s := openBank(t), newSteps()
	e := newTx(t, b, idem.WithPhases("1"))
	effect := func(within bool) func(context.Context, *idem.Run) (string, error) {
		return func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.CompleteTx(ctx, run, b, func(ctx context.Context, _ *sql.Tx) (string, error) {
				if within {
					return s.phase(ctx, run, "a", "")
				}
				return "done", nil
			})
		}
	}
	_, err := idem.Do(t.Context(), e.Executor, request("key-0001"), effect(true))
	wantError(t, "Do(a step within the last)", err, idem.ErrInvalid)
	s.want(t, "a", 0)
	if res, err := idem.Do(t.Context(), e.Executor, request("key-0001"), effect(false)); err != nil || res.Value != "done" {
		t.Errorf("Do = %+v, %v, want it done", res, err)
	}
}
