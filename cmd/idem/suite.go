package main

import (
	"context"
	"regexp"
	"strings"

	"github.com/idem-go/idem/conformance"
)

// suite is a run of some of the cases.
type suite struct {
	ctx        context.Context
	only, skip *regexp.Regexp // of ids; skip may be nil
	opts       []conformance.Option
}

// checkStore runs the cases that need nothing but a store.
func checkStore(s suite, newStore func(t conformance.T) conformance.Store) *conformance.Report {
	opts, some := s.wanted(conformance.Cases())
	if !some {
		return &conformance.Report{}
	}
	return conformance.Check(s.ctx, newStore, opts...)
}

// checkTx runs those for transactions.
func checkTx[Tx any](s suite, newStore func(t conformance.T) conformance.TxStore[Tx]) *conformance.Report {
	opts, some := s.wanted(conformance.TxCases())
	if !some {
		return &conformance.Report{}
	}
	return conformance.CheckTx(s.ctx, newStore, opts...)
}

// wanted gives the options for a run of those that are to be run.
func (s suite) wanted(all []conformance.Case) (opts []conformance.Option, some bool) {
	var ids []string
	for _, c := range all {
		if s.only.MatchString(c.ID) && (s.skip == nil || !s.skip.MatchString(c.ID)) {
			ids = append(ids, c.ID)
		}
	}
	return append(s.opts, conformance.Only(ids...)), ids != nil
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
