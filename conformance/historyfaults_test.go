package conformance_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
)

// historyFaults show only, or soonest, when many work on a key at once. wrap is put
// around each handle; the handles share it.
var historyFaults = map[string]historyFault{
	"creates in two steps":     {fault: gapped(func(r *rec, m machine.Claim) bool { return r == nil }), caught: "history/linearizable history/one-completes"},
	"takes over in two steps":  {fault: gapped(func(r *rec, m machine.Claim) bool { return r != nil }), caught: "history/takeover"},
	"renews in two steps":      {fault: gapped(func(*rec, machine.Renew) bool { return true }), caught: "history/takeover"},
	"checkpoints in two steps": {fault: gapped(func(*rec, machine.Checkpoint) bool { return true }), caught: "history/linearizable history/takeover"},
	"completes in two steps":   {fault: gapped(func(*rec, machine.Complete) bool { return true }), caught: "history/linearizable history/one-completes"},
	"releases in two steps":    {fault: gapped(func(*rec, machine.Release) bool { return true }), caught: "history/linearizable"},
	"takes a second response of a later step": {fault: seeing(func(r *rec, m *machine.Complete, _ time.Time) {
		if r.Status == backend.Completed && m.Sequence > r.Sequence+1 {
			r.Status = backend.Started
		}
	}), caught: "history/linearizable"},
	"takes a checkpoint that was overtaken": {fault: seeing(func(r *rec, m *machine.Checkpoint, _ time.Time) {
		if r.Status == backend.Started && m.Sequence < r.Sequence {
			r.Sequence = 0
		}
	}), caught: "history/lost-replies"},
	"forgets late points at a takeover": {fault: leaving(func(before, after *rec, _ machine.Claim, _ time.Time) {
		if before.Sequence > 1 && before.ClaimID != (backend.ClaimID{}) {
			after.RecoveryPoint, after.State = "p1", []byte("s1")
		}
	}), caught: "history/takeover"},
	"loses a write in twenty":           {fault: losing(20), caught: "history/linearizable history/lost-replies history/takeover"},
	"reads what another read before":    {wrap: lagging, caught: "history/linearizable"},
	"says of what it did that it can't": {wrap: denying, caught: "history/linearizable"},
}

type historyFault struct {
	fault  func(f *faulty)
	wrap   func() func(b backend.Backend) backend.Backend
	caught string
}

func (h historyFault) store(conformance.T) conformance.Store {
	clock := memory.NewClock(epoch)
	b := newFaulty(clock.Now, func(f *faulty) {
		if h.fault != nil {
			h.fault(f)
		}
	})
	open := b.open
	if h.wrap != nil {
		wrap := h.wrap()
		open = func() backend.Backend { return wrap(b.open()) }
	}
	return conformance.Store{Advance: clock.Advance, Open: func(conformance.T) backend.Backend { return open() }}
}

// gapped makes messages of type M two steps, a read and a write, with a gap between
// them.
func gapped[M machine.Message](when func(r *rec, m M) bool) func(f *faulty) {
	return func(f *faulty) {
		f.step = func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
			after, out := machine.Step(r, m, now)
			if c, ok := m.(M); ok && out.Changed && when(r, c) {
				f.mu.Unlock()
				time.Sleep(time.Millisecond)
				f.mu.Lock()
			}
			return after, out
		}
	}
}

// losing acknowledges a write in n and doesn't store it.
func losing(n int) func(f *faulty) {
	return func(f *faulty) {
		writes := 0
		f.step = func(r *rec, m machine.Message, now time.Time) (*rec, machine.Outcome) {
			after, out := machine.Step(r, m, now)
			if _, claim := m.(machine.Claim); !claim && out.Changed {
				if writes++; writes%n == 0 {
					return r, machine.Outcome{}
				}
			}
			return after, out
		}
	}
}

// lagging answers a Get with what the Get before found, on whatever handle.
func lagging() func(b backend.Backend) backend.Backend {
	type found struct {
		r   backend.Record
		err error
	}
	var mu sync.Mutex
	before := make(map[backend.Key]found)
	return func(b backend.Backend) backend.Backend {
		return &reader{b, func(ctx context.Context, k backend.Key) (backend.Record, error) {
			r, err := b.Get(ctx, k)
			mu.Lock()
			defer mu.Unlock()
			old, ok := before[k]
			before[k] = found{r, err}
			if ok {
				return old.r, old.err
			}
			return r, err
		}}
	}
}

type reader struct {
	backend.Backend
	get func(ctx context.Context, k backend.Key) (backend.Record, error)
}

func (g *reader) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	return g.get(ctx, k)
}

// denying says ErrUnavailable to one checkpoint in five that it stored.
func denying() func(b backend.Backend) backend.Backend {
	var mu sync.Mutex
	stored := 0
	return func(b backend.Backend) backend.Backend {
		return &denied{b, func(err error) error {
			mu.Lock()
			defer mu.Unlock()
			if stored++; err == nil && stored%5 == 0 {
				return &backend.Error{Op: "denying: checkpoint", Kind: backend.ErrUnavailable}
			}
			return err
		}}
	}
}

type denied struct {
	backend.Backend
	say func(err error) error
}

func (c *denied) Checkpoint(ctx context.Context, l backend.Lease, p backend.Checkpoint) error {
	return c.say(c.Backend.Checkpoint(ctx, l, p))
}

// What only a history shows is shown by few of them.
func TestHistories(t *testing.T) {
	t.Parallel()
	const runs = 10
	for _, name := range slices.Sorted(maps.Keys(historyFaults)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := historyFaults[name]
			missing := strings.Fields(f.caught)
			for n := 0; len(missing) > 0; n++ {
				if n == runs {
					t.Fatalf("%v passed %d times, want each to catch this", missing, runs)
				}
				failed := conformance.Check(t.Context(), f.store, conformance.Only("history")).Failed()
				t.Logf("caught by %v", failed)
				missing = slices.DeleteFunc(missing, func(id string) bool { return slices.Contains(failed, id) })
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		var named []string
		for _, f := range historyFaults {
			named = append(named, strings.Fields(f.caught)...)
		}
		for _, c := range conformance.Check(t.Context(), historyFault{}.store, conformance.Only("history")).Results {
			if c.Verdict != conformance.Passed || !strings.HasPrefix(c.Word(), "not refuted in ") {
				t.Errorf("%s without a fault: %s, %q, want it not refuted in some histories", c.ID, c.Word(), c.Log)
			}
			if !slices.Contains(named, c.ID) {
				t.Errorf("%s is named for no fault", c.ID)
			}
		}
	})
}
