package conformance

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

// T is what a case needs of a test. *testing.T satisfies it.
type T interface {
	Helper()
	Cleanup(f func())
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	// Skipf ends the case as not run. A store that can't be had calls it.
	Skipf(format string, args ...any)
}

var _ T = (*testing.T)(nil)

// Store is an empty store and what the harness can do to it.
type Store struct {
	// Open returns a handle on the store. A case opens several; they stand for
	// different processes and share what different processes would share.
	Open func(t T) backend.Backend

	// Advance moves the store's clock. Optional: without it cases wait.
	Advance func(d time.Duration)
}

// Verdict of a case.
type Verdict string

// The verdicts. NotRun means that something was missing, and the log says what:
// it proves nothing.
const (
	Passed Verdict = "passed"
	Failed Verdict = "failed"
	NotRun Verdict = "not run"
)

// Result of one case.
type Result struct {
	ID      string   // stable, "claim/mismatch-in-flight"
	Rule    string   // the sentence of the contract
	Verdict Verdict  //
	Log     []string // what it had to say, in order
}

// Report holds the results of a suite in the order of its cases.
type Report struct{ Results []Result }

// Failed lists the ids of the cases that failed.
func (r *Report) Failed() []string {
	var ids []string
	for _, c := range r.Results {
		if c.Verdict == Failed {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// Run runs the suite as subtests of t. newStore is called once per case and
// cleans up with t.Cleanup.
//
// A case that is not run is skipped with its reason. Where the environment
// variable IDEM_TEST_REQUIRE is "all", or a list with "conformance" in it, it
// fails.
func Run(t *testing.T, newStore func(t *testing.T) Store) {
	for _, c := range cases() {
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			report(t, run(t.Context(), c.scenario, func(t T) { c.start(t, s) }))
		})
	}
}

// Check runs the suite without package testing. newStore is called once per
// case, with the T of that case.
func Check(ctx context.Context, newStore func(t T) Store) *Report {
	r := &Report{}
	for _, c := range cases() {
		r.Results = append(r.Results, run(ctx, c.scenario, func(t T) { c.start(t, newStore(t)) }))
	}
	return r
}

// report makes a result that of a test.
func report(t *testing.T, r Result) {
	t.Helper()
	for _, line := range r.Log {
		t.Log(line)
	}
	switch {
	case r.Verdict == Passed:
	case r.Verdict == NotRun && !required(os.Getenv("IDEM_TEST_REQUIRE")):
		t.Skipf("SKIPPED, NOT TESTED: %s: %s", r.ID, r.Rule)
	case r.Verdict == NotRun:
		t.Errorf("%s is not run, but required (IDEM_TEST_REQUIRE): %s", r.ID, r.Rule)
	default:
		t.Errorf("%s broken: %s", r.ID, r.Rule)
	}
}

func required(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "all" || name == "conformance" {
			return true
		}
	}
	return false
}

// testCase is a case that needs nothing but a Backend.
type testCase struct {
	scenario
	f func(e *env)
}

func (c testCase) start(t T, s Store) { c.f(&env{T: t, Store: s, b: s.Open(t)}) }

func rule(id, text string, f func(e *env)) testCase {
	return testCase{scenario{id: id, rule: text, bound: time.Minute}, f}
}

func cases() []testCase {
	return slices.Concat(tableCases(), claimCases, keyCases, leaseCases, fenceCases, checkpointCases,
		completeCases, getCases, sweepCases, errorCases, lifecycleCases)
}
