package httpsuite

import "net/http"

var http2Cases = []testCase{
	{"http2/replay", "RFC 9113, section 8", "A key is the same key over HTTP/1.1 and HTTP/2.", func(e *env) {
		q := e.two()
		first := e.ok("a first request over HTTP/2", q)
		e.same("a retry over HTTP/2", e.send("a retry over HTTP/2", q), first)
		q.two = false
		e.same("a retry over HTTP/1.1", e.send("a retry over HTTP/1.1", q), first)
		e.wantEffects(q, 1)
	}},
	{"http2/several", rfc9651 + "4.2", "More than one key is refused over HTTP/2, too.", func(e *env) {
		q := e.two()
		q.keys = append(q.keys, quoted(newKey()))
		e.refused("a request with two keys over HTTP/2", q, http.StatusBadRequest)
		q = e.two()
		q.keys = append(q.keys, q.keys[0])
		e.refused("a request with a key twice over HTTP/2", q, http.StatusBadRequest)
	}},
	{"http2/concurrent", draft + "2.6", "Of many equal requests at once on one connection one is carried out.", func(e *env) {
		q := e.two()
		e.countable()
		replies := make(chan reply, atOnce)
		for range atOnce {
			go func() {
				a, err := e.try(e.ctx, q)
				replies <- reply{a, err}
			}()
		}
		var answers []answer
		for range atOnce {
			answers = append(answers, e.await("one of many requests at once", replies))
		}
		e.oneRun(q, answers)
	}},
}

// two is a fresh request over HTTP/2, where the server offers it.
func (e *env) two() request {
	offered, err := e.http.offersTwo(e.ctx)
	switch {
	case err != nil:
		e.fatalf("connect: %v", err)
	case e.url.Scheme != "https":
		e.skip("HTTP/2 is tried over https, and this server is asked over %s", e.url.Scheme)
	case !offered:
		e.skip("the server does not offer HTTP/2")
	}
	q := e.fresh()
	q.two = true
	return q
}
