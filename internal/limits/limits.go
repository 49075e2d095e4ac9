// Package limits keeps docs/limits: a page for each store, written from what the
// conformance suite reports when the tests of its adapter run. The tests fail where a
// page is not what they saw; with IDEM_UPDATE=1 they write it.
package limits

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/idem-go/idem/conformance"
)

// Page is what the tests of an adapter have seen.
type Page struct {
	store  string
	server string            // what the tests set up, in words that hold on every machine
	spared map[string]string // why, by group or case

	variants []*Variant

	mu   sync.Mutex // the maps of the variants, too
	seen map[string][]conformance.Result
}

// Of begins the page of a store, which the tests have set up like this.
func Of(store, server string) *Page {
	return &Page{store: store, server: server, spared: make(map[string]string), seen: make(map[string][]conformance.Result)}
}

// Spare names groups or cases that no test runs, because they make no sense for
// this store. The page says why.
func (p *Page) Spare(why string, names ...string) *Page {
	for _, name := range names {
		p.spared[name] = why
	}
	return p
}

// Shown is for each run of the suite that the page is written from. They have no
// case in common.
func (p *Page) Shown() conformance.Option { return p.into(p.seen) }

func (p *Page) into(seen map[string][]conformance.Result) conformance.Option {
	return conformance.Each(func(r conformance.Result) {
		p.mu.Lock()
		defer p.mu.Unlock()
		seen[r.ID] = append(seen[r.ID], r)
	})
}

// After gives the tests of a package a last one: whether the page is what they
// saw. Where a flag leaves tests out, or a server is missing, there is nothing to
// compare; the latter is a failure where IDEM_TEST_REQUIRE is "all" or names "conformance".
func (p *Page) After(m interface{ Run() int }) interface{ Run() int } { return after{p, m} }

type after struct {
	page *Page
	m    interface{ Run() int }
}

func (a after) Run() int {
	code := a.m.Run()
	if code != 0 || chosen("test.list") || chosen("test.count") || chosen("test.cpu") { // or every case was run several times
		return code
	}
	update := os.Getenv("IDEM_UPDATE") != ""
	page, err := a.page.render()
	var missing *incompleteError
	switch {
	case errors.As(err, &missing) && !update && (chosen("test.run") || chosen("test.skip") || !required()):
		fmt.Fprintf(os.Stderr, "NOT COMPARED: docs/limits/%s.md: %v\n", a.page.store, err)
		return 0
	case err == nil:
		err = compare(filepath.Join(docs(), a.page.store+".md"), page, update)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: docs/limits/%s.md: %v\n", a.page.store, err)
		return 1
	}
	return 0
}

func required() bool {
	list := strings.Split(os.Getenv("IDEM_TEST_REQUIRE"), ",")
	return slices.Contains(list, "all") || slices.Contains(list, "conformance")
}

// chosen tells whether a flag of go test is set.
func chosen(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != f.DefValue
}

// docs is the directory of the pages, seen from where a test runs.
func docs() string {
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "docs", "limits")
		}
		if abs, err := filepath.Abs(dir); err != nil || filepath.Dir(abs) == abs {
			return filepath.Join("docs", "limits") // there is none, which reading it will say
		}
	}
}

// incompleteError says which cases nobody ran.
type incompleteError struct{ ids []string }

func (e *incompleteError) Error() string {
	return fmt.Sprintf("%d cases of the suite were not run, among them %s", len(e.ids), e.ids[0])
}

// report puts the results in the order of the suite. A case that was run twice, or
// one that is spared and was run, makes the page a matter of taste.
func (p *Page) report() (*conformance.Report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := conformance.Cases()
	if p.transactional() {
		all = append(all, conformance.TxCases()...)
	}
	r := &conformance.Report{Backend: p.store, Server: "on " + p.server}
	missing, used := &incompleteError{}, make(map[string]bool)
	for _, c := range all {
		name, why := p.whySpared(c.ID)
		used[name] = true
		switch got := p.seen[c.ID]; {
		case len(got) > 1, len(got) == 1 && why != "":
			return nil, fmt.Errorf("%s is spared or run more than once, want one run to write of", c.ID)
		case why != "":
			r.Results = append(r.Results, conformance.Result{ID: c.ID, Rule: c.Rule, Verdict: conformance.NotRun, Needs: c.Needs, Reason: why})
		case len(got) == 0, got[0].Verdict == conformance.NotRun, got[0].Verdict == conformance.NotShown:
			missing.ids = append(missing.ids, c.ID)
		default:
			r.Results = append(r.Results, got[0])
		}
	}
	for name := range p.spared {
		if !used[name] {
			return nil, fmt.Errorf("%s is spared, and there is no such group or case", name)
		}
	}
	if len(missing.ids) > 0 {
		return nil, missing
	}
	return r, nil
}

// whySpared gives the name that a case is spared by.
func (p *Page) whySpared(id string) (name, why string) {
	group, _, _ := strings.Cut(id, "/")
	for _, name := range []string{id, group} {
		if why, ok := p.spared[name]; ok {
			return name, why
		}
	}
	return "", ""
}

// transactional tells whether the store claims transactions. If nothing is known,
// their cases are asked for.
func (p *Page) transactional() bool {
	for _, r := range p.seen["capability/transactions"] {
		for _, c := range r.Claims {
			return c.Claimed != "no"
		}
	}
	return true
}

// render is the page. It holds nothing that differs from machine to machine: no
// version of a server, no time.
func (p *Page) render() ([]byte, error) {
	r, err := p.report()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- Written by the tests of package %s, which fail where it is not what they see: `make limits`. -->\n\n", p.store)
	if err := r.WriteMarkdown(&b); err != nil {
		return nil, err
	}
	for _, v := range p.variants {
		if err := v.render(&b, r); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// compare tells whether a file is as it should be, or makes it so.
func compare(file string, want []byte, update bool) error {
	got, err := os.ReadFile(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case bytes.Equal(got, want):
		return nil
	case update:
		return os.WriteFile(file, want, 0o644)
	}
	return fmt.Errorf("it is not what the tests saw; look at the difference and run `make limits`:\n%s", difference(string(got), string(want)))
}

// difference lists the lines that only one of two texts has.
func difference(got, want string) string {
	var b strings.Builder
	in, out := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range in {
		if !slices.Contains(out, line) {
			fmt.Fprintf(&b, "-%s\n", line)
		}
	}
	for _, line := range out {
		if !slices.Contains(in, line) {
			fmt.Fprintf(&b, "+%s\n", line)
		}
	}
	return cmp.Or(b.String(), "the order of the lines differs")
}
