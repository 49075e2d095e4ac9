package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/idem-go/idem/backend"
)

// Verdict of a case.
type Verdict string

// The verdicts. NotRun and NotShown mean that something was missing, and
// Result.Reason says what: they prove nothing.
const (
	Passed   Verdict = "passed"
	Failed   Verdict = "failed"
	NotRun   Verdict = "not run"
	NotShown Verdict = "not shown" // a claim that this harness has no means to show
	Xfailed  Verdict = "xfailed"   // failed as [Xfail] says it does
)

// Result of one case.
type Result struct {
	ID      string   `json:"id"`               // stable, "claim/mismatch-in-flight"
	Rule    string   `json:"rule"`             // the sentence of the contract
	Verdict Verdict  `json:"verdict"`          //
	Reason  string   `json:"reason,omitempty"` // why it is not run, not shown or expected to fail
	Needs   []Power  `json:"needs,omitempty"`  // what the harness has to be able to do
	Lacks   []Power  `json:"lacks,omitempty"`  // what of it this one can't
	Claims  []Claim  `json:"claims,omitempty"` // what it showed of the backend's Description
	Tried   string   `json:"tried,omitempty"`  // how much a case tried that can only search for a failure
	Log     []string `json:"log,omitempty"`    // what it had to say, in order

	described backend.Description
}

// Claim is one capability, as claimed and as it was found.
type Claim struct {
	Name     string `json:"name"`            // of the field of backend.Capabilities
	Property string `json:"property"`        // what that is
	Claimed  string `json:"claimed"`         //
	Measured string `json:"measured"`        // "-" where nothing was to be seen
	Limit    string `json:"limit,omitempty"` // what, by this claim, is not guaranteed
}

// Word is the verdict as reports put it: "verified", "refuted", "not refuted in
// 200 histories", "refuted, as expected", "not run", "not shown". A case that tests
// claims and measured none, because nothing is claimed, is not run.
func (r Result) Word() string {
	switch r.Verdict {
	case Passed:
		switch {
		case r.unclaimed():
			return string(NotRun)
		case r.Tried != "":
			return "not refuted in " + r.Tried
		}
		return "verified"
	case Failed:
		return "refuted"
	case Xfailed:
		return "refuted, as expected"
	default:
		return string(r.Verdict)
	}
}

// unclaimed tells of a case that tests claims and had nothing to measure.
func (r Result) unclaimed() bool {
	return r.Claims != nil && !slices.ContainsFunc(r.Claims, Claim.measured)
}

func (c Claim) measured() bool { return c.Measured != "-" }

// WordOf is Word for one of the claims: "not run" where it was not measured. What a
// backend doesn't promise is believed.
func (r Result) WordOf(c Claim) string {
	if r.Verdict == Passed && !c.measured() {
		return string(NotRun)
	}
	return r.Word()
}

// Report holds the results of a suite in the order of its cases.
type Report struct {
	Backend string   `json:"backend,omitempty"` // its name, as Describe says it
	Server  string   `json:"server,omitempty"`  // the server's version
	Results []Result `json:"results"`
}

// Failed lists the ids of the cases that failed.
func (r *Report) Failed() []string { return r.ids(Failed) }

func (r *Report) ids(verdicts ...Verdict) []string {
	var ids []string
	for _, c := range r.Results {
		if slices.Contains(verdicts, c.Verdict) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// Exit statuses of a command that runs the suite.
const (
	StatusOK         = 0 // every case passed, or failed as expected
	StatusFailed     = 1 // a case failed
	StatusIncomplete = 3 // none failed, but something was not run or not shown
)

// Status is the exit status for a report. One without any result is incomplete.
func (r *Report) Status() int {
	switch {
	case len(r.ids(Failed)) > 0:
		return StatusFailed
	case len(r.ids(NotRun, NotShown)) > 0 || len(r.Results) == 0:
		return StatusIncomplete
	}
	return StatusOK
}

// WriteJSON writes everything that is known, the logs too.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteMarkdown writes a report to keep: verdicts and bounds, no time and no
// measured figure, so that two runs with the same verdicts give the same text.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	title := strings.TrimSpace("Conformance " + r.Backend)
	fmt.Fprintf(&b, "# %s\n\n", cell(strings.TrimSpace(title+" "+r.Server)))
	fmt.Fprintf(&b, "Cases: %d. %s.\n", len(r.Results), r.Summary())

	limits := newTable("Not guaranteed", "Limit", "Case", "Seen")
	claims := newTable("Claims", "Claim", "Claimed", "Measured", "Verdict")
	open := newTable("Not run, not shown, expected", "Case", "Verdict", "Needs", "Reason")
	cases := newTable("Cases", "Case", "Rule", "Verdict")
	for _, c := range r.Results {
		for _, claim := range c.Claims {
			claims.row("`"+claim.Name+"`: "+claim.Property, claim.Claimed, claim.Measured, c.WordOf(claim))
			if claim.Limit != "" {
				limits.row(claim.Limit, c.ID, seen(claim))
			}
		}
		if c.Reason != "" {
			open.row(c.ID, c.Word(), list(c.Needs), c.Reason)
		}
		cases.row(c.ID, c.Rule, c.Word())
	}
	for _, t := range []*mdTable{limits, claims, open, cases} {
		if t.rows > 0 {
			b.WriteString(t.text.String())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unclaimed is why a case is not run that could have shown a claim.
const unclaimed = "it is not claimed, which is believed"

func seen(c Claim) string {
	if !c.measured() {
		return "not run: " + unclaimed
	}
	return c.Measured
}

// Summary says how many cases there are of each verdict: "98 verified; 1 refuted".
func (r *Report) Summary() string {
	n := make(map[string]int)
	for _, c := range r.Results {
		word, _, _ := strings.Cut(c.Word(), " in ")
		n[word]++
	}
	var parts []string
	for _, word := range []string{"verified", "not refuted", "refuted", "refuted, as expected", "not run", "not shown"} {
		if n[word] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[word], word))
		}
	}
	return strings.Join(parts, "; ")
}

// mdTable is a table with a heading.
type mdTable struct {
	text strings.Builder
	rows int
}

func newTable(heading string, columns ...string) *mdTable {
	t := &mdTable{rows: -2}
	fmt.Fprintf(&t.text, "\n## %s\n\n", heading)
	t.row(columns...)
	t.row(slices.Repeat([]string{"---"}, len(columns))...)
	return t
}

func (t *mdTable) row(cells ...string) {
	for _, c := range cells {
		t.text.WriteString("| " + cell(c) + " ")
	}
	t.text.WriteString("|\n")
	t.rows++
}

// cell makes a text fit for a line of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}
