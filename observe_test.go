package idem_test

import (
	"context"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memory"
)

// An observer that panics at the start of a run ends it as a panic of the effect
// does: the key is free at once.
func TestObserverPanics(t *testing.T) {
	first := true
	e, err := idem.New(memory.New(), idem.WithObserver(func(_ context.Context, ev idem.Event) {
		if first && ev.Kind == idem.Acquired {
			first = false
			panic("observer")
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	effect := func(context.Context, *idem.Run) (string, error) { return "done", nil }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not go on")
			}
		}()
		_, _ = idem.Do(t.Context(), e, request("key-0001"), effect)
	}()
	if res, err := idem.Do(t.Context(), e, request("key-0001"), effect); err != nil || res.Value != "done" {
		t.Errorf("Do() after it = %+v, %v, want it done", res, err)
	}
}
