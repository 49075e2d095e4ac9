package conformance_test

import (
	"context"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
	"github.com/idem-go/idem/conformance"
)

// TestSuite for the cases of backends that list what is lapsed.
func TestListSuite(t *testing.T) {
	t.Parallel()
	testFaults(t, listFaults, conformance.Only("list"))
}

// Lapsed implements backend.Lister.
func (f *faulty) Lapsed(ctx context.Context, yield func(backend.Lapse) bool) error {
	if err := f.done(ctx, "faulty: lapsed"); err != nil {
		return err
	}
	f.mu.Lock()
	var all []backend.Lapse
	for _, r := range f.records {
		if f.lapsed(r, f.now()) {
			all = append(all, backend.Lapse{Key: r.Key, Operation: r.Operation, Token: r.Token, Attempt: r.Attempt})
		}
	}
	f.mu.Unlock()
	if f.listed != nil {
		all = f.listed(all)
	}
	for _, l := range all {
		if !yield(l) && !f.goesOn {
			break
		}
	}
	return nil
}

func isLapsed(r *rec, now time.Time) bool {
	return r.Status == backend.Started && machine.LeaseLeft(*r, now) == 0
}

func listing(change func(l *backend.Lapse)) func(f *faulty) {
	return func(f *faulty) {
		f.listed = func(all []backend.Lapse) []backend.Lapse {
			for i := range all {
				change(&all[i])
			}
			return all
		}
	}
}

func finding(which func(r *rec, now time.Time) bool) func(f *faulty) {
	return func(f *faulty) { f.lapsed = which }
}

var listFaults = map[string]planted{
	"lists what is held":      {finding(func(r *rec, _ time.Time) bool { return r.Status == backend.Started }), "list/lapsed", ""},
	"lists what is completed": {finding(func(r *rec, now time.Time) bool { return machine.LeaseLeft(*r, now) == 0 }), "list/lapsed", ""},
	"lists nothing":           {finding(func(*rec, time.Time) bool { return false }), "list/lapsed list/many", ""},
	"misses what was released": {finding(func(r *rec, now time.Time) bool {
		return isLapsed(r, now) && r.ClaimID != backend.ClaimID{}
	}), "list/lapsed list/many", ""},
	"misses what has no recovery point": {finding(func(r *rec, now time.Time) bool {
		return isLapsed(r, now) && r.RecoveryPoint != ""
	}), "list/lapsed", ""},
	"lists without operations": {listing(func(l *backend.Lapse) { l.Operation = "" }), "list/lapsed", ""},
	"lists without tokens":     {listing(func(l *backend.Lapse) { l.Token = 0 }), "list/lapsed", ""},
	"lists first attempts":     {listing(func(l *backend.Lapse) { l.Attempt = 1 }), "list/lapsed", ""},
	"lists one page": {func(f *faulty) {
		f.listed = func(all []backend.Lapse) []backend.Lapse { return all[:min(len(all), 200)] }
	}, "list/many", ""},
	"lists the last twice": {func(f *faulty) {
		f.listed = func(all []backend.Lapse) []backend.Lapse { return append(all, all[max(0, len(all)-1):]...) }
	}, "list/lapsed list/many", ""},
	"lists on and on":                {func(f *faulty) { f.goesOn = true }, "list/many", ""},
	"lists under any context at all": {func(f *faulty) { f.done = func(context.Context, string) error { return nil } }, "list/context", ""},
}
