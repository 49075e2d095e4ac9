package httpsuite

import (
	"context"
	"sync"
)

// hold makes the server hold a request. release is called at the end of the case at the
// latest.
func (e *env) hold(q request) (reached <-chan struct{}, release func()) {
	if e.cfg.Slow == nil {
		e.skip("Config.Slow is not set: no request can be kept in flight")
	}
	reached, release = e.cfg.Slow(q.n)
	if release == nil {
		release = func() {}
	}
	release = sync.OnceFunc(release)
	e.cleanup(release)
	return reached, release
}

// held waits until the server holds a request, where that can be known.
func (e *env) held(reached <-chan struct{}) {
	if reached == nil {
		return
	}
	select {
	case <-reached:
	case <-e.ctx.Done():
		e.fatalf("no request got to where Config.Slow holds it: %v", context.Cause(e.ctx))
	}
}

// reply is what a request came to that was sent by another goroutine.
type reply struct {
	answer
	err error
}

// async sends a request and gives what comes of it later. The case waits for it before
// it ends.
func (e *env) async(q request) <-chan reply {
	x := e.begun(q)
	if err := x.send(); err != nil {
		e.fatalf("a request can't be sent: %v", err)
	}
	return e.receive(x)
}

// begun is a request of which nothing is sent yet.
func (e *env) begun(q request) *exchange {
	x, err := e.http.begin(e.ctx, e.wire(e.ctx, q))
	if err != nil {
		e.fatalf("a request can't be sent: %v", err)
	}
	e.cleanup(x.cut)
	return x
}

func (e *env) receive(x *exchange) <-chan reply {
	c := make(chan reply, 1)
	go func() {
		a, err := x.receive()
		c <- reply{a, err}
	}()
	return c
}

// await gives the reply to a request.
func (e *env) await(what string, c <-chan reply) answer {
	r := <-c // the end of the context closes the connection
	if r.err != nil {
		e.fatalf("%s = %v, want an answer", what, r.err)
	}
	return r.answer
}
