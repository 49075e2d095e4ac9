package conformance

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

// What becomes of a case, however it ends.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	s := scenario{id: "some/case", rule: "Some rule.", bound: time.Minute}
	for name, tt := range map[string]struct {
		play func(t T)
		want Verdict
		log  string
	}{
		"comes to its end": {func(t T) { t.Logf("hello") }, Passed, "hello"},
		"Errorf":           {func(t T) { t.Errorf("wrong %d", 1) }, Failed, "wrong 1"},
		"Fatalf":           {func(t T) { t.Fatalf("wrong") }, Failed, "wrong"},
		"Errorf, Skipf":    {func(t T) { t.Errorf("wrong"); t.Skipf("no server") }, Failed, "no server"},
		"Skipf":            {func(t T) { t.Skipf("no server"); panic("went on") }, NotRun, "no server"},
		"panic":            {func(T) { panic("boom") }, Failed, "boom"},
		"Goexit":           {func(T) { runtime.Goexit() }, Failed, "did not come to its end"},
	} {
		r := run(t.Context(), s, 0, func(r *recorder) { tt.play(r) })
		if r.Verdict != tt.want || !strings.Contains(strings.Join(r.Log, "\n"), tt.log) || r.ID != s.id || r.Rule != s.rule {
			t.Errorf("run(%s) = %+v, want %s with %q", name, r, tt.want, tt.log)
		}
	}
}

func TestBoundOfACase(t *testing.T) {
	t.Parallel()
	r := run(t.Context(), scenario{id: "some/case", bound: time.Millisecond}, 0, func(t *recorder) {
		<-t.Context().Done()
		t.Fatalf("%v", context.Cause(t.Context()))
	})
	if r.Verdict != Failed || !strings.Contains(strings.Join(r.Log, "\n"), errBound.Error()) {
		t.Errorf("run(case over its bound) = %+v, want it failed for that", r)
	}
}

func TestCleanupOrder(t *testing.T) {
	t.Parallel()
	var order []int
	run(t.Context(), scenario{bound: time.Minute}, 0, func(t *recorder) {
		for i := range 3 {
			t.Cleanup(func() { order = append(order, i) })
		}
		t.Fatalf("all the same")
	})
	if len(order) != 3 || order[0] != 2 || order[2] != 0 {
		t.Errorf("cleanups ran as %v, want the last first", order)
	}
}

// "not run" is no success where it is required.
func TestRequired(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]bool{
		"": false, "all": true, "postgres": false, "postgres, conformance": true, "conformance": true, "conformances": false,
	} {
		if got := required(list); got != want {
			t.Errorf("required(%q) = %v, want %v", list, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	note := func(s scenario) {
		if seen[s.id] || strings.Count(s.id, "/") != 1 || s.rule == "" || s.bound <= 0 {
			t.Errorf("case %q, %q, %v: want an id of its own with a group, a rule and a bound", s.id, s.rule, s.bound)
		}
		seen[s.id] = true
	}
	claims := make(map[string]bool)
	for _, c := range cases() {
		note(c.scenario)
		for _, name := range c.claims {
			claims[name] = true
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[backend.Capabilities]()) {
		if !claims[f.Name] {
			t.Errorf("no case tests the claim %s", f.Name)
		}
		if c := claimOf(backend.Capabilities{}, f.Name); c.Property == "" {
			t.Errorf("nothing says what the claim %s is", f.Name)
		}
	}
	for _, c := range txCases[any]() {
		note(c.scenario)
	}
}

// What a harness lacks, and what that means.
func TestPowers(t *testing.T) {
	t.Parallel()
	needs := scenario{id: "some/case", bound: time.Minute, needs: []Power{PowerRestart, PowerSkewed}}
	claims := needs
	claims.claims = []string{"Clock"}
	no, some := map[Power]bool{}, map[Power]bool{PowerRestart: true}
	play := func(s scenario, has map[Power]bool, v Verdict) Result {
		return run(t.Context(), s, 0, func(r *recorder) {
			r.lacking(s, has)
			if v != Passed {
				r.skip(v, "no means")
			}
		})
	}
	required := newOptions([]Option{Require(PowerSkewed)})
	for name, tt := range map[string]struct {
		got  Result
		want Verdict
		log  string
	}{
		"all there":               {play(needs, map[Power]bool{PowerRestart: true, PowerSkewed: true}, Passed), Passed, ""},
		"one missing":             {play(needs, some, Passed), NotRun, "lacks skewed"},
		"required, all missing":   {required.judge(play(needs, no, Passed)), Failed, "lacks skewed, which is required"},
		"required, other missing": {required.judge(play(needs, map[Power]bool{PowerSkewed: true}, Passed)), NotRun, "restart"},
		"claim shown without":     {required.judge(play(claims, no, Passed)), Passed, ""},
		"claim not shown":         {play(claims, some, NotShown), NotShown, "no means"},
		"required, not shown":     {required.judge(play(claims, some, NotShown)), Failed, "which is required"},
	} {
		if tt.got.Verdict != tt.want || !strings.Contains(strings.Join(tt.got.Log, "\n"), tt.log) {
			t.Errorf("%s: %s, %q, want %s with %q", name, tt.got.Verdict, tt.got.Log, tt.want, tt.log)
		}
	}
}
