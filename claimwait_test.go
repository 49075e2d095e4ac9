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

// locked is a store on which somebody's transaction holds every key, for the claims
// that are yet to come. It tells how long each of them was to wait.
type locked struct {
	*memory.Backend
	hidden int
	took   time.Duration // by the claim that is through in the end
	waits  []time.Duration
	sent   time.Time // the latest claim
}

func (l *locked) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	l.waits, l.sent = append(l.waits, c.Wait), time.Now()
	if l.hidden == 0 {
		time.Sleep(l.took)
		return l.Backend.Claim(ctx, c)
	}
	l.hidden--
	time.Sleep(c.Wait)
	return backend.Claimed{Hidden: true, Record: backend.Record{Key: c.Key}}, ctx.Err()
}

// The transactions of a store that has none: enough to see the claims.

func (l *locked) Transact(ctx context.Context, c backend.Claim, effect func(context.Context, string, backend.Claimed) (backend.Effect, error)) (backend.Claimed, error) {
	got, err := l.Claim(ctx, c)
	if err != nil || !got.Acquired {
		return got, err
	}
	eff, err := effect(ctx, "", got)
	if err != nil {
		return backend.Claimed{}, err
	}
	err = l.Complete(ctx, got.Record.Holder(), backend.Completion{Sequence: 1, Response: eff.Response})
	return got, err
}

func (l *locked) InLease(context.Context, backend.Lease, backend.Sequence, func(context.Context, string) (backend.Step, error)) (backend.Record, error) {
	return backend.Record{}, errors.ErrUnsupported
}

func (l *locked) Bind(string) backend.TxView { return l }
func (*locked) Undo(context.Context) error   { return nil }

// Hard case 24: one claim statement waits a quarter of the lease at most, and longer
// waits repeat it, on every path, up to the wait that was asked for.
func TestClaimsWaitForAQuarterOfTheLease(t *testing.T) {
	const lease, wait = 40 * time.Second, 35 * time.Second
	for path, call := range map[string]func(context.Context, *idem.TxExecutor[string], *bool) (idem.Result[string], error){
		"Do": func(ctx context.Context, e *idem.TxExecutor[string], ran *bool) (idem.Result[string], error) {
			return idem.Do(ctx, e.Executor, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
				*ran = true
				return "ok", nil
			})
		},
		"DoTx": func(ctx context.Context, e *idem.TxExecutor[string], ran *bool) (idem.Result[string], error) {
			return idem.DoTx(ctx, e, request("key-0001"), func(context.Context, string) (string, error) {
				*ran = true
				return "ok", nil
			})
		},
		"DoIn": func(ctx context.Context, e *idem.TxExecutor[string], ran *bool) (idem.Result[string], error) {
			return idem.DoIn(ctx, e, "", request("key-0001"), func(context.Context, string) (string, error) {
				*ran = true
				return "ok", nil
			})
		},
	} {
		for _, ends := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				l := &locked{Backend: memory.New(), hidden: 1000}
				if ends {
					l.hidden = 3
				}
				e, err := idem.NewTx(l, idem.WithLease(lease), idem.WithWait(wait))
				if err != nil {
					t.Fatal(err)
				}
				began, ran := time.Now(), false
				res, err := call(t.Context(), e, &ran)
				if took := time.Since(began); ends {
					if err != nil || res.Value != "ok" || !ran || len(l.waits) != 4 {
						t.Errorf("%s of a key that becomes free = %+v, %v after %d claims, want it run by the fourth", path, res, err, len(l.waits))
					}
				} else if !errors.Is(err, idem.ErrInProgress) || ran || took < wait || took > wait+time.Second {
					t.Errorf("%s of a key that stays locked = %v after %v, ran %v, want ErrInProgress after %v", path, err, took, ran, wait)
				}
				for i, w := range l.waits {
					if w > lease/4 || i < 3 && w != lease/4 {
						t.Errorf("%s: claim %d waits %v, want a quarter of the lease, %v", path, i+1, w, lease/4)
					}
				}
			})
		}
	}
}

// Hard cases 9 and 24: what a run may rely on counts from before the last claim was
// sent, neither from the first nor from its answer.
func TestBudgetStartsAtTheLastSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 40 * time.Second
		l := &locked{Backend: memory.New(), hidden: 2, took: 3 * time.Second}
		f := &faulty{Backend: l, renew: func(context.Context, backend.Lease, time.Duration) error { return errDown }}
		e := newExecutor(t, f, idem.WithLease(lease), idem.WithWait(time.Minute))
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, _ *idem.Run) (string, error) {
			<-ctx.Done()
			if d := time.Since(l.sent); d != lease-lease/8 {
				t.Errorf("the run was cut off %v after the last claim was sent, want %v", d, lease-lease/8)
			}
			return "", context.Cause(ctx)
		})
		wantError(t, "Do", err, idem.ErrLeaseLost)
		if len(l.waits) != 3 {
			t.Errorf("%d claims were sent, want 3", len(l.waits))
		}
	})
}

// Field report 23: what is not visible yet has no lease to tell of. The answer is
// between 1 ms and the lease all the same.
func TestRetryAfterOfAHiddenRecord(t *testing.T) {
	for _, lease := range []time.Duration{time.Second, time.Minute} {
		l := &locked{Backend: memory.New(), hidden: 1}
		_, err := idem.Do(t.Context(), newExecutor(t, l, idem.WithLease(lease), idem.WithRetryAfter(10*time.Second)), request("key-0001"), never(t))
		var p *idem.InProgressError
		if !errors.As(err, &p) || p.RetryAfter != min(lease, 10*time.Second) {
			t.Errorf("Do with a lease of %v = %v, want InProgressError with the lease or the ceiling", lease, err)
		}
	}
}

// PG-16: a duplicate that waits for a run under a lease polls, less and less often:
// each look takes a connection that its owner may need.
func TestWaitingPollsLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &locked{Backend: memory.New()}
		other := newExecutor(t, l.Backend)
		e, err := idem.NewTx(l, idem.WithWait(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := idem.Do(t.Context(), other, request("key-0001"), func(context.Context, *idem.Run) (string, error) {
			_, err := idem.DoTx(t.Context(), e, request("key-0001"), func(context.Context, string) (string, error) {
				t.Error("the effect ran")
				return "", nil
			})
			wantError(t, "DoTx", err, idem.ErrInProgress)
			return "ok", nil
		}); err != nil {
			t.Fatal(err)
		}
		if n := len(l.waits); n < 10 || n > 60 {
			t.Errorf("%d looks in 10 s, want 10 to 60", n)
		}
	})
}
