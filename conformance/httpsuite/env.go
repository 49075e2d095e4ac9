package httpsuite

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// request is what a case sends.
type request struct {
	n     int      // makes the body
	user  int      //
	keys  []string // the lines of the key's header, as they are on the wire
	field string   // its name; empty: as it is configured
	two   bool     // over HTTP/2
}

// newKey is a UUID: what every server takes that wants a key.
func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// quoted is the line for a key.
func quoted(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// fresh is a request that was never sent, with a key that was never used.
func (e *env) fresh() request {
	return request{n: e.number(), keys: []string{quoted(newKey())}}
}

// other is q with the body of another request.
func (e *env) other(q request) request {
	q.n = e.number()
	return q
}

// wire is the request as it is sent.
func (e *env) wire(ctx context.Context, q request) wire {
	contentType, body := e.cfg.Body(q.n)
	u := *e.url
	r, _ := http.NewRequestWithContext(ctx, e.cfg.Method, u.String(), http.NoBody) // tried before
	r.Header.Set("User-Agent", "idem-httpsuite")
	r.Header.Set("Accept", "*/*")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if e.cfg.Authorize != nil {
		e.cfg.Authorize(q.user, r)
	}
	w := wire{Request: r, field: e.cfg.Header, keys: q.keys, body: body}
	if q.field != "" {
		w.field = q.field
	}
	return w
}

// try sends a request once.
func (e *env) try(ctx context.Context, q request) (answer, error) {
	w := e.wire(ctx, q)
	if q.two {
		return e.http.overTwo(ctx, w)
	}
	return e.http.one(ctx, w)
}

// send is try for requests that get an answer, whatever it is.
func (e *env) send(what string, q request) answer {
	a, err := e.try(e.ctx, q)
	if err != nil {
		e.fatalf("%s = %v, want an answer", what, err)
	}
	return a
}

// ok is send for requests that are carried out, or were.
func (e *env) ok(what string, q request) answer {
	a := e.settle(what, q)
	if !a.ok() {
		e.fatalf("%s = %v, want 2xx", what, a)
	}
	return a
}

// settle is send, again and again while the server says that it is not the time.
func (e *env) settle(what string, q request) answer {
	pause := 20 * time.Millisecond
	for {
		a := e.send(what, q)
		if !a.notYet() {
			return a
		}
		select {
		case <-e.ctx.Done():
			e.fatalf("%s = %v at last, want another answer at some time: %v", what, a, context.Cause(e.ctx))
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

// refused sends a request that must not be carried out.
func (e *env) refused(what string, q request, status int) {
	a := e.send(what, q)
	if a.status != status {
		e.errorf("%s = %v, want %d", what, a, status)
	}
	if !a.ok() { // or there is no more to say
		e.wantEffects(q, 0)
	}
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// notYet tells of answers that ask for patience.
func (a answer) notYet() bool {
	return a.status == http.StatusConflict || a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable
}

func (a answer) String() string {
	body := a.body
	if len(body) > 200 {
		body = append(body[:200:200], "…"...)
	}
	return fmt.Sprintf("%d %q", a.status, body)
}

// difference says in what two answers differ that should be to one run.
func difference(a, b answer) string {
	switch {
	case a.status != b.status:
		return "status"
	case !bytes.Equal(a.body, b.body):
		return "body"
	case a.header.Get("Location") != b.header.Get("Location"):
		return "Location"
	case a.header.Get("ETag") != b.header.Get("ETag"):
		return "ETag"
	}
	return ""
}

// same checks that two answers are to one run.
func (e *env) same(what string, got, want answer) {
	if d := difference(got, want); d != "" {
		e.errorf("%s = %v, want the answer of the first request, %v: the %s differs", what, got, want, d)
	}
}

// replayed tells whether an answer is marked as a replay.
func (e *env) replayed(a answer) bool {
	return e.cfg.Replayed != "" && a.header.Get(e.cfg.Replayed) == "true"
}
