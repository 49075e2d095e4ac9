package httpsuite

import (
	"net/http"
	"slices"
)

var firstCases = []testCase{
	{"first/run", draft + "2.6", "The first request with a key is carried out.", func(e *env) {
		q := e.fresh()
		a := e.ok("a first request", q)
		if e.replayed(a) {
			e.errorf("a first request is marked as a replay (%s)", e.cfg.Replayed)
		}
		e.wantEffects(q, 1)
	}},
	{"first/new-key", draft + "2.2", "Another key is another request, also with the same content.", newKeyIsNew},

	{"replay/answer", draft + "2.6", "Each retry gets the result of the first request: its status, and its body byte by byte.", func(e *env) {
		q := e.fresh()
		first := e.ok("a first request", q)
		for range 3 {
			e.same("a retry", e.send("a retry", q), first)
		}
	}},
	{"replay/one-effect", draft + "2.6", "However often a request is retried, it is carried out once.", func(e *env) {
		e.countable()
		q := e.fresh()
		first := e.ok("a first request", q)
		for range 3 {
			e.same("a retry", e.send("a retry", q), first)
		}
		e.wantEffects(q, 1)
	}},
	{"replay/fields", "idem, package idemhttp, First answer and replay", "A replay has the fields that describe the answer, in their order, and none that are for the first client alone: Set-Cookie, authentication.", replayFields},
	{"replay/marked", "idem, package idemhttp, First answer and replay", "A replay says that it is one, and a first answer does not.", func(e *env) {
		if e.cfg.Replayed == "" {
			e.skip("Config.Replayed is not set: no field is claimed to mark a replay")
		}
		q := e.fresh()
		if v := e.ok("a first request", q).header.Values(e.cfg.Replayed); v != nil {
			e.errorf("%s of a first answer = %q, want none", e.cfg.Replayed, v)
		}
		if v := e.send("a retry", q).header.Values(e.cfg.Replayed); !slices.Equal(v, []string{"true"}) {
			e.errorf("%s of a replay = %q, want true", e.cfg.Replayed, v)
		}
	}},
}

func newKeyIsNew(e *env) {
	q := e.fresh()
	first := e.ok("a first request", q)
	q.keys = []string{quoted(newKey())}
	second := e.ok("the same request with another key", q)
	if e.replayed(second) {
		e.errorf("the same request with another key is marked as a replay (%s)", e.cfg.Replayed)
	}
	e.wantEffects(q, 2)
	if e.cfg.Effects == nil && e.cfg.Replayed == "" && difference(first, second) == "" {
		e.skip("the answers are equal, and neither Config.Effects nor Config.Replayed is set: nobody can say whether the second request was carried out")
	}
}

func replayFields(e *env) {
	q := e.fresh()
	first, again := e.ok("a first request", q), e.send("a retry", q)
	for name, want := range first.header {
		switch name {
		case "Content-Type", "Content-Encoding", "Content-Language", "Location", "Etag", "Link", "Last-Modified", "Cache-Control":
			if got := again.header[name]; !slices.Equal(got, want) {
				e.errorf("%s of a replay = %q, want %q as in the first answer", name, got, want)
			}
		}
	}
	for _, name := range []string{"Set-Cookie", "WWW-Authenticate", "Proxy-Authenticate", "Authentication-Info"} {
		if got := again.header.Values(name); got != nil {
			e.errorf("a replay has %s, want it in the first answer alone", name)
		}
	}
}

var mismatchCases = []testCase{
	{"mismatch/done", draft + "2.7", "A key that was used for another request is refused with 422, and the first request keeps its answer.", func(e *env) {
		q := e.fresh()
		first := e.ok("a first request", q)
		e.refused("another request with its key", e.other(q), http.StatusUnprocessableEntity)
		e.same("a retry of the first after that", e.send("a retry of the first after that", q), first)
		e.wantEffects(q, 1)
	}},
	{"mismatch/in-flight", draft + "2.7", "A key that is being used for another request is refused with 422 as well.", mismatchInFlight},
	{"mismatch/nothing-leaks", draft + "5", "The refusal contains nothing of the answer to the first request.", mismatchLeaks},
}

// mismatchInFlight holds whichever of two requests comes first.
func mismatchInFlight(e *env) {
	a := e.fresh()
	b := e.other(a)
	reached, releaseA := e.hold(a)
	_, releaseB := e.hold(b)
	first := e.async(a)
	e.held(reached)
	second := e.async(b)
	// A server may also wait for the first request before it answers.
	var early *reply
	select {
	case r := <-second:
		early = &r
	case <-e.patience():
	}
	releaseA()
	releaseB()
	got := e.await("the first request", first)
	if early == nil {
		r := <-second
		early = &r
	}
	if early.err != nil {
		e.fatalf("another request with the key = %v, want an answer", early.err)
	}
	won, lost := a, b
	if reached == nil && got.status == http.StatusUnprocessableEntity {
		won, lost, got, early.answer = b, a, early.answer, got // which of them came first nobody knows
	}
	if !got.ok() {
		e.errorf("the first request = %v, want 2xx", got)
	}
	if early.status != http.StatusUnprocessableEntity {
		e.errorf("another request with the key of one in flight = %v, want 422", early.answer)
	}
	e.wantEffects(won, 1)
	e.wantEffects(lost, 0)
}

func mismatchLeaks(e *env) {
	q := e.fresh()
	first := e.ok("a first request", q)
	refusal := e.send("another request with its key", e.other(q))
	if refusal.ok() {
		e.skip("the server does not refuse it; mismatch/done is about that")
	}
	secrets := map[string]string{"body": string(first.body), "Location": first.header.Get("Location"), "ETag": first.header.Get("ETag")}
	for what, secret := range secrets {
		if refusal.contains(secret) {
			e.errorf("another request with the key = %v, which contains the %s of the first answer", refusal, what)
		}
	}
	if refusal.header.Get("Set-Cookie") != "" {
		e.errorf("another request with the key gets a Set-Cookie")
	}
}
