package idem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// farSide is somebody else's system, which the test asks what it got.
type farSide struct {
	keys  []string // of the calls it got, in order
	reply []error  // of the calls to come: nil an answer, errGoes no answer
}

func (f *farSide) do(_ context.Context, key string) (string, error) {
	f.keys = append(f.keys, key)
	if len(f.reply) > 0 {
		err := f.reply[0]
		f.reply = f.reply[1:]
		if err != nil {
			return "", err
		}
	}
	return "charge of " + key, nil
}

func (f *farSide) want(t *testing.T, n int) {
	t.Helper()
	if len(f.keys) != n {
		t.Errorf("the far side got %d calls, want %d", len(f.keys), n)
	}
	for _, k := range f.keys {
		if k != f.keys[0] {
			t.Errorf("the far side got the keys %q, want one", f.keys)
		}
	}
}

// calling is an effect that calls the far side between two phases.
func calling(s *steps, f idem.Foreign[string]) func(context.Context, *idem.Run) (string, error) {
	return func(ctx context.Context, run *idem.Run) (string, error) {
		if _, err := s.phase(ctx, run, "create", ""); err != nil {
			return "", err
		}
		c, err := idem.Call(ctx, run, "charge", f)
		if err != nil {
			return "", err
		}
		_, err = s.phase(ctx, run, "note", "")
		return c, err
	}
}

// What a run finds that comes upon a call which an earlier one has sent, by the kind
// of the call: hard cases 6 and 7.
func TestCallsResume(t *testing.T) {
	t.Parallel()
	inquiry := func(v string, o idem.Outcome, err error) func(*[]string) func(context.Context, string) (string, idem.Outcome, error) {
		return func(asked *[]string) func(context.Context, string) (string, idem.Outcome, error) {
			return func(_ context.Context, key string) (string, idem.Outcome, error) {
				*asked = append(*asked, key)
				return v, o, err
			}
		}
	}
	for name, c := range map[string]struct {
		inquire func(*[]string) func(context.Context, string) (string, idem.Outcome, error)
		once    bool
		calls   int
		want    error
	}{
		"repeatable":                {calls: 2},
		"once":                      {once: true, calls: 1, want: idem.ErrNeedsResolution},
		"done":                      {inquire: inquiry("found", idem.OutcomeDone, nil), calls: 1},
		"never":                     {inquire: inquiry("", idem.OutcomeNever, nil), calls: 2},
		"never, once":               {inquire: inquiry("", idem.OutcomeNever, nil), once: true, calls: 2},
		"unknown":                   {inquire: inquiry("", idem.OutcomeUnknown, nil), calls: 1, want: idem.ErrUnknownOutcome},
		"the inquiry fails":         {inquire: inquiry("", idem.OutcomeDone, errBoom), calls: 1, want: errBoom},
		"refused, says the inquiry": {inquire: inquiry("", idem.OutcomeUnknown, idem.Refused("declined")), calls: 1, want: &idem.RefusedError{Reason: "declined"}},
		"no outcome":                {inquire: inquiry("", 7, nil), calls: 1, want: idem.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s, far := memory.New(), newSteps(), &farSide{reply: []error{errBoom}}
				var asked []string
				f := idem.Foreign[string]{Do: far.do, Once: c.once, Settle: time.Second}
				if c.inquire != nil {
					f.Inquire = c.inquire(&asked)
				}
				e := phased(t, m)
				_, err := idem.Do(t.Context(), e, request("key-0001"), calling(s, f))
				wantError(t, "Do", err, errBoom)
				wantError(t, "Do", err, idem.ErrUnknownOutcome)
				// The call may still be under way: nobody resumes before the lease is over.
				_, err = idem.Do(t.Context(), e, request("key-0001"), never(t))
				wantError(t, "Do(at once)", err, idem.ErrInProgress)
				time.Sleep(idem.DefaultLease)
				began := time.Now()
				res, err := idem.Do(t.Context(), e, request("key-0001"), calling(s, f))
				if refused, ok := errors.AsType[*idem.RefusedError](c.want); ok {
					if got, ok := errors.AsType[*idem.RefusedError](err); !ok || *got != *refused {
						t.Errorf("Do(resumed) = %+v, %v, want %v", res, err, refused)
					}
				} else if !errors.Is(err, c.want) {
					t.Errorf("Do(resumed) = %+v, %v, want %v", res, err, c.want)
				}
				if time.Since(began) != time.Second {
					t.Errorf("the call had %v to settle, want 1s", time.Since(began))
				}
				far.want(t, c.calls)
				s.want(t, "create", 1)
				if c.want == nil {
					s.want(t, "note", 1)
				}
				for _, key := range asked {
					if key != far.keys[0] {
						t.Errorf("the inquiry's key is %q, the call's was %q", key, far.keys[0])
					}
				}
				if (len(asked) == 1) != (c.inquire != nil) {
					t.Errorf("%d inquiries", len(asked))
				}
				// What is not settled is free for the next to find out.
				if c.want != nil {
					_, again := idem.Do(t.Context(), e, request("key-0001"), calling(s, f))
					if errors.Is(again, idem.ErrInProgress) {
						t.Errorf("Do(once more) = %v, want what the second got: %v", again, err)
					}
				}
			})
		})
	}
}

// What an error of the call says is what becomes of the record.
func TestCallErrors(t *testing.T) {
	t.Parallel()
	m, s, far := memory.New(), newSteps(), &farSide{reply: []error{idem.NotDone(errBoom), idem.NotDone(errBoom), idem.Refused("declined")}}
	e := phased(t, m)
	effect := calling(s, idem.Foreign[string]{Do: far.do, Once: true})
	for range 2 { // surely not sent: again at once, also what must not be sent twice
		_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
		wantError(t, "Do", err, errBoom)
		if errors.Is(err, idem.ErrUnknownOutcome) {
			t.Errorf("Do = %v, want no unknown outcome", err)
		}
	}
	for i := range 2 { // a final no is as final as an answer
		_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
		if r, ok := errors.AsType[*idem.RefusedError](err); !ok || r.Reason != "declined" {
			t.Errorf("Do %d = %v, want the refusal", i, err)
		}
	}
	res, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		if _, err := effect(ctx, run); err != nil {
			return "", idem.Reject("no card, no goods")
		}
		return "paid", nil
	})
	if err != nil || res.Value != "no card, no goods" {
		t.Errorf("Do = %+v, %v, want the stored refusal", res, err)
	}
	far.want(t, 3)
	s.want(t, "note", 0)
}

// A call that was not sent binds the effect to nothing, neither this attempt nor the next:
// it may call again, go another way, or answer.
func TestAfterACallThatWasNotSent(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(ctx context.Context, run *idem.Run, f idem.Foreign[string]) (string, error){
		"calls again": func(ctx context.Context, run *idem.Run, f idem.Foreign[string]) (string, error) {
			return idem.Call(ctx, run, "charge", f)
		},
		"calls another": func(ctx context.Context, run *idem.Run, f idem.Foreign[string]) (string, error) {
			return idem.Call(ctx, run, "charge elsewhere", f)
		},
		"goes on": func(ctx context.Context, run *idem.Run, _ idem.Foreign[string]) (string, error) {
			return newSteps().phase(ctx, run, "put off", "later")
		},
		"answers": func(context.Context, *idem.Run, idem.Foreign[string]) (string, error) { return "later", nil },
	} {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resumed %v", name, resumed), func(t *testing.T) {
				t.Parallel()
				far := &farSide{reply: []error{idem.NotDone(errBoom)}}
				f := idem.Foreign[string]{Do: far.do, Once: true}
				e := phased(t, memory.New())
				_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
					_, err := idem.Call(ctx, run, "charge", f)
					wantError(t, "Call", err, errBoom)
					if resumed {
						return "", err
					}
					return next(ctx, run, f)
				})
				if !resumed {
					if err != nil {
						t.Errorf("Do = %v, want its answer", err)
					}
					return
				}
				wantError(t, "Do", err, errBoom)
				if _, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
					return next(ctx, run, f)
				}); err != nil {
					t.Errorf("Do(resumed) = %v, want its answer", err)
				}
			})
		}
	}
}

// A call that was perhaps sent by one run, and surely not by the next, was perhaps sent.
func TestNotSentAfterPerhapsSent(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	m, far := memory.New(memory.WithClock(clock)), &farSide{reply: []error{errBoom, idem.NotDone(errBoom)}}
	e := phased(t, m)
	_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: far.do})
	})
	wantError(t, "Do", err, idem.ErrUnknownOutcome)
	clock.Advance(idem.DefaultLease)
	_, err = idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		_, err := idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: far.do})
		wantError(t, "Call", err, errBoom)
		return "an answer over what nobody knows", nil
	})
	wantError(t, "Do(not sent)", err, idem.ErrUnknownOutcome)
	res, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: far.do})
	})
	if err != nil || res.Attempt != 3 {
		t.Errorf("Do(at once) = %+v, %v, want a third attempt", res, err)
	}
	far.want(t, 3)
}

// A reason is stored as it is told, however long or broken it comes.
func TestRefusedReason(t *testing.T) {
	t.Parallel()
	m, far := memory.New(), &farSide{reply: []error{idem.Refused("no\xff" + strings.Repeat("ä", 2000))}}
	e := phased(t, m)
	var told [2]string
	for i := range told {
		_, err := idem.Do(t.Context(), e, request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: far.do})
		})
		if r, ok := errors.AsType[*idem.RefusedError](err); ok {
			told[i] = r.Reason
		}
	}
	if told[0] != told[1] || !strings.HasPrefix(told[0], "noää") || len(told[0]) > 1024 {
		t.Errorf("the reason is told as %.20q… (%d bytes) and %.20q…", told[0], len(told[0]), told[1])
	}
	far.want(t, 1)
}

// A call that panics may have been sent.
func TestCallPanics(t *testing.T) {
	t.Parallel()
	m, s := memory.New(), newSteps()
	e := phased(t, m)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic ended in Do")
			}
		}()
		_, _ = idem.Do(t.Context(), e, request("key-0001"), calling(s, idem.Foreign[string]{Do: func(context.Context, string) (string, error) { panic("boom") }}))
	}()
	_, err := idem.Do(t.Context(), e, request("key-0001"), never(t))
	wantError(t, "Do(at once)", err, idem.ErrInProgress)
}

// Nothing is sent before the mark is stored, and nothing after the lease is over.
func TestCallIsNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		mark func(ctx context.Context, m *memory.Backend, l backend.Lease, c backend.Checkpoint) error
		want error
	}{
		"the mark is not stored": {func(context.Context, *memory.Backend, backend.Lease, backend.Checkpoint) error { return errDown }, idem.ErrUnavailable},
		"the mark's answer is lost": {func(ctx context.Context, m *memory.Backend, l backend.Lease, c backend.Checkpoint) error {
			_ = m.Checkpoint(ctx, l, c)
			return errLost
		}, idem.ErrUnavailable},
		"the lease is lost": {func(context.Context, *memory.Backend, backend.Lease, backend.Checkpoint) error {
			return &backend.Error{Op: "test", Kind: backend.ErrLeaseLost}
		}, idem.ErrLeaseLost},
		"the mark takes longer than the lease": {func(ctx context.Context, m *memory.Backend, l backend.Lease, c backend.Checkpoint) error {
			time.Sleep(2 * idem.DefaultLease)
			return m.Checkpoint(ctx, l, c)
		}, idem.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, far := memory.New(), &farSide{}
				f := &faulty{Backend: m, renew: func(context.Context, backend.Lease, time.Duration) error { return errDown }}
				f.checkpoint = func(ctx context.Context, l backend.Lease, cp backend.Checkpoint) error { return c.mark(ctx, m, l, cp) }
				_, err := idem.Do(t.Context(), phased(t, f), request("key-0001"), func(ctx context.Context, run *idem.Run) (string, error) {
					return idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: far.do})
				})
				wantError(t, "Do", err, c.want)
				far.want(t, 0)
			})
		})
	}
}

// A caller that goes away between the mark and the call leaves nothing to look for:
// the next attempt sends what never left, also a call that must not be sent twice.
func TestCallIsNotSentForACallerThatLeft(t *testing.T) {
	t.Parallel()
	m, far := memory.New(), &farSide{}
	ctx, leave := context.WithCancel(t.Context())
	f := &faulty{Backend: m, checkpoint: func(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
		defer leave()
		return m.Checkpoint(ctx, l, c)
	}}
	effect := func(ctx context.Context, run *idem.Run) (string, error) {
		return idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: far.do, Once: true})
	}
	_, err := idem.Do(ctx, phased(t, f), request("key-0001"), effect)
	wantError(t, "Do", err, idem.ErrUnavailable)
	far.want(t, 0)
	res, err := idem.Do(t.Context(), phased(t, m), request("key-0001"), effect)
	if err != nil || res.Attempt != 2 {
		t.Errorf("Do again = %+v, %v, want the call sent at last", res, err)
	}
	far.want(t, 1)
}

// Field report 32: the downstream key is the call's own, and the same for every
// attempt; it changes with all that the request is.
func TestDownstreamKeys(t *testing.T) {
	t.Parallel()
	keys := make(map[string]string)
	note := func(what string, req idem.Request, step string) {
		t.Helper()
		e := phased(t, memory.New())
		_, err := idem.Do(t.Context(), e, req, func(_ context.Context, run *idem.Run) (string, error) {
			key := run.Key(step)
			if other, ok := keys[key]; ok {
				t.Errorf("%s has the key of %s", what, other)
			}
			keys[key] = what
			return "", nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	note("the request", request("key-0001"), "charge")
	note("another step", request("key-0001"), "charge2")
	note("another key", request("key-0002"), "charge")
	r := request("key-0001")
	r.Scope.Tenant, r.Scope.Actor = "sho", "pada"
	note("another scope", r, "charge")
	r = request("key-0001")
	r.Operation = "POST /refunds"
	note("another operation", r, "charge")

	const golden = "7b40d67a-d194-8ea5-aa19-071cc632efdd"
	_, _ = idem.Do(t.Context(), phased(t, memory.New()), request("key-0001"), func(_ context.Context, run *idem.Run) (string, error) {
		if got := run.Key("charge"); got != golden {
			t.Errorf("Key = %s, want %s, as other languages derive it", got, golden)
		}
		return "", nil
	})
}

// A route that was renamed between two attempts keeps its downstream keys.
func TestDownstreamKeyOfARenamedOperation(t *testing.T) {
	t.Parallel()
	m, s, far := memory.New(), newSteps(), &farSide{reply: []error{idem.NotDone(errBoom)}}
	e, effect := phased(t, m), calling(s, idem.Foreign[string]{Do: far.do})
	_, err := idem.Do(t.Context(), e, request("key-0001"), effect)
	wantError(t, "Do", err, errBoom)
	renamed := request("key-0001")
	renamed.Operation = "POST /v2/payments"
	if _, err := idem.Do(t.Context(), e, renamed, effect); err != nil {
		t.Error(err)
	}
	far.want(t, 2)
}
