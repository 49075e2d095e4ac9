package conformance_test

import (
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
)

// What the case about failovers says it has seen, of stores that keep what they claim.
func TestFailoverIsShown(t *testing.T) {
	t.Parallel()
	durable := claiming(func(c *backend.Capabilities) { c.DurableFailover = true })
	unsure := func(f *faulty) {
		f.inherit = forgetting
		f.unsure = func(op string) error { return &backend.Error{Op: "faulty: " + op} }
	}
	for name, tt := range map[string]struct {
		fault          func(f *faulty)
		measured, word string
	}{
		"forgets and doesn't claim": {func(f *faulty) { f.inherit = forgetting }, "what was acknowledged was lost, and the key ran twice", "verified"},
		"forgets completions only": {func(f *faulty) {
			f.inherit = func(s *state) {
				for k, r := range s.records {
					started := *r
					started.Status, started.LockedUntil = backend.Started, epoch.Add(time.Hour)
					s.records[k] = &started
				}
			}
		}, "what was acknowledged was lost", "verified"},
		"keeps and claims":        {durable, "yes", "not refuted in 1 failover"},
		"keeps and doesn't claim": {func(*faulty) {}, "yes", "not refuted in 1 failover"}, // too modest, which is allowed
		"acknowledges nothing that is not copied": {func(f *faulty) {
			durable(f)
			unsure(f)
		}, "nothing was acknowledged that could be lost", "not refuted in 1 failover"},
		"the same without a claim": {unsure, "nothing was acknowledged that could be lost", "not refuted in 1 failover"},
	} {
		r := conformance.Check(t.Context(), func(conformance.T) conformance.Store {
			b := newFaulty(memory.NewClock(epoch).Now, tt.fault)
			return conformance.Store{
				Open:     func(conformance.T) backend.Backend { return b.open() },
				Failover: func(conformance.T) func() { return b.failover() },
			}
		}, conformance.Only("capability/durable-failover")).Results[0]
		if r.Verdict != conformance.Passed || len(r.Claims) != 1 || r.Claims[0].Measured != tt.measured || r.Word() != tt.word {
			t.Errorf("a store that %s: %s, %s, %+v, want %s, measured %q\n%s", name, r.Verdict, r.Word(), r.Claims, tt.word, tt.measured, r.Log)
		}
	}
}

// Who claims it and whose harness can't fail over has shown nothing.
func TestFailoverIsNotShown(t *testing.T) {
	t.Parallel()
	r := conformance.Check(t.Context(), func(conformance.T) conformance.Store {
		b := newFaulty(memory.NewClock(epoch).Now, claiming(func(c *backend.Capabilities) { c.DurableFailover = true }))
		return conformance.Store{Open: func(conformance.T) backend.Backend { return b.open() }}
	}, conformance.Only("capability/durable-failover")).Results[0]
	if r.Verdict != conformance.NotShown || len(r.Lacks) != 1 || r.Lacks[0] != conformance.PowerFailover {
		t.Errorf("a claim without %s = %s, lacks %q, want it not shown", conformance.PowerFailover, r.Verdict, r.Lacks)
	}
}
