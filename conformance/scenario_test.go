package conformance

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
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
		r := run(t.Context(), s, tt.play)
		if r.Verdict != tt.want || !strings.Contains(strings.Join(r.Log, "\n"), tt.log) || r.ID != s.id || r.Rule != s.rule {
			t.Errorf("run(%s) = %+v, want %s with %q", name, r, tt.want, tt.log)
		}
	}
}

func TestBoundOfACase(t *testing.T) {
	t.Parallel()
	r := run(t.Context(), scenario{id: "some/case", bound: time.Millisecond}, func(t T) {
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
	run(t.Context(), scenario{bound: time.Minute}, func(t T) {
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
	for _, c := range cases() {
		note(c.scenario)
	}
	for _, c := range txCases[any]() {
		note(c.scenario)
	}
}
