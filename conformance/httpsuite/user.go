package httpsuite

import "strings"

var userCases = []testCase{
	{"user/same-request", draft + "5", "The same request with the same key from another user is carried out for that user, and never gets the first one's answer.", func(e *env) {
		q := e.users()
		first := e.ok("a request of one user", q)
		o := q
		o.user = 1
		second := e.ok("the same request of another user", o)
		if e.replayed(second) {
			e.errorf("the same request of another user is marked as a replay (%s)", e.cfg.Replayed)
		}
		e.wantEffects(q, 2)
		if equal := difference(first, second) == ""; equal && e.tellsApart() {
			e.errorf("the same request of another user = %v, the answer of the first", second)
		} else if equal && e.cfg.Effects == nil && e.cfg.Replayed == "" {
			e.skip("the answers are equal, and neither Config.Effects nor Config.Replayed is set: nobody can say whether the second request was carried out")
		}
		e.same("a retry of the first user", e.send("a retry of the first user", q), first)
		e.same("a retry of the other user", e.send("a retry of the other user", o), second)
	}},
	{"user/other-request", draft + "5", "A key that another user has used for another request is free.", func(e *env) {
		q := e.users()
		first := e.ok("a request of one user", q)
		o := e.other(q)
		o.user = 1
		if a := e.settle("another request of another user with that key", o); !a.ok() {
			e.errorf("another request of another user with that key = %v, want 2xx", a)
		}
		e.wantEffects(o, 1)
		e.same("a retry of the first user", e.send("a retry of the first user", q), first)
	}},
	{"user/in-flight", draft + "5", "A key is free for a user while another user's request with it is being carried out.", func(e *env) {
		q := e.users()
		reached, release := e.hold(q)
		first := e.async(q)
		e.held(reached)
		o := e.other(q)
		o.user = 1
		second := e.async(o)
		early, late := e.early([]<-chan reply{second}) // a store that has one writer lets it wait
		release()
		for _, c := range late {
			early = append(early, e.await("a request of another user", c))
		}
		if a := early[0]; !a.ok() {
			e.errorf("a request of another user, while one with that key is in flight = %v, want 2xx", a)
		}
		if a := e.await("the first request", first); !a.ok() {
			e.errorf("the first request = %v, want 2xx", a)
		}
		e.wantEffects(q, 1)
		e.wantEffects(o, 1)
	}},
}

// users is a fresh request of the first user where there are two.
func (e *env) users() request {
	if e.cfg.Authorize == nil {
		e.skip("Config.Authorize is not set: there is one user")
	}
	return e.fresh()
}

// contains tells whether an answer has a text in its header or its body, as it is or as
// a JSON string spells it. Texts that are too short to be told from others don't count.
func (a answer) contains(text string) bool {
	if len(text) < 6 {
		return false
	}
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`, "\n", `\n`).Replace(text)
	in := []string{string(a.body)}
	for _, values := range a.header {
		in = append(in, values...)
	}
	for _, s := range in {
		if strings.Contains(s, text) || strings.Contains(s, escaped) {
			return true
		}
	}
	return false
}
