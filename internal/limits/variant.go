package limits

import (
	"fmt"
	"io"

	"github.com/idem-go/idem/conformance"
)

// Variant is what further runs of the suite have seen, with the store set up in another
// way. The page sums it up, and lists what differs.
type Variant struct {
	page *Page
	how  string
	seen map[string][]conformance.Result
}

// Variant adds one: "through PgBouncer".
func (p *Page) Variant(how string) *Variant {
	v := &Variant{page: p, how: how, seen: make(map[string][]conformance.Result)}
	p.variants = append(p.variants, v)
	return v
}

// Shown is for each run of the variant, as [Page.Shown] is.
func (v *Variant) Shown() conformance.Option { return v.page.into(v.seen) }

func (v *Variant) render(w io.Writer, main *conformance.Report) error {
	v.page.mu.Lock()
	defer v.page.mu.Unlock()
	r, rows := &conformance.Report{}, ""
	for _, c := range main.Results {
		got := v.seen[c.ID]
		switch {
		case len(got) == 0:
			continue
		case len(got) > 1:
			return fmt.Errorf("%s was run more than once %s, want one run to write of", c.ID, v.how)
		case got[0].Verdict == conformance.NotRun, got[0].Verdict == conformance.NotShown:
			return &incompleteError{[]string{c.ID + " " + v.how}}
		}
		r.Results = append(r.Results, got[0])
		if a, b := outcome(got[0]), outcome(c); a != b {
			rows += fmt.Sprintf("| %s | %s | %s |\n", c.ID, a, b)
		}
	}
	if len(r.Results) == 0 {
		return &incompleteError{[]string{"all " + v.how}}
	}
	fmt.Fprintf(w, "\n## Also %s\n\nCases: %d. %s.\n", v.how, len(r.Results), r.Summary())
	if rows != "" {
		fmt.Fprintf(w, "\n| Case | Here | Above |\n| --- | --- | --- |\n%s", rows)
	}
	return nil
}

// outcome is the verdict and what was seen.
func outcome(r conformance.Result) string {
	text := r.Word()
	for _, c := range r.Claims {
		text += "; " + c.Measured
	}
	return text
}
