package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
)

// outage stops the server from answering while every kind of call is made, and
// looks afterwards what has become of them.
func (e *env) outage(begin func(t T) (end func()), patience time.Duration) {
	const keys = 3 // for each kind of call
	var calls []*cutCall
	for _, k := range cutKinds {
		b := e.open()
		for i := range keys {
			c := &cutCall{cutKind: k, b: b, claim: request(fmt.Sprint(k.name, " ", i))}
			c.claim.Lease = time.Hour
			if k.name != "Claim" {
				c.lease = e.acquire("Claim", c.claim).Holder()
			}
			_, _ = b.Get(e.Context(), c.claim.Key) // has a connection
			calls = append(calls, c)
		}
	}
	end := sync.OnceFunc(begin(e.T))
	e.Cleanup(end)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		race(len(calls), func(i int) struct{} {
			ctx, cancel := context.WithTimeout(e.Context(), patience)
			defer cancel()
			calls[i].err = calls[i].do(ctx, calls[i])
			return struct{}{}
		})
	}()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	select {
	case <-ended:
		end()
	case <-limit.C:
		e.Fatalf("calls with %v of time are still waiting after 10s", patience)
	}
	for _, c := range calls {
		e.ended(c)
	}
	for range 30 { // what is under way arrives soon or never
		for _, c := range calls {
			if c.shows != nil && backend.NotApplied(c.err) && c.shows(e.insist(c.claim.Key)) {
				e.Errorf("%s = %v, and it was applied all the same", c.name, c.err)
				return
			}
		}
		pause := time.NewTimer(10 * time.Millisecond)
		<-pause.C
	}
	for _, c := range calls { // the same call again finds or does what is missing
		e.ok(c.name+" again", e.persist(func(ctx context.Context) error { return c.do(ctx, c) }))
		if c.shows != nil && !c.shows(e.insist(c.claim.Key)) {
			e.Errorf("%s again = nil, and it was not applied", c.name)
		}
	}
	e.tried("%d calls", len(calls))
}

// ended judges the error of a call that the outage met.
func (e *env) ended(c *cutCall) {
	e.Helper()
	switch {
	case c.err == nil && c.shows != nil && !c.shows(e.insist(c.claim.Key)):
		e.Errorf("%s = nil, and it was not applied", c.name)
	case backend.NotApplied(c.err) && !errors.Is(c.err, backend.ErrUnavailable):
		e.Errorf("%s = %v, which nobody can know of a server that doesn't answer", c.name, c.err)
	}
}

// cutCall is a call that an outage meets.
type cutCall struct {
	cutKind
	b     backend.Backend
	claim backend.Claim
	lease backend.Lease
	err   error
}

// cutKind is a kind of call, and whether a record shows that it was applied.
type cutKind struct {
	name  string
	do    func(ctx context.Context, c *cutCall) error
	shows func(r backend.Record, is bool) bool // nil for what changes nothing
}

var cutKinds = []cutKind{
	{"Claim", func(ctx context.Context, c *cutCall) error {
		_, err := c.b.Claim(ctx, c.claim)
		return err
	}, func(_ backend.Record, is bool) bool { return is }},
	{
		"Renew", func(ctx context.Context, c *cutCall) error { return c.b.Renew(ctx, c.lease, 10*time.Hour) },
		func(r backend.Record, _ bool) bool { return r.LeaseLeft > time.Hour },
	},
	{
		"Checkpoint", func(ctx context.Context, c *cutCall) error { return c.b.Checkpoint(ctx, c.lease, point(1, "p", "s")) },
		func(r backend.Record, _ bool) bool { return r.RecoveryPoint == "p" },
	},
	{
		"Complete", func(ctx context.Context, c *cutCall) error { return c.b.Complete(ctx, c.lease, answer(1, "done")) },
		func(r backend.Record, _ bool) bool { return r.Status == backend.Completed },
	},
	{
		"Release", func(ctx context.Context, c *cutCall) error { return c.b.Release(ctx, c.lease) },
		func(_ backend.Record, is bool) bool { return !is },
	},
	{"Get", func(ctx context.Context, c *cutCall) error {
		_, err := c.b.Get(ctx, c.claim.Key)
		return err
	}, nil},
}
