package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

type txStep = func(context.Context, *sql.Tx) (backend.Step, error)

// stepping stands in the way of a bank's steps.
type stepping struct {
	*bank
	inLease func(ctx context.Context, l backend.Lease, seq backend.Sequence, step txStep) (backend.Record, error)
}

func (s *stepping) InLease(ctx context.Context, l backend.Lease, seq backend.Sequence, step txStep) (backend.Record, error) {
	if s.inLease != nil {
		return s.inLease(ctx, l, seq, step)
	}
	return s.bank.InLease(ctx, l, seq, step)
}

// The COMMIT of a step is in doubt, and its caller goes. It turns out to be rolled back:
// the step is not run again, and the key is free at once.
func TestPhaseTxRolledBackAndGone(t *testing.T) {
	t.Parallel()
	b := &stepping{bank: openBank(t)}
	e := newTx(t, b, idem.WithPhases("1"))
	ctx, cancel := context.WithCancel(t.Context())
	b.inLease = func(in context.Context, l backend.Lease, seq backend.Sequence, step txStep) (backend.Record, error) {
		b.inLease = nil
		_, err := b.bank.InLease(in, l, seq, func(ctx context.Context, tx *sql.Tx) (backend.Step, error) {
			s, err := step(ctx, tx)
			return s, errors.Join(err, errLost)
		})
		cancel()
		return backend.Record{}, &backend.Error{Op: "test: commit", Err: err}
	}
	runs := 0
	effect := func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.PhaseTx(ctx, run, b, "create", func(ctx context.Context, tx *sql.Tx) (string, error) {
			runs++
			return charge("paid", nil)(ctx, tx)
		})
	}
	_, err := idem.Do(ctx, e.Executor, request("key-0001"), effect)
	wantError(t, "Do", err, idem.ErrUnavailable)
	if errors.Is(err, idem.ErrUnknownOutcome) || runs != 1 {
		t.Errorf("Do = %v after %d runs, want one that is known to be undone", err, runs)
	}
	res, err := idem.Do(t.Context(), e.Executor, request("key-0001"), effect)
	if err != nil || res.Value != "paid" {
		t.Errorf("Do at once after it = %+v, %v", res, err)
	}
	b.wantCharges(t, 1)
}

// Hard case 5: the record was abandoned while its process was stopped. The store gives
// it as it stands, and that is not what the step wrote.
func TestStepOfAnAbandonedRecord(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(context.Context, *idem.Run, backend.Transactor[*sql.Tx]) (string, error){
		"PhaseTx": func(ctx context.Context, run *idem.Run, b backend.Transactor[*sql.Tx]) (string, error) {
			return idem.PhaseTx(ctx, run, b, "create", charge("paid", nil))
		},
		"CompleteTx": func(ctx context.Context, run *idem.Run, b backend.Transactor[*sql.Tx]) (string, error) {
			return idem.CompleteTx(ctx, run, b, charge("paid", nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &stepping{bank: openBank(t)}
			e := newTx(t, b, idem.WithPhases("1"))
			b.inLease = func(ctx context.Context, l backend.Lease, _ backend.Sequence, _ txStep) (backend.Record, error) {
				r, err := b.Get(ctx, l.Key)
				r.Status, r.Response = backend.Completed, backend.Response{Tombstone: backend.Abandoned}
				return r, err
			}
			res, err := idem.Do(t.Context(), e.Executor, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) { return step(ctx, run, b) })
			if !errors.Is(err, idem.ErrLeaseLost) {
				t.Errorf("Do = %+v, %v, want ErrLeaseLost", res, err)
			}
		})
	}
}

// A second run that surely sent nothing knows nothing of what the first has sent.
func TestNotDoneAfterSent(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	m, s, far := memory.New(memory.WithClock(clock)), newSteps(), &farSide{reply: []error{errBoom, idem.NotDone(errBoom)}}
	e := phased(t, m)
	asked := 0
	effect := calling(s, idem.Foreign[string]{Do: far.do, Inquire: func(context.Context, string) (string, idem.Outcome, error) {
		asked++ // of a far side that knows keys: it need not be sure
		return "", idem.OutcomeNever, nil
	}})
	_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
	wantError(t, "Do", err, idem.ErrUnknownOutcome)
	clock.Advance(idem.DefaultLease)
	_, err = idem.Do(t.Context(), e, request("key-0001"), effect)
	wantError(t, "Do(resumed)", err, idem.ErrUnknownOutcome)
	if asked != 1 {
		t.Errorf("the far side was asked %d times, want once", asked)
	}
	if r, err := m.Get(t.Context(), theKey); err != nil || r.RecoveryPoint != "charge (sent)" {
		t.Errorf("Get = %q, %v, want a call that may have been sent", r.RecoveryPoint, err)
	}
	if err := e.Resolve(t.Context(), request("").Scope, "key-0001", idem.CallDone("charge", "ch_1")); err != nil {
		t.Errorf("Resolve = %v", err)
	}
	res, err := idem.Do(t.Context(), e, request("key-0001"), effect)
	if err != nil || res.Value != "ch_1" {
		t.Errorf("Do = %+v, %v, want ch_1", res, err)
	}
}

// A final no is kept, whatever its size and form, as long as there is room for a call.
func TestRefusedWithoutRoom(t *testing.T) {
	t.Parallel()
	for name, no := range map[string]error{
		"long": idem.Refused(strings.Repeat("<", 1000)), "made by hand": &idem.RefusedError{Reason: strings.Repeat("\xff!", 5000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, far := phased(t, memory.New(), idem.WithMaxState(300)), &farSide{reply: []error{no}}
			var reasons []string
			for range 2 {
				_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
					return idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: far.do, Once: true})
				})
				refused, ok := errors.AsType[*idem.RefusedError](err)
				if !ok {
					t.Fatalf("Do = %v, want a RefusedError", err)
				}
				reasons = append(reasons, refused.Reason)
			}
			far.want(t, 1)
			if reasons[0] != reasons[1] {
				t.Errorf("the reasons have %d and %d bytes, want the same in every attempt", len(reasons[0]), len(reasons[1]))
			}
		})
	}
}

// Hard case 29, of a step whose name needs more room than it has bytes: that its result
// was lost is noted, or the step doesn't begin.
func TestLostResultOfALongName(t *testing.T) {
	t.Parallel()
	for limit := 100; limit < 2000; limit += 20 {
		e, s := phased(t, memory.New(), idem.WithMaxState(limit)), newSteps()
		name := strings.Repeat("<", 200)
		for range 2 {
			_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
				return s.phase(ctx, run, name, strings.Repeat("x", 3000))
			})
			if !errors.Is(err, idem.ErrNeedsResolution) && (!errors.Is(err, idem.ErrTooLarge) || s.runs[name] > 0) {
				t.Errorf("Do with %d bytes of state = %v, after %d runs", limit, err, s.runs[name])
			}
		}
		if s.runs[name] > 1 {
			t.Errorf("with %d bytes of state the step ran %d times, want at most once", limit, s.runs[name])
		}
	}
}

// A version that JSON can't keep would be another one in the record.
func TestVersionNoText(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"\xff", "1\xc3"} {
		_, err := idem.New(memory.New(), idem.WithPhases(version))
		wantError(t, "New", err, idem.ErrInvalid)
	}
}

// The effect ends while one of its steps is under way: nobody else begins beside it
// before the lease is over.
func TestEndBesideAStep(t *testing.T) {
	t.Parallel()
	e := phased(t, memory.New())
	begun, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		wg.Go(func() {
			_, err := idem.Phase(ctx, run, "slow", func(context.Context) (string, error) {
				close(begun)
				<-end
				return "", errBoom
			})
			wantError(t, "Phase", err, errBoom)
		})
		<-begun
		return "too early", nil
	})
	wantError(t, "Do", err, idem.ErrInvalid)
	_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
	wantError(t, "Do again", err, idem.ErrInProgress)
	close(end)
	wg.Wait()
}

// Steps begun by several goroutines at once, and a run that is asked meanwhile: one
// step runs at a time, the others are refused, and nothing is read while it is written.
func TestStepsBesideEachOther(t *testing.T) {
	t.Parallel()
	e := phased(t, memory.New())
	_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			wg.Go(func() {
				_, err := idem.Phase(ctx, run, name, func(context.Context) (string, error) { return name, nil })
				if err != nil && !errors.Is(err, idem.ErrInvalid) {
					t.Errorf("Phase = %v, want ErrInvalid at most", err)
				}
				if v := run.Version(); v != "1" {
					t.Errorf("Version = %q", v)
				}
			})
		}
		wg.Wait()
		return "all", nil
	})
	if err != nil {
		t.Errorf("Do = %v", err)
	}
}
