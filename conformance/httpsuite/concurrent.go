package httpsuite

import (
	"net/http"
	"strconv"
	"time"
)

// patience is how long a request is kept in flight for others to be answered. Those
// that a server lets wait are not.
func (e *env) patience() <-chan time.Time { return time.After(time.Second) }

// atOnce is how many requests are sent at the same moment.
const atOnce = 20

var concurrentCases = []testCase{
	{"concurrent/one-effect", draft + "2.6", "Of many equal requests at once one is carried out; the others get its answer, or 409 until it is there.", func(e *env) {
		e.countable()
		q := e.fresh()
		all := make([]*exchange, atOnce)
		for i := range all {
			all[i] = e.begun(q)
		}
		replies := make([]<-chan reply, atOnce)
		for i, x := range all {
			if err := x.send(); err != nil {
				e.fatalf("a request can't be sent: %v", err)
			}
			replies[i] = e.receive(x)
		}
		var answers []answer
		for _, c := range replies {
			answers = append(answers, e.await("one of many requests at once", c))
		}
		e.oneRun(q, answers)
	}},
	{"concurrent/in-progress", draft + "2.7", "A retry that comes while the first request is being carried out gets 409, or waits for the answer.", func(e *env) {
		q := e.fresh()
		reached, release := e.hold(q)
		first := e.async(q)
		e.held(reached)
		replies := []<-chan reply{e.async(q), e.async(q), e.async(q)}
		early, late := e.early(replies)
		for _, a := range early {
			if reached != nil && a.ok() {
				e.errorf("a retry = %v while the first request was held, want 409 or nothing yet", a)
			}
		}
		release()
		answers := append(early, e.await("the first request", first))
		for _, c := range late {
			answers = append(answers, e.await("a retry", c))
		}
		e.oneRun(q, answers)
	}},
	{"concurrent/retry-after", "RFC 9110, section 10.2.3", "The refusal of a request in progress says when to come back: in seconds, one or more, or as a date to come.", func(e *env) {
		if !e.cfg.RetryAfter {
			e.skip("Config.RetryAfter is not set: it is not claimed")
		}
		a := e.conflict()
		now, err := http.ParseTime(a.header.Get("Date")) // by the server's clock
		if err != nil {
			now = time.Now()
		}
		if v := a.header.Values("Retry-After"); len(v) != 1 || !retryAfter(v[0], now) {
			e.errorf("Retry-After of %v = %q, want seconds, one or more, or a date to come", a, v)
		}
	}},
}

// early gives the answers that come while a request is held, and the requests that have
// none by then.
func (e *env) early(replies []<-chan reply) (answers []answer, late []<-chan reply) {
	enough := e.patience()
	for i, c := range replies {
		select {
		case r := <-c:
			if r.err != nil {
				e.fatalf("a retry = %v, want an answer", r.err)
			}
			answers = append(answers, r.answer)
		case <-enough:
			return answers, replies[i:]
		}
	}
	return answers, nil
}

// oneRun checks that the answers to one request are those of one run.
func (e *env) oneRun(q request, answers []answer) {
	last := e.ok("a retry at last", q)
	ran := 0
	for _, a := range answers {
		switch {
		case a.ok():
			ran++
			e.same("one of many answers", a, last)
		case a.status != http.StatusConflict:
			e.errorf("one of many answers = %v, want that of the first request or 409", a)
		}
	}
	if ran == 0 {
		e.errorf("none of %d equal requests got an answer, want it for the one that is carried out", len(answers))
	}
	e.wantEffects(q, 1)
}

// conflict is the answer to a retry of a request that is held.
func (e *env) conflict() answer {
	q := e.fresh()
	reached, release := e.hold(q)
	first := e.async(q)
	e.held(reached)
	early, late := e.early([]<-chan reply{e.async(q)})
	release()
	answers := append(early, e.await("the first request", first))
	for _, c := range late {
		answers = append(answers, e.await("a retry", c))
	}
	for _, a := range answers {
		if a.status == http.StatusConflict {
			return a
		}
	}
	e.skip("a retry of a request in flight waits for its answer: none was refused")
	return answer{}
}

// retryAfter tells whether a value is one of Retry-After (RFC 9110, section 10.2.3) that
// a client can go by.
func retryAfter(v string, now time.Time) bool {
	if at, err := http.ParseTime(v); err == nil {
		return at.After(now)
	}
	n, err := strconv.ParseUint(v, 10, 32)
	return err == nil && n > 0
}
