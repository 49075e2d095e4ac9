package conformance

import (
	"slices"
	"strings"
)

// Option changes what a run of the suite covers, or what is expected of it.
type Option func(*options)

type options struct {
	only, without []string
	required      []Power
	expected      map[string]string // why, by the case's id
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

func newOptions(opts []Option) *options {
	o := &options{expected: make(map[string]string)}
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
