package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/idem-go/idem/conformance"
)

// progress prints what there is to tell while the cases run, one after the other: a
// line per group, or per case. What failed is printed in full either way.
type progress struct {
	w       io.Writer
	verbose bool
	group   []conformance.Result // not told yet
}

func (p *progress) add(r conformance.Result) {
	if len(p.group) > 0 && groupOf(p.group[0].ID) != groupOf(r.ID) {
		p.flush()
	}
	p.group = append(p.group, r)
	if p.verbose {
		p.tell(r)
	}
}

// flush ends a group.
func (p *progress) flush() {
	if len(p.group) > 0 && !p.verbose {
		fmt.Fprintf(p.w, "%-12s %s\n", groupOf(p.group[0].ID), counts(p.group))
		for _, r := range p.group {
			if r.Verdict == conformance.Failed {
				p.tell(r)
			}
		}
	}
	p.group = nil
}

func (p *progress) tell(r conformance.Result) {
	fmt.Fprintf(p.w, "%-12s %s\n", r.Verdict, r.ID)
	if r.Verdict == conformance.Failed {
		fmt.Fprintf(p.w, "    rule: %s\n    %s\n", r.Rule, strings.ReplaceAll(strings.Join(r.Log, "\n"), "\n", "\n    "))
	}
}

// summary prints the end: what was not shown, why, and how to run the rest alone.
func summary(w io.Writer, r *conformance.Report) {
	fmt.Fprintf(w, "%-12s %s\n", "total", counts(r.Results))
	reasons, open := make(map[string]bool), []string(nil)
	for _, c := range r.Results {
		if c.Reason != "" && c.Verdict != conformance.Passed && !reasons[c.Reason] {
			fmt.Fprintf(w, "%s: %s\n", c.Verdict, c.Reason)
		}
		reasons[c.Reason] = true
		if c.Verdict == conformance.NotRun || c.Verdict == conformance.NotShown {
			open = append(open, regexp.QuoteMeta(c.ID))
		}
	}
	if open != nil && r.Status() == conformance.StatusIncomplete {
		fmt.Fprintf(w, "the exit status is %d for these; without them: -skip '^(%s)$'\n", conformance.StatusIncomplete, strings.Join(open, "|"))
	}
}

// counts says how many results there are of each verdict.
func counts(results []conformance.Result) string {
	n := make(map[conformance.Verdict]int)
	for _, r := range results {
		n[r.Verdict]++
	}
	var parts []string
	for _, v := range []conformance.Verdict{conformance.Passed, conformance.Failed, conformance.Xfailed, conformance.NotRun, conformance.NotShown} {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	return strings.Join(parts, ", ")
}
