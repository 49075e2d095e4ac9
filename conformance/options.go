package conformance

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Option changes what a run of the suite covers, or what is expected of it.
type Option func(*options)

type options struct {
	only, without []string
	required      []Power
	expected      map[string]string // why, by the case's id
	seed          uint64

	mu   sync.Mutex
	each []func(r Result)
}

// Xfail says that the backend is known to break the rule of a case, and why. The
// case is run all the same. When it passes, that is a failure: the entry has to go.
// So is an id that no case has.
func Xfail(id, why string) Option {
	return func(o *options) { o.expected[id] = why }
}

// Require makes a case fail that is not run, and a claim that is not shown, for
// want of one of these powers.
func Require(powers ...Power) Option {
	return func(o *options) { o.required = append(o.required, powers...) }
}

// Only leaves out all cases but these: groups, which are what an id begins with
// ("fault"), or ids. What is left out is in no report.
func Only(groups ...string) Option {
	return func(o *options) { o.only = append(o.only, groups...) }
}

// Without leaves out groups or cases by their ids, such as "fault" for a store that
// has no server to kill.
func Without(groups ...string) Option {
	return func(o *options) { o.without = append(o.without, groups...) }
}

// Each gives f the result of each case when it is known: progress, or a [Report]
// of a run under package testing. Calls don't overlap, but cases that run in parallel
// come in any order.
func Each(f func(r Result)) Option {
	return func(o *options) { o.each = append(o.each, f) }
}

// Seed makes the random choices of the cases those of another run: which calls the
// histories are made of, and where a kill meets the runs. How calls meet in the store
// no seed repeats. Without this option the seed is that of the environment
// variable IDEM_TEST_SEED, or a random one; cases that use it print it.
func Seed(seed uint64) Option {
	return func(o *options) { o.seed = seed }
}

func newOptions(opts []Option) *options {
	o := &options{expected: make(map[string]string), seed: rand.Uint64()}
	if s, err := strconv.ParseUint(os.Getenv("IDEM_TEST_SEED"), 10, 64); err == nil {
		o.seed = s
	}
	for _, f := range opts {
		f(o)
	}
	return o
}

// playable is a case of either kind of store.
type playable[S any] interface {
	about() scenario
	start(r *recorder, s S)
}

// choose gives the cases that the options leave, and what is wrong with the
// options themselves: a misspelt name would let everything pass.
func choose[S any, C playable[S]](o *options, all []C) (chosen []C, wrong []string) {
	names, ids := make(map[string]bool), make(map[string]bool)
	for _, c := range all {
		id := c.about().id
		group, _, _ := strings.Cut(id, "/")
		names[group], names[id] = true, true
		named := func(list []string) bool { return slices.Contains(list, group) || slices.Contains(list, id) }
		if o.only != nil && !named(o.only) || named(o.without) {
			continue
		}
		ids[id] = true
		chosen = append(chosen, c)
	}
	for _, name := range slices.Concat(o.only, o.without) {
		if !names[name] {
			wrong = append(wrong, "there is no group or case "+name)
		}
	}
	for id := range o.expected {
		if !ids[id] {
			wrong = append(wrong, "Xfail("+id+"): this case is not among those that are run")
		}
	}
	slices.Sort(wrong)
	return chosen, wrong
}

// settle makes the result of a case final and tells of it.
func (o *options) settle(r Result) Result {
	r = o.judge(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.each {
		f(r)
	}
	return r
}

// judge applies what was required and expected to a result.
func (o *options) judge(r Result) Result {
	for _, p := range r.Lacks {
		if slices.Contains(o.required, p) {
			r.Verdict, r.Reason = Failed, ""
			r.Log = append(r.Log, "the harness lacks "+string(p)+", which is required")
		}
	}
	why, ok := o.expected[r.ID]
	switch {
	case !ok:
	case r.Verdict == Failed:
		r.Verdict, r.Reason = Xfailed, why
	case r.Verdict == Passed:
		r.Verdict = Failed
		r.Log = append(r.Log, "it passes, and is expected to fail: "+why)
	}
	return r
}
