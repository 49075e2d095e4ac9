package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/idem-go/idem/conformance"
)

// suite is a run of those cases whose id matches only.
type suite struct {
	ctx  context.Context
	only *regexp.Regexp
	tell func(group string, results []conformance.Result) // called after each group

	without string // a group that is not for this store
}

// checkStore runs the cases that need nothing but a store.
func checkStore(s suite, newStore func(t conformance.T) conformance.Store) *conformance.Report {
	return s.play(func(admit func(t conformance.T), opts ...conformance.Option) *conformance.Report {
		return conformance.Check(s.ctx, func(t conformance.T) conformance.Store { admit(t); return newStore(t) }, opts...)
	})
}

// checkTx runs those for transactions.
func checkTx[Tx any](s suite, newStore func(t conformance.T) conformance.TxStore[Tx]) *conformance.Report {
	return s.play(func(admit func(t conformance.T), opts ...conformance.Option) *conformance.Report {
		return conformance.CheckTx(s.ctx, func(t conformance.T) conformance.TxStore[Tx] { admit(t); return newStore(t) }, opts...)
	})
}

// play runs group after group, so that there is something to tell before the end.
// A store is asked for once per case and in their order: counting tells which case
// it is for, and the cases that are not wanted are refused one.
func (s suite) play(check func(admit func(t conformance.T), opts ...conformance.Option) *conformance.Report) *conformance.Report {
	whole := &conformance.Report{}
	for _, ids := range byGroup(check(func(t conformance.T) { t.Skipf("only its id is wanted") })) {
		if s.ctx.Err() != nil || groupOf(ids[0]) == s.without || !slices.ContainsFunc(ids, s.only.MatchString) {
			continue
		}
		group := groupOf(ids[0])
		var n atomic.Int64
		part := check(func(t conformance.T) {
			if id := ids[n.Add(1)-1]; !s.only.MatchString(id) || s.ctx.Err() != nil {
				t.Skipf("not wanted")
			}
		}, conformance.Only(group))
		part.Results = slices.DeleteFunc(part.Results, func(r conformance.Result) bool { return !s.only.MatchString(r.ID) })
		if s.ctx.Err() == nil {
			s.tell(group, part.Results)
		}
		merge(whole, part)
	}
	return whole
}

// byGroup gives the ids of each group, in their order.
func byGroup(r *conformance.Report) (groups [][]string) {
	at := make(map[string]int)
	for _, c := range r.Results {
		i, ok := at[groupOf(c.ID)]
		if !ok {
			i = len(groups)
			at[groupOf(c.ID)], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], c.ID)
	}
	return groups
}

func groupOf(id string) string {
	group, _, _ := strings.Cut(id, "/")
	return group
}

func merge(whole, part *conformance.Report) {
	if whole.Backend == "" {
		whole.Backend, whole.Server = part.Backend, part.Server
	}
	whole.Results = append(whole.Results, part.Results...)
}
