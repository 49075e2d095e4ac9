package httpsuite

var lostCases = []testCase{
	{"lost/response", "RFC 9110, section 9.2.2", "A client that is gone before it has the answer gets it by a retry, and the request was carried out once.", func(e *env) {
		if e.cfg.Effects == nil {
			e.skip("Config.Effects is not set: what became of a request whose answer nobody saw can't be told")
		}
		q := e.fresh()
		x := e.begun(q)
		if err := x.send(); err != nil {
			e.fatalf("a request can't be sent: %v", err)
		}
		x.cut()
		first := e.ok("a retry", q)
		e.same("a second retry", e.send("a second retry", q), first)
		e.wantEffects(q, 1)
	}},
	{"lost/in-flight", "RFC 9110, section 9.2.2", "A request whose client goes away while it is being carried out is carried out to its end, once, and a retry gets its answer.", func(e *env) {
		if e.cfg.Effects == nil && e.cfg.Replayed == "" {
			e.skip("neither Config.Effects nor Config.Replayed is set: what became of a request whose answer nobody saw can't be told")
		}
		q := e.fresh()
		reached, release := e.hold(q)
		x := e.begun(q)
		if err := x.send(); err != nil {
			e.fatalf("a request can't be sent: %v", err)
		}
		e.held(reached)
		x.cut()
		retry := e.async(q)
		early, late := e.early([]<-chan reply{retry})
		for _, a := range early {
			if reached != nil && a.ok() {
				e.errorf("a retry = %v while the first request was held, want 409 or nothing yet", a)
			}
		}
		release()
		for _, c := range late {
			early = append(early, e.await("a retry", c))
		}
		a := e.ok("a retry at last", q)
		if reached != nil && e.cfg.Replayed != "" && !e.replayed(a) {
			e.errorf("a retry at last = %v, which is not marked as a replay (%s)", a, e.cfg.Replayed)
		}
		for _, b := range early {
			if b.ok() {
				e.same("a retry", b, a)
			}
		}
		e.wantEffects(q, 1)
	}},
}
