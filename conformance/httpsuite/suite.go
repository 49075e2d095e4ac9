package httpsuite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idem-go/idem/conformance"
)

// Run runs the suite as subtests of t, one after the other. A case that is not run is
// skipped with the reason; where the environment variable IDEM_TEST_REQUIRE is "all",
// or a list with "conformance" in it, it fails.
func Run(t *testing.T, c Config, opts ...Option) {
	t.Helper()
	o := newOptions(opts)
	s, err := open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	chosen, wrong := o.choose()
	for _, text := range wrong {
		t.Error(text)
	}
	for _, c := range chosen {
		t.Run(c.id, func(t *testing.T) {
			r := s.play(t.Context(), c)
			o.tell(r)
			report(t, r)
		})
	}
}

// Check runs the suite without package testing, and gives what came of it as a report
// whose Server is the method and the address of the requests. When ctx ends, the cases
// that have not begun are not run. An error means that there is nothing to report: the
// Config is wrong, or nobody answers at its address.
func Check(ctx context.Context, c Config, opts ...Option) (*conformance.Report, error) {
	o := newOptions(opts)
	chosen, wrong := o.choose()
	if len(wrong) > 0 {
		return nil, fmt.Errorf("httpsuite: %s", strings.Join(wrong, "; "))
	}
	s, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.close()
	r := &conformance.Report{Server: s.cfg.Method + " " + s.url.Redacted()}
	for _, c := range chosen {
		res := conformance.Result{ID: c.id, Rule: c.sentence(), Verdict: conformance.NotRun}
		if err := context.Cause(ctx); err != nil {
			res.Reason = "the run was ended: " + err.Error()
		} else {
			res = s.play(ctx, c)
		}
		o.tell(res)
		r.Results = append(r.Results, res)
	}
	return r, nil
}

// report makes a result that of a test.
func report(t *testing.T, r conformance.Result) {
	t.Helper()
	for _, line := range r.Log {
		t.Log(line)
	}
	switch r.Verdict {
	case conformance.Passed:
	case conformance.NotRun:
		if required(os.Getenv("IDEM_TEST_REQUIRE")) {
			t.Errorf("%s is not run, but required (IDEM_TEST_REQUIRE): %s: %s", r.ID, r.Rule, r.Reason)
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

// Case is a case of the suite.
type Case struct {
	ID     string // stable, "mismatch/in-flight"
	Rule   string // what a server has to do
	Source string // what says so
}

// Cases lists them in their order.
func Cases() []Case {
	all := cases()
	out := make([]Case, len(all))
	for i, c := range all {
		out[i] = Case{ID: c.id, Rule: c.rule, Source: c.source}
	}
	return out
}

// testCase is one of them.
type testCase struct {
	id, source, rule string
	f                func(e *env)
}

func (c testCase) sentence() string { return c.rule + " (" + c.source + ")" }

func cases() []testCase {
	return slices.Concat(firstCases, mismatchCases, concurrentCases, userCases, keyCases, lostCases, problemCases, http2Cases)
}

// Where rules come from.
const (
	draft    = "draft-ietf-httpapi-idempotency-key-header-07, section "
	draftKey = draft + "2.1"
	ours     = "idem, docs/problems.md"
)

// Option changes what a run of the suite covers.
type Option func(*options)

type options struct {
	only, without []string
	each          []func(r conformance.Result)
}

// Only leaves out all cases but these: groups, which are what an id begins with
// ("key"), or ids. What is left out is in no report.
func Only(groups ...string) Option {
	return func(o *options) { o.only = append(o.only, groups...) }
}

// Without leaves out groups or cases by their ids.
func Without(groups ...string) Option {
	return func(o *options) { o.without = append(o.without, groups...) }
}

// Each gives f the result of each case when it is known.
func Each(f func(r conformance.Result)) Option {
	return func(o *options) { o.each = append(o.each, f) }
}

func newOptions(opts []Option) *options {
	o := new(options)
	for _, f := range opts {
		f(o)
	}
	return o
}

func (o *options) tell(r conformance.Result) {
	for _, f := range o.each {
		f(r)
	}
}

// choose gives the cases that the options leave, and what is wrong with the options: a
// misspelt name would let everything pass.
func (o *options) choose() (chosen []testCase, wrong []string) {
	names := make(map[string]bool)
	for _, c := range cases() {
		group, _, _ := strings.Cut(c.id, "/")
		names[group], names[c.id] = true, true
		named := func(list []string) bool { return slices.Contains(list, group) || slices.Contains(list, c.id) }
		if (o.only == nil || named(o.only)) && !named(o.without) {
			chosen = append(chosen, c)
		}
	}
	for _, name := range slices.Concat(o.only, o.without) {
		if !names[name] {
			wrong = append(wrong, "there is no group or case "+name)
		}
	}
	slices.Sort(wrong)
	return chosen, wrong
}

// suite is a run on one server.
type suite struct {
	cfg  Config
	url  *url.URL
	http *httpClient
	last atomic.Int64 // number that was used

	apart struct { // whether two runs have answers that differ
		asked, yes bool
	}
}

// open looks whether anybody is at the address.
func open(ctx context.Context, c Config) (*suite, error) {
	c, u, err := c.settled()
	if err != nil {
		return nil, err
	}
	s := &suite{cfg: c, url: u, http: newHTTPClient(u, c.TLS)}
	s.last.Store(int64(c.First) - 1)
	conn, err := s.http.dial(ctx)
	if err != nil {
		s.close()
		var net *net.OpError
		if errors.As(err, &net) {
			return nil, fmt.Errorf("httpsuite: nobody answers at %s: %w", u.Host, err)
		}
		return nil, fmt.Errorf("httpsuite: connect to %s: %w", u.Host, err)
	}
	_ = conn.Close()
	return s, nil
}

func (s *suite) close() { s.http.close() }
