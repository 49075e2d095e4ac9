package memory_test

import (
	"os"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/limits"
	"github.com/idem-go/idem/memory"
)

var page = limits.Of("memory", "the memory of one process").Spare("there is no server that could be killed, stopped or cut off", "fault")

var inRealTime = page.Variant("with a clock that nobody moves, as most servers have it")

func TestMain(m *testing.M) { os.Exit(page.After(m).Run()) }

// The clock of the tests is set to a time of its own, so that a mix-up with the
// wall clock can't go unnoticed.
func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(*testing.T) conformance.Store {
		clock := memory.NewClock(time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC))
		b := memory.New(memory.WithClock(clock))
		return conformance.Store{
			Open:    func(conformance.T) backend.Backend { return b },
			Advance: clock.Advance,
			Skewed: func(_ conformance.T, by time.Duration) backend.Backend {
				clock.Advance(by) // there is no other process
				return b
			},
		}
	}, conformance.Without("fault"), page.Shown())
}

// The same suite where nobody can move the clock: as most servers see it.
func TestConformanceInRealTime(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(*testing.T) conformance.Store {
		b := memory.New()
		return conformance.Store{Open: func(conformance.T) backend.Backend { return b }}
	}, conformance.Without("capability", "fault"), inRealTime.Shown())
}
