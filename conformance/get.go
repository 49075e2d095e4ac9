package conformance

import "github.com/idem-go/idem/backend"

var getCases = []testCase{
	rule("get/missing", "Get of a key without a record is ErrNotFound.", func(e *env) {
		e.gone("of a key never claimed", request("k").Key)
		e.acquire("Claim", request("other"))
		e.gone("of a key never claimed", request("k").Key)
	}),
	rule("get/fresh", "Every handle sees every acknowledged write at once.", getFresh),
	rule("get/reads-only", "Get changes nothing: it neither extends a lease nor keeps a record.", func(e *env) {
		c := hasty("k")
		e.acquire("Claim", c)
		want := e.get(c.Key)
		e.same("Get", e.get(c.Key), want)
		e.lapse(c) // by asking with Get
		e.same("Get(lapsed)", e.get(c.Key), want)
	}),
	rule("get/swept", "Get after the sweep is ErrNotFound.", func(e *env) {
		c := fleeting("k")
		e.completed(c)
		e.swept(c)
		e.gone("after a sweep", c.Key)
	}),
}

func getFresh(e *env) {
	c := request("k")
	other := e.open()
	see := func(what string, ok func(r backend.Record) bool) {
		e.Helper()
		r, err := other.Get(e.Context(), c.Key)
		e.ok("Get(other handle)", err)
		if !ok(r) {
			e.Errorf("Get(other handle, after %s): %v record at %q, want the write seen", what, r.Status, r.RecoveryPoint)
		}
	}
	l := e.acquire("Claim", c).Holder()
	see("Claim", func(r backend.Record) bool { return r.Holder() == l })
	e.ok("Checkpoint", e.checkpoint(l, point(1, "p", "s")))
	see("Checkpoint", func(r backend.Record) bool { return r.RecoveryPoint == "p" && string(r.State) == "s" })
	e.ok("Complete", other.Complete(e.Context(), l, answer(2, "done")))
	if r := e.get(c.Key); r.Status != backend.Completed {
		e.Errorf("Get(after another handle's Complete): %v, want completed", r.Status)
	}
}
