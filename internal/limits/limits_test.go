package limits

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/memory"
)

// show lets the suite show a page its cases, of which there are none for
// transactions: the store is memory.
func show(t *testing.T, p *Page, opts ...conformance.Option) {
	t.Helper()
	conformance.Check(t.Context(), func(conformance.T) conformance.Store {
		clock := memory.NewClock(backend.Record{}.CreatedAt)
		b := memory.New(memory.WithClock(clock))
		return conformance.Store{Open: func(conformance.T) backend.Backend { return b }, Advance: clock.Advance}
	}, append(opts, p.Shown())...)
}

// A page is written of every case of the suite, each run once or spared.
func TestWhatAPageWants(t *testing.T) {
	t.Parallel()
	groups := conformance.Only("get", "capability/transactions")
	rest := func(p *Page) *Page {
		for _, c := range conformance.Cases() {
			if !strings.HasPrefix(c.ID, "get/") && c.ID != "capability/transactions" {
				p.Spare("too long for this test", c.ID)
			}
		}
		return p
	}

	p := rest(Of("some", "a server"))
	show(t, p, groups)
	page, err := p.render()
	if err != nil {
		t.Fatalf("render = %v, want nil", err)
	}
	for _, want := range []string{"# Conformance some on a server\n", "| get/missing |", "| table/new | not run |  | too long for this test |", "| capability/transactions | no |"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("render wrote\n%s\nwant %q in it", page, want)
		}
	}

	var missing *incompleteError
	p = rest(Of("some", "a server"))
	show(t, p, conformance.Only("capability/transactions"))
	if _, err := p.render(); !errors.As(err, &missing) || missing.ids[0] != "get/missing" {
		t.Errorf("render(get was not run) = %v, want what is missing", err)
	}
	p = rest(Of("some", "a server"))
	show(t, p, conformance.Only("get"))
	if _, err := p.render(); !errors.As(err, &missing) {
		t.Errorf("render(transactions not known) = %v, want it incomplete", err)
	}
	for name, p := range map[string]*Page{
		"run and spared":  rest(Of("some", "a server")).Spare("no", "get"),
		"no such group":   rest(Of("some", "a server")).Spare("no", "gte"),
		"run twice, once": rest(Of("some", "a server")),
	} {
		show(t, p, groups)
		if name == "run twice, once" {
			show(t, p, conformance.Only("get/fresh"))
		}
		if _, err := p.render(); err == nil || errors.As(err, &missing) {
			t.Errorf("render(%s) = %v, want an error of its own", name, err)
		}
	}
}

// A variant is summed up, and what differs is listed.
func TestVariant(t *testing.T) {
	t.Parallel()
	p := Of("some", "a server")
	v := p.Variant("upside down")
	claims := func(measured string) []conformance.Claim {
		return []conformance.Claim{{Name: "Clock", Measured: measured}}
	}
	main := &conformance.Report{Results: []conformance.Result{
		{ID: "a/1", Verdict: conformance.Passed}, {ID: "a/2", Verdict: conformance.Passed, Claims: claims("x")}, {ID: "a/3", Verdict: conformance.Passed},
	}}
	var b strings.Builder
	var missing *incompleteError
	if err := v.render(&b, main); !errors.As(err, &missing) || b.String() != "" {
		t.Errorf("render(nothing was run) = %v, wrote %q, want it incomplete", err, b.String())
	}
	v.seen["a/1"] = main.Results[:1]
	v.seen["a/2"] = []conformance.Result{{ID: "a/2", Verdict: conformance.Passed, Claims: claims("y")}}
	err := v.render(&b, main)
	const want = "\n## Also upside down\n\nCases: 2. 2 verified.\n\n| Case | Here | Above |\n| --- | --- | --- |\n| a/2 | verified; y | verified; x |\n"
	if err != nil || b.String() != want {
		t.Errorf("render = %v, wrote\n%s\nwant\n%s", err, b.String(), want)
	}
	v.seen["a/3"] = []conformance.Result{{ID: "a/3", Verdict: conformance.NotRun}}
	if err := v.render(&b, main); !errors.As(err, &missing) {
		t.Errorf("render(a case was not run) = %v, want it incomplete", err)
	}
	v.seen["a/3"] = append(main.Results[2:], main.Results[2:]...)
	if err := v.render(&b, main); err == nil || errors.As(err, &missing) {
		t.Errorf("render(a case was run twice) = %v, want an error of its own", err)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "some.md")
	if err := compare(file, []byte("a\nb\n"), false); err == nil {
		t.Error("compare(no file) = nil, want the difference")
	}
	if err := compare(file, []byte("a\nb\n"), true); err != nil {
		t.Errorf("compare(update) = %v, want it written", err)
	}
	if err := compare(file, []byte("a\nb\n"), false); err != nil {
		t.Errorf("compare(the same) = %v, want nil", err)
	}
	if err := compare(file, []byte("a\nc\n"), false); err == nil || !strings.Contains(err.Error(), "-b\n+c\n") {
		t.Errorf("compare(another) = %v, want the lines that differ", err)
	}
	if err := compare(file, []byte("b\na\n"), false); err == nil {
		t.Error("compare(other order) = nil, want a difference")
	}
	if got, _ := os.ReadFile(file); string(got) != "a\nb\n" {
		t.Errorf("compare wrote %q without being asked to", got)
	}
}

func TestRequired(t *testing.T) {
	for list, want := range map[string]bool{"": false, "redis": false, "all": true, "redis,conformance": true} {
		t.Setenv("IDEM_TEST_REQUIRE", list)
		if got := required(); got != want {
			t.Errorf("required(%q) = %v, want %v", list, got, want)
		}
	}
}
