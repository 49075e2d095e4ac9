package httpsuite

// number is one that no case had.
func (e *env) number() int {
	n := int(e.last.Add(1))
	if e.cfg.Effects != nil {
		e.before[n] = e.count(n)
	}
	return n
}

func (e *env) count(n int) int {
	c, err := e.cfg.Effects(e.ctx, n)
	if err != nil {
		e.fatalf("Effects(%d) = %v", n, err)
	}
	return c
}

// wantEffects checks how often a request had its effect, where that can be counted.
func (e *env) wantEffects(q request, want int) {
	if e.cfg.Effects == nil {
		return
	}
	if got := e.count(q.n) - e.before[q.n]; got != want {
		e.errorf("request %d had its effect %d times, want %d", q.n, got, want)
	}
}

// countable ends a case that is about effects where they can't be told apart.
func (e *env) countable() {
	if e.cfg.Effects == nil && !e.tellsApart() {
		e.skip("Config.Effects is not set, and the answers to two runs of equal requests are equal: a second effect could not be seen")
	}
}

// tellsApart says whether the answers to two runs of equal requests differ.
func (e *env) tellsApart() bool {
	if !e.apart.asked {
		q := e.fresh()
		a := e.ok("a first request", q)
		q.keys = []string{quoted(newKey())}
		e.apart.asked, e.apart.yes = true, difference(a, e.ok("the same request with another key", q)) != ""
	}
	return e.apart.yes
}
