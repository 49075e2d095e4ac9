package conformance

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
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

// Run runs the suite as subtests of t. newStore is called once per case and
// cleans up with t.Cleanup.
//
// Cases run in parallel, but for those that kill, pause or cut off the server:
// they run before, one at a time.
//
// A case that is not run and a claim that is not shown are skipped with the
// reason. Where the environment variable IDEM_TEST_REQUIRE is "all", or a list with
// "conformance" in it, they fail.
func Run(t *testing.T, newStore func(t *testing.T) Store, opts ...Option) {
	runCases(t, cases(), newStore, opts)
}

// Check runs the suite without package testing, one case at a time. newStore is
// called once per case, with the T of that case. When ctx ends, the cases that have
// not begun are not run.
func Check(ctx context.Context, newStore func(t T) Store, opts ...Option) *Report {
	return checkCases(ctx, cases(), newStore, opts)
}

func runCases[S any, C playable[S]](t *testing.T, all []C, newStore func(t *testing.T) S, opts []Option) {
	t.Helper()
	o := newOptions(opts)
	chosen, wrong := choose[S](o, all)
	for _, text := range wrong {
		t.Error(text)
	}
	for _, c := range chosen {
		t.Run(c.about().id, func(t *testing.T) {
			if !disturbs(c.about().needs) {
				t.Parallel()
			}
			s := newStore(t)
			report(t, o.settle(run(t.Context(), c.about(), o.seed, func(r *recorder) { c.start(r, s) })))
		})
	}
}

func checkCases[S any, C playable[S]](ctx context.Context, all []C, newStore func(t T) S, opts []Option) *Report {
	o, r := newOptions(opts), &Report{}
	chosen, wrong := choose[S](o, all)
	for _, text := range wrong {
		r.Results = append(r.Results, Result{ID: "suite/options", Rule: "Options name groups and cases that there are.", Verdict: Failed, Log: []string{text}})
	}
	for _, c := range chosen {
		if err := context.Cause(ctx); err != nil {
			s := c.about()
			r.Results = append(r.Results, o.settle(Result{ID: s.id, Rule: s.rule, Needs: s.needs, Verdict: NotRun, Reason: "the run was ended: " + err.Error()}))
			continue
		}
		res := run(ctx, c.about(), o.seed, func(r *recorder) { c.start(r, newStore(r)) })
		if r.Backend == "" {
			r.Backend, r.Server = res.described.Name, res.described.Server
		}
		r.Results = append(r.Results, o.settle(res))
	}
	return r
}

// report makes a result that of a test.
func report(t *testing.T, r Result) {
	t.Helper()
	for _, line := range r.Log {
		t.Log(line)
	}
	switch r.Verdict {
	case Passed:
	case Xfailed:
		t.Skipf("FAILS, AS EXPECTED: %s: %s: %s", r.ID, r.Rule, r.Reason)
	case NotRun, NotShown:
		if required(os.Getenv("IDEM_TEST_REQUIRE")) {
			t.Errorf("%s is %s, but required (IDEM_TEST_REQUIRE): %s: %s", r.ID, r.Verdict, r.Rule, r.Reason)
			return
		}
		t.Skipf("SKIPPED, NOT TESTED: %s: %s: %s", r.ID, r.Rule, r.Reason)
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

func (c testCase) start(r *recorder, s Store) {
	r.lacking(c.scenario, s.powers())
	e := &env{T: r, rec: r, Store: s, b: s.Open(r)}
	e.claimed(c.claims)
	c.f(e)
}

func rule(id, text string, f func(e *env)) testCase {
	return testCase{scenario{id: id, rule: text, bound: time.Minute}, f}
}

// needing is a rule that a harness can only show with powers.
func needing(needs []Power, id, text string, f func(e *env)) testCase {
	c := rule(id, text, f)
	c.needs, c.bound = needs, 2*time.Minute
	return c
}

func cases() []testCase {
	return slices.Concat(tableCases(), claimCases, keyCases, leaseCases, fenceCases, checkpointCases,
		completeCases, getCases, sweepCases, errorCases, lifecycleCases, listCases, waitCases, capabilityCases, faultCases, historyCases)
}

// Case is a case of the suite.
type Case struct {
	ID    string  // stable, "claim/mismatch-in-flight"
	Rule  string  // the sentence of the contract
	Needs []Power // what the harness has to be able to do
}

// Cases lists those of [Run] and [Check] in their order.
func Cases() []Case { return listed(cases()) }

// TxCases lists those of [RunTx] and [CheckTx].
func TxCases() []Case { return listed(txCases[struct{}]()) }

func listed[S any, C playable[S]](all []C) []Case {
	out := make([]Case, len(all))
	for i, c := range all {
		s := c.about()
		out[i] = Case{ID: s.id, Rule: s.rule, Needs: slices.Clone(s.needs)}
	}
	return out
}
