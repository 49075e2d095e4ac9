package conformance_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
)

// The clock of the tests is set to a time of its own, so that a mix-up with the
// wall clock can't go unnoticed.
var epoch = time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)

// failures runs the suite on backends with a fault.
func failures(t *testing.T, fault func(f *faulty), opts ...conformance.Option) (failed, all []string) {
	t.Helper()
	r := conformance.Check(t.Context(), func(conformance.T) conformance.Store {
		clock := memory.NewClock(epoch)
		b := newFaulty(clock.Now, fault)
		var first backend.Backend = b // one that sees its own writes
		if b.transact || b.warm {
			first = b.open()
		}
		return conformance.Store{
			Advance: clock.Advance,
			Open: func(conformance.T) backend.Backend {
				h := first
				first = b.open()
				return h
			},
			Restart:   func(conformance.T) { b.restart() },
			Pause:     func(conformance.T) func() { return b.pause() },
			Partition: func(conformance.T) func() { return b.partition() },
			Failover:  func(conformance.T) func() { return b.failover() },
			Skewed:    func(_ conformance.T, by time.Duration) backend.Backend { return b.skewed(by) },
		}
	}, opts...)
	for _, c := range r.Results {
		all = append(all, c.ID)
	}
	return r.Failed(), all
}

// A backend without a fault fails no case, each fault is caught by the cases named
// for it and by none outside of its groups, and each case catches a fault.
func TestSuite(t *testing.T) {
	t.Parallel()
	testFaults(t, faults, conformance.Without(ofServers...), conformance.Without("history", "wait", "list"))
}

// TestSuite for the cases that look at a server and at what is claimed of it.
func TestServerSuite(t *testing.T) {
	t.Parallel()
	testFaults(t, serverFaults, conformance.Only(ofServers...))
}

var ofServers = []string{"capability", "fault"}

func testFaults(t *testing.T, faults map[string]planted, opts ...conformance.Option) {
	t.Helper()
	failed, all := failures(t, func(*faulty) {}, opts...)
	if len(failed) != 0 {
		t.Fatalf("without a fault %v failed, want none", failed)
	}
	var mu sync.Mutex
	catches := make(map[string]bool)
	t.Run("faults", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(faults)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := faults[name]
				failed, _ := failures(t, f.fault, opts...)
				t.Logf("caught by %s", strings.Join(failed, " "))
				for _, want := range strings.Fields(f.caught) {
					if !slices.Contains(failed, want) {
						t.Errorf("%s passed, want it to catch this", want)
					}
				}
				groups := strings.Fields(f.groups)
				for _, id := range failed {
					group, _, _ := strings.Cut(id, "/")
					if !slices.Contains(strings.Fields(f.caught), id) && !slices.Contains(groups, group) {
						t.Errorf("%s failed, want it to have nothing to do with this", id)
					}
				}
				if len(failed) > len(all)/3 {
					return // it says little of a case that it finds this too
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range failed {
					catches[id] = true
				}
			})
		}
	})
	for _, id := range all {
		if !catches[id] {
			t.Errorf("%s catches no fault", id)
		}
	}
	t.Logf("%d faults, %d cases", len(faults), len(all))
}
