package backend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/idem-go/idem/backend"
)

type driverError struct{ code int }

func (e *driverError) Error() string { return fmt.Sprintf("driver error %d", e.code) }

func TestErrorText(t *testing.T) {
	t.Parallel()
	cause := &driverError{7}
	for want, e := range map[string]*backend.Error{
		"s: claim: invalid":                               {Op: "s: claim", Kind: backend.ErrInvalid},
		"s: claim: unavailable: driver error 7":           {Op: "s: claim", Kind: backend.ErrUnavailable, Err: cause},
		"s: claim: unavailable: driver error 7 (migrate)": {Op: "s: claim", Kind: backend.ErrUnavailable, Err: cause, Hint: "migrate"},
		"s: claim: outcome unknown":                       {Op: "s: claim"},
		"s: claim: outcome unknown: driver error 7":       {Op: "s: claim", Err: cause},
	} {
		if got := e.Error(); got != want {
			t.Errorf("Error() of %#v = %q, want %q", e, got, want)
		}
	}
}

// Both the meaning and the driver's error are reachable.
func TestErrorUnwrap(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("wrapped: %w", &backend.Error{Op: "s: claim", Kind: backend.ErrRetryTx, Err: &driverError{7}})
	if !errors.Is(err, backend.ErrRetryTx) || errors.Is(err, backend.ErrConflict) {
		t.Errorf("errors.Is(%v): want ErrRetryTx and nothing else", err)
	}
	if d, ok := errors.AsType[*driverError](err); !ok || d.code != 7 {
		t.Errorf("errors.AsType(%v) = %v, %v, want the driver's error", err, d, ok)
	}
	if got := (&backend.Error{Op: "s"}).Unwrap(); len(got) != 0 {
		t.Errorf("Unwrap of an error without kind and cause = %v, want nothing", got)
	}
}

func TestNotApplied(t *testing.T) {
	t.Parallel()
	surely := []error{
		backend.ErrLeaseLost, backend.ErrConflict, backend.ErrInvalid, backend.ErrTooLarge,
		backend.ErrNotFound, backend.ErrUnavailable, backend.ErrRetryTx,
	}
	for _, kind := range surely {
		if err := fmt.Errorf("wrapped: %w", &backend.Error{Op: "s", Kind: kind}); !backend.NotApplied(err) {
			t.Errorf("NotApplied(%v) = false, want true", err)
		}
	}
	for _, err := range []error{
		nil, context.Canceled, context.DeadlineExceeded, errors.New("lease lost"), &driverError{7},
		&backend.Error{Op: "s", Err: context.Canceled}, &backend.Error{Op: "s"},
	} {
		if backend.NotApplied(err) {
			t.Errorf("NotApplied(%v) = true, want false: nobody knows", err)
		}
	}
}

func TestContextDone(t *testing.T) {
	t.Parallel()
	if err := backend.ContextDone(t.Context(), "s: get"); err != nil {
		t.Errorf("ContextDone(alive) = %v, want nil", err)
	}
	why := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err := backend.ContextDone(ctx, "s: get")
	if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, why) || !backend.NotApplied(err) {
		t.Errorf("ContextDone(ended) = %v, want ErrUnavailable with the cause", err)
	}
}
