package httpsuite_test

import (
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/conformance/httpsuite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// planted is a fault and what catches it.
type planted struct {
	fault  func(l *layer)
	caught string // these cases do, and others must not
	groups string // but for those of these groups
	only   string // groups that are run, all if empty
	config func(c *httpsuite.Config)
	secure bool // with TLS and HTTP/2
	wire   func(l net.Listener) net.Listener
}

// play runs the suite on a server with a fault.
func play(t *testing.T, p planted) *conformance.Report {
	t.Helper()
	a := newApp()
	c := a.serve(t, newLayer(a, p.fault), p)
	if p.config != nil {
		p.config(&c)
	}
	opts := []httpsuite.Option{httpsuite.Only(strings.Fields(p.only)...)}
	if p.only == "" {
		opts = nil
	}
	r, err := httpsuite.Check(t.Context(), c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func none(*layer) {}

// A server without a fault fails no case, each fault is caught by the cases named for it
// and by no others, and each case catches a fault.
func TestSuite(t *testing.T) {
	t.Parallel()
	right := play(t, planted{fault: none, secure: true})
	for _, r := range right.Results {
		if r.Verdict != conformance.Passed {
			t.Errorf("without a fault %s is %s, want passed: %s %q", r.ID, r.Verdict, r.Reason, r.Log)
		}
	}
	all := httpsuite.Cases()
	var mu sync.Mutex
	catches := make(map[string]bool)
	t.Run("faults", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(faults)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := faults[name]
				r := play(t, p)
				failed := r.Failed()
				t.Logf("caught by %s", strings.Join(failed, " "))
				caught, groups := strings.Fields(p.caught), strings.Fields(p.groups)
				for _, want := range caught {
					if !slices.Contains(failed, want) {
						t.Errorf("%s passed, want it to catch this", want)
					}
				}
				for _, id := range failed {
					if group, _, _ := strings.Cut(id, "/"); !slices.Contains(caught, id) && !slices.Contains(groups, group) {
						t.Errorf("%s failed, want it to have nothing to do with this: %q", id, logOf(r, id))
					}
				}
				if len(failed) > len(all)/3 {
					return // it says little of a case that it finds this too
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range caught {
					catches[id] = true
				}
			})
		}
	})
	for _, c := range all {
		if !catches[c.ID] {
			t.Errorf("%s catches no fault", c.ID)
		}
	}
	t.Logf("%d faults, %d cases", len(faults), len(all))
}

func logOf(r *conformance.Report, id string) []string {
	i := slices.IndexFunc(r.Results, func(c conformance.Result) bool { return c.ID == id })
	return r.Results[i].Log
}

// Every case says in a sentence what it checks, and where that is from.
func TestCases(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, c := range httpsuite.Cases() {
		if seen[c.ID] || c.Source == "" || !strings.HasSuffix(c.Rule, ".") || strings.Count(c.ID, "/") != 1 {
			t.Errorf("case %+v, want an id of its own, a sentence and its source", c)
		}
		seen[c.ID] = true
	}
}
