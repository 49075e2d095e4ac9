package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
)

// sample has a result of every kind.
func sample() *conformance.Report {
	return &conformance.Report{Backend: "mystore", Server: "1.2", Results: []conformance.Result{
		{ID: "a/passed", Rule: "One | two.", Verdict: conformance.Passed, Log: []string{"took 17ms"}},
		{ID: "a/claim", Rule: "Claims.", Verdict: conformance.Passed, Claims: []conformance.Claim{
			{Name: "Clock", Property: "whose it is", Claimed: "host", Measured: "the host's", Limit: "Callers share a machine."},
			{Name: "DurableKill", Property: "it survives", Claimed: "no", Measured: "-", Limit: "It is lost."},
		}},
		{ID: "a/unclaimed", Rule: "Not promised.", Verdict: conformance.Passed, Claims: []conformance.Claim{}, Reason: "nothing is claimed"},
		{ID: "a/searched", Rule: "Searches.", Verdict: conformance.Passed, Tried: "200 histories"},
		{ID: "a/xfailed", Rule: "Known.", Verdict: conformance.Xfailed, Reason: "a bug of the server"},
	}}
}

func with(r *conformance.Report, v conformance.Verdict) *conformance.Report {
	r.Results = append(r.Results, conformance.Result{
		ID: "a/" + string(v), Rule: "Rule.", Verdict: v,
		Reason: "the harness lacks restart", Needs: []conformance.Power{conformance.PowerRestart},
	})
	return r
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		report *conformance.Report
		want   int
	}{
		"fine":            {sample(), conformance.StatusOK},
		"failed":          {with(with(sample(), conformance.NotRun), conformance.Failed), conformance.StatusFailed},
		"not run":         {with(sample(), conformance.NotRun), conformance.StatusIncomplete},
		"not shown":       {with(sample(), conformance.NotShown), conformance.StatusIncomplete},
		"nothing was run": {&conformance.Report{}, conformance.StatusIncomplete},
	} {
		if got := tt.report.Status(); got != tt.want {
			t.Errorf("Status(%s) = %d, want %d", name, got, tt.want)
		}
	}
}

func TestWriteMarkdown(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if err := with(with(sample(), conformance.NotRun), conformance.NotShown).WriteMarkdown(&got); err != nil {
		t.Fatal(err)
	}
	const want = `# Conformance mystore 1.2

Cases: 7. 2 verified; 1 not refuted; 1 refuted, as expected; 2 not run; 1 not shown.

## Not guaranteed

| Limit | Case | Seen |
| --- | --- | --- |
| Callers share a machine. | a/claim | the host's |
| It is lost. | a/claim | not run: it is not claimed, which is believed |

## Claims

| Claim | Claimed | Measured | Verdict |
| --- | --- | --- | --- |
| ` + "`Clock`: whose it is" + ` | host | the host's | verified |
| ` + "`DurableKill`: it survives" + ` | no | - | not run |

## Not run, not shown, expected

| Case | Verdict | Needs | Reason |
| --- | --- | --- | --- |
| a/unclaimed | not run |  | nothing is claimed |
| a/xfailed | refuted, as expected |  | a bug of the server |
| a/not run | not run | restart | the harness lacks restart |
| a/not shown | not shown | restart | the harness lacks restart |

## Cases

| Case | Rule | Verdict |
| --- | --- | --- |
| a/passed | One \| two. | verified |
| a/claim | Claims. | verified |
| a/unclaimed | Not promised. | not run |
| a/searched | Searches. | not refuted in 200 histories |
| a/xfailed | Known. | refuted, as expected |
| a/not run | Rule. | not run |
| a/not shown | Rule. | not shown |
`
	if got.String() != want {
		t.Errorf("WriteMarkdown wrote\n%s\nwant\n%s", &got, want)
	}
}

// What JSON holds is the report as it was.
func TestWriteJSON(t *testing.T) {
	t.Parallel()
	var text, again bytes.Buffer
	if err := with(sample(), conformance.NotShown).WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var read conformance.Report
	if err := json.Unmarshal(text.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if err := read.WriteJSON(&again); err != nil || again.String() != text.String() || !strings.Contains(text.String(), "took 17ms") {
		t.Errorf("WriteJSON wrote\n%s\nand, read and written again, %v\n%s", &text, err, &again)
	}
}

// checkMemory runs the cases of get/ only.
func checkMemory(t *testing.T, opts ...conformance.Option) map[string]conformance.Result {
	t.Helper()
	results := make(map[string]conformance.Result)
	for _, r := range conformance.Check(t.Context(), func(conformance.T) conformance.Store {
		b := memory.New()
		return conformance.Store{Open: func(conformance.T) backend.Backend { return b }}
	}, append(opts, conformance.Only("get"))...).Results {
		results[r.ID] = r
	}
	return results
}

func TestXfail(t *testing.T) {
	t.Parallel()
	if r := checkMemory(t, conformance.Xfail("get/fresh", "a bug"))["get/fresh"]; r.Verdict != conformance.Failed {
		t.Errorf("Xfail(a case that passes) = %s, want failed", r.Verdict)
	}
	if r := checkMemory(t, conformance.Xfail("get/frseh", "a bug"))["suite/options"]; r.Verdict != conformance.Failed {
		t.Errorf("Xfail(no case) = %q, want failed", r.Verdict)
	}
	r := conformance.Check(t.Context(), func(t conformance.T) conformance.Store {
		t.Errorf("broken")
		return conformance.Store{Open: func(conformance.T) backend.Backend { return memory.New() }}
	}, conformance.Only("get"), conformance.Xfail("get/missing", "a bug"))
	if got := r.Results[0]; got.Verdict != conformance.Xfailed || got.Reason != "a bug" || slices.Contains(r.Failed(), got.ID) {
		t.Errorf("Xfail(a case that fails) = %s because of %q, want it xfailed, with the reason", got.Verdict, got.Reason)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	if got := checkMemory(t); len(got) != 4 {
		t.Errorf("Only(get): %d cases, want 4", len(got))
	}
	if got := checkMemory(t, conformance.Without("get")); len(got) != 0 {
		t.Errorf("Only(get), Without(get): %d cases, want none", len(got))
	}
	if got := checkMemory(t, conformance.Without("get/fresh"), conformance.Only("sweep/nothing")); len(got) != 4 || got["get/fresh"].ID != "" {
		t.Errorf("Only(get, sweep/nothing), Without(get/fresh): %d cases, want 4 without that one", len(got))
	}
	for name, o := range map[string]conformance.Option{"Only": conformance.Only("gte"), "Without": conformance.Without("gte")} {
		if r := checkMemory(t, o)["suite/options"]; r.Verdict != conformance.Failed {
			t.Errorf("%s(no group) = %q, want failed", name, r.Verdict)
		}
	}
}

// The seed decides what is called, and where a kill meets the runs; Each tells of
// every case.
func TestSeedAndEach(t *testing.T) {
	t.Parallel()
	var told []string
	r := conformance.Check(t.Context(), func(conformance.T) conformance.Store {
		b := memory.New()
		return conformance.Store{Open: func(conformance.T) backend.Backend { return b }}
	}, conformance.Only("history/linearizable", "get"), conformance.Seed(5), conformance.Each(func(r conformance.Result) {
		told = append(told, r.ID+" "+r.Word())
	}))
	if len(told) != len(r.Results) || told[0] != "get/missing verified" {
		t.Errorf("Each was told %q, want the %d results", told, len(r.Results))
	}
	last := r.Results[len(r.Results)-1]
	if log := strings.Join(last.Log, "\n"); !strings.Contains(log, "IDEM_TEST_SEED=5") {
		t.Errorf("%s said %q, want its seed", last.ID, log)
	}
}

// A run that is ended leaves the other cases unrun, and says so.
func TestCheckThatIsEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := conformance.Check(ctx, func(conformance.T) conformance.Store {
		b := memory.New()
		return conformance.Store{Open: func(conformance.T) backend.Backend { return b }}
	}, conformance.Only("get"), conformance.Each(func(conformance.Result) { cancel() }))
	if got := r.Results[0].Verdict; got != conformance.Passed {
		t.Errorf("the case before the end = %s, want passed", got)
	}
	for _, c := range r.Results[1:] {
		if c.Verdict != conformance.NotRun || !strings.Contains(c.Reason, "ended") {
			t.Errorf("%s = %s, %q, want it not run for that", c.ID, c.Verdict, c.Reason)
		}
	}
}

// A known bug of the store is named, with its reason, until it is gone.
func ExampleXfail() {
	TestConformance := func(t *testing.T) {
		conformance.Run(t, func(t *testing.T) conformance.Store {
			db := mystore.Empty(t)
			return conformance.Store{Open: func(conformance.T) backend.Backend { return mystore.New(db) }}
		}, conformance.Xfail("sweep/not-starved", "the server's bug 1234"), conformance.Without("fault"))
	}
	_ = TestConformance
}

func ExampleReport_WriteMarkdown() {
	r := &conformance.Report{Backend: "mystore", Results: []conformance.Result{
		{ID: "get/fresh", Rule: "Every handle sees every acknowledged write at once.", Verdict: conformance.Passed},
	}}
	_ = r.WriteMarkdown(os.Stdout)
	fmt.Println("status", r.Status())
	// Output:
	// # Conformance mystore
	//
	// Cases: 1. 1 verified.
	//
	// ## Cases
	//
	// | Case | Rule | Verdict |
	// | --- | --- | --- |
	// | get/fresh | Every handle sees every acknowledged write at once. | verified |
	// status 0
}
