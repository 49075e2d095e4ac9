package conformance

import (
	"context"
	"fmt"

	"github.com/idem-go/idem/backend"
)

// listCases test backends that find what nobody goes on with. Others promise nothing
// here.
var listCases = []testCase{
	optional("list/lapsed", "A list has every started record whose lease is over, lapsed or released, as it was claimed last, and no other.", listLapsed),
	optional("list/many", "A list has each of many lapsed records once, and ends where its caller wants.", listMany),
	optional("list/context", "A list under an ended context is refused.", func(e *env, l backend.Lister) {
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		err := l.Lapsed(ctx, func(backend.Lapse) bool { return true })
		if err == nil || !backend.NotApplied(err) {
			e.Errorf("Lapsed(ended context) = %v, want an error that is surely not applied", err)
		}
	}),
}

// optional is a case for backends that have an interface more.
func optional[I any](id, text string, f func(e *env, b I)) testCase {
	return rule(id, text, func(e *env) {
		b, is := e.open().(I)
		if !is {
			e.rec.remark(func(n *Result) { n.Claims = []Claim{} }) // claims nothing
			return
		}
		f(e, b)
	})
}

func (e *env) list(l backend.Lister) map[string]backend.Lapse {
	e.Helper()
	found := make(map[string]backend.Lapse)
	e.ok("Lapsed", l.Lapsed(e.Context(), func(one backend.Lapse) bool {
		if _, again := found[one.Key.Value]; again {
			e.Errorf("Lapsed finds a record twice")
		}
		found[one.Key.Value] = one
		return true
	}))
	return found
}

func listLapsed(e *env, l backend.Lister) {
	if found := e.list(l); len(found) != 0 {
		e.Errorf("Lapsed of an empty store = %d records, want none", len(found))
	}
	e.acquire("Claim", request("held"))
	e.completed(request("completed"))
	releasedFresh(e, request("gone"))
	releasedAtPoint(e, request("released"))
	again := releasedAtPoint(e, request("released twice"))
	e.ok("Release", e.release(e.acquire("Claim(again)", rival(request("released twice"))).Holder()))
	lapsed := hasty("lapsed")
	e.acquire("Claim", lapsed)
	e.lapse(lapsed)
	found := e.list(l)
	want := []backend.Key{request("released").Key, request("released twice").Key, lapsed.Key}
	for _, k := range want {
		r := e.get(k)
		if got := found[k.Value]; got != (backend.Lapse{Key: k, Operation: r.Operation, Token: r.Token, Attempt: r.Attempt}) {
			e.Errorf("Lapsed has of %q %+v, want operation %q, token %d, attempt %d", k.Value, got, r.Operation, r.Token, r.Attempt)
		}
	}
	if len(found) != len(want) || found["released twice"].Token <= again.Token {
		e.Errorf("Lapsed has %d records, want %d", len(found), len(want))
	}
}

func listMany(e *env, l backend.Lister) {
	const records, workers = 260, 8
	race(workers, func(w int) struct{} {
		for i := w; i < records; i += workers {
			releasedAtPoint(e, request(fmt.Sprintf("key-%03d", i)))
		}
		return struct{}{}
	})
	if found := e.list(l); len(found) != records {
		e.Errorf("Lapsed has %d records, want %d", len(found), records)
	}
	n := 0
	e.ok("Lapsed", l.Lapsed(e.Context(), func(backend.Lapse) bool {
		n++
		return n < 7
	}))
	if n != 7 {
		e.Errorf("Lapsed that is to end after 7 records goes on to %d", n)
	}
}
