//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package adapter_test

import (
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/examples/adapter"
	"github.com/idem-go/idem/memory"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store {
		dir := t.TempDir()
		open := func(conformance.T) backend.Backend { return adapter.New(dir) }
		return conformance.Store{Open: open}
	}, conformance.Without("capability", "fault"))
}

// With a clock that the suite moves it checks the boundaries exactly. The clock shows
// a microsecond more with every look, as a real one does: tokens are drawn from it.
func TestConformanceWithAMovedClock(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Store {
		dir, clock := t.TempDir(), memory.NewClock(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
		skewed := func(_ conformance.T, by time.Duration) backend.Backend {
			b := adapter.New(dir)
			b.SetClock(func() time.Time {
				clock.Advance(time.Microsecond)
				return clock.Now().Add(by)
			})
			return b
		}
		open := func(t conformance.T) backend.Backend { return skewed(t, 0) }
		return conformance.Store{Open: open, Advance: clock.Advance, Skewed: skewed}
	}, conformance.Without("capability/durable-kill", "capability/tokens", "fault")) // nobody kills a process here
}
