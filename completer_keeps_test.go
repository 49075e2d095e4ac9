package idem_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// listing is a faulty store that can be listed.
type listing struct {
	faulty
	m *memory.Backend
}

func (l *listing) Lapsed(ctx context.Context, yield func(backend.Lapse) bool) error {
	return l.m.Lapsed(ctx, yield)
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("boom") }
func (*panics) UnmarshalJSON([]byte) error  { panic("boom") }

// However a completer's run fails, also before its first recovery point, the request is
// still there for the next pass: nobody else knows of it.
func TestCompleterKeepsTheRequest(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]func(c *idem.Completer, op string) error{
		"an error of a step that is not looked at": func(c *idem.Completer, op string) error {
			return idem.Handle(c, op, func(ctx context.Context, run *idem.Run, _ parcel) (string, error) {
				_, _ = idem.Phase(ctx, run, "", func(context.Context) (string, error) { return "", nil })
				return "an answer all the same", nil
			})
		},
		"a handler that says it did nothing": func(c *idem.Completer, op string) error {
			return idem.Handle(c, op, func(context.Context, *idem.Run, parcel) (string, error) { return "", idem.NotDone(errBoom) })
		},
		"a goroutine that ends": func(c *idem.Completer, op string) error {
			return idem.Handle(c, op, func(context.Context, *idem.Run, parcel) (string, error) {
				runtime.Goexit()
				return "", nil
			})
		},
		"an answer that panics": func(c *idem.Completer, op string) error {
			return idem.Handle(c, op, func(context.Context, *idem.Run, parcel) (panics, error) { return panics{}, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := memory.New()
				e := phased(t, m)
				leave(t, e, "key-0001", `{"to":"ada"}`)
				time.Sleep(idem.DefaultLease)
				c := completer(t, e, idem.WithBackoff(0, 0))
				if err := handle(c, request("").Operation); err != nil {
					t.Fatal(err)
				}
				pass(t, c, idem.Passed{Failed: 1})
				if r, err := m.Get(t.Context(), theKey); err != nil || string(r.Payload) != `{"to":"ada"}` {
					t.Errorf("Get = %+v, %v, want the request", r, err)
				}
				pass(t, c, idem.Passed{}) // until the lease is over
				time.Sleep(idem.DefaultLease)
				pass(t, c, idem.Passed{Failed: 1})
			})
		})
	}
}

// A payload whose type panics is one that does not decode, and ends no process.
func TestCompleterPayloadPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExecutor(t, memory.New())
		leave(t, e, "key-0001", `{}`)
		time.Sleep(idem.DefaultLease)
		c := completer(t, e, idem.WithBackoff(0, 0))
		if err := idem.Handle(c, request("").Operation, func(context.Context, *idem.Run, panics) (string, error) { return "", nil }); err != nil {
			t.Fatal(err)
		}
		pass(t, c, idem.Passed{Unread: 1})
	})
}

// The client came back in the last moment and its run was told to be over, with nothing
// done: the completer does not begin the request anew.
func TestCompleterComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		l := &listing{faulty{Backend: m}, m}
		e := newExecutor(t, l)
		leave(t, e, "key-0001", `{}`)
		time.Sleep(idem.DefaultLease)
		c := completer(t, e, idem.WithBackoff(0, 0))
		handle(t, c, func(context.Context, *idem.Run, parcel) (string, error) {
			t.Error("the handler ran")
			return "", nil
		})
		l.claim = func(ctx context.Context, cl backend.Claim) (backend.Claimed, error) {
			l.claim = nil
			_, err := idem.Do(ctx, newExecutor(t, m), request("key-0001"), func(context.Context, *idem.Run) (string, error) { return "", errBoom })
			if !errors.Is(err, errBoom) {
				t.Errorf("Do = %v", err)
			}
			return m.Claim(ctx, cl)
		}
		pass(t, c, idem.Passed{Waiting: 1})
		_, err := m.Get(t.Context(), theKey)
		wantError(t, "Get", err, idem.ErrNotFound)
	})
}

// The reply to a completer's claim is lost for good: the request is not.
func TestCompleterClaimReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		l := &listing{faulty{Backend: m}, m}
		e := newExecutor(t, l)
		leave(t, e, "key-0001", `{}`)
		time.Sleep(idem.DefaultLease)
		c := completer(t, e, idem.WithBackoff(0, 0))
		handle(t, c, func(context.Context, *idem.Run, parcel) (string, error) { return "done", nil })
		l.claim = func(ctx context.Context, cl backend.Claim) (backend.Claimed, error) {
			_, _ = m.Claim(ctx, cl)
			return backend.Claimed{}, errLost
		}
		pass(t, c, idem.Passed{Failed: 1})
		l.claim = nil
		time.Sleep(2 * idem.DefaultLease)
		pass(t, c, idem.Passed{Completed: 1})
	})
}
