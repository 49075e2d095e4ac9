package idemhttp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/bound"
)

// handler leads requests through the middleware, on either path.
type handler struct {
	cfg  *config
	pass http.Handler // for requests that are not protected; nil: there are none
	next func(http.ResponseWriter, *http.Request, *attempt)
	run  func(context.Context, idem.Request, *exchange) (idem.Result[idem.Response], error)
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(h.cfg.methods, r.Method) {
		if h.pass == nil {
			w.Header()["Allow"] = []string{strings.Join(h.cfg.methods, ", ")}
			writeProblem(w, r, methodNotAllowed)
			return
		}
		h.pass.ServeHTTP(w, r)
		return
	}
	key, err := h.cfg.syntax.Parse(r.Header[h.cfg.header])
	if h.cfg.optional && h.pass != nil && errors.Is(err, ErrKeyMissing) {
		h.pass.ServeHTTP(w, r)
		return
	}
	x := &exchange{h: h, w: w, r: r}
	var res idem.Result[idem.Response]
	if err == nil {
		res, err = x.run(key)
	}
	x.respond(res, err)
}

// exchange is one request and its answer. What every request needs is part of it,
// to be allocated together.
type exchange struct {
	h     *handler
	w     http.ResponseWriter
	r     *http.Request
	body  []byte
	bound bound.Context
	first attempt
	last  *attempt // the latest run of the handler in this exchange, if any
}

func (x *exchange) run(key string) (res idem.Result[idem.Response], err error) {
	req := idem.Request{
		Key:       key,
		Operation: x.h.cfg.operation(x.r),
		Method:    x.r.Method,
		Path:      target(x.r),
	}
	if n := len(req.Operation); n == 0 || n > backend.MaxKeyPart {
		return res, &setupError{"operation", invalid("it has %d bytes; 1 to %d are possible", n, backend.MaxKeyPart)}
	}
	if req.Scope, err = x.scope(key); err != nil {
		return res, err
	}
	if x.body, err = readBody(x.r, x.h.cfg.maxBody); err != nil {
		return res, err
	}
	req.Content = idem.Content{Type: x.r.Header.Get("Content-Type"), Query: x.r.URL.RawQuery, Body: x.body}

	if x.h.cfg.payload {
		req.Payload = x.body
	}

	end := time.Now().Add(x.h.cfg.timeout)
	if x.h.cfg.cancels {
		x.bound.Init(x.r.Context(), end)
	} else {
		x.bound.InitDetached(x.r.Context(), end)
	}
	defer x.bound.Cancel(nil)
	return x.h.run(&x.bound, req, x)
}

// setupError is a request for which one of the service's own functions has no answer
// to go on with.
type setupError struct {
	what string
	err  error
}

func (e *setupError) Error() string {
	return "idemhttp: " + e.what + " of the request: " + e.err.Error()
}
func (e *setupError) Unwrap() error { return e.err }

func (x *exchange) scope(key string) (idem.Scope, error) {
	s, err := x.h.cfg.scope(x.r)
	if err == nil {
		err = backend.Key{Tenant: s.Tenant, Actor: s.Actor, Value: key}.Validate()
	}
	if err != nil {
		return s, &setupError{"scope", err}
	}
	return s, nil
}

// target is the path and query that the client asked for, byte by byte. Not r.URL,
// which loses what http.StripPrefix takes away: two handlers under different
// prefixes would share their keys.
func target(r *http.Request) string {
	if r.RequestURI == "" { // no server made this request
		return r.URL.RequestURI()
	}
	_, rest, absolute := strings.Cut(r.RequestURI, "://")
	if !absolute || r.RequestURI[0] == '/' {
		return r.RequestURI
	}
	start := strings.IndexAny(rest, "/?")
	switch {
	case start < 0:
		return "/"
	case rest[start] == '?':
		return "/" + rest[start:]
	}
	return rest[start:]
}

// respond sends the answer, unless it is on its way already.
func (x *exchange) respond(res idem.Result[idem.Response], err error) {
	if x.last != nil && x.last.rec.live {
		return
	}
	if u, ok := errors.AsType[*unstored](err); ok && u.attempt == x.last {
		// Not one that another exchange shares with those that waited for it.
		Transient(x.r.Context(), nil)
		answer{Response: u.resp, once: x.last.rec.split.once}.send(x.w, x.r.Method)
		return
	}
	if err == nil && !validStatus(res.Value.Status) {
		err = errNoAnswer
	}
	switch {
	case err != nil:
		p := problemOf(err, x.h.cfg, x.progress())
		if p.Status >= http.StatusInternalServerError {
			x.h.cfg.onError(x.r, err)
		}
		writeProblem(x.w, x.r, p)
	case res.Replayed:
		answer{Response: res.Value, replayed: true}.send(x.w, x.r.Method)
	default:
		answer{Response: res.Value, once: x.last.rec.split.once}.send(x.w, x.r.Method)
	}
}

// progress is how far an exchange came.
type progress uint8

const (
	notRun      progress = iota
	ranLeased            // the handler ran, in no transaction: what it did is done
	ranAndUndid          // the handler ran in a transaction, or another handler did that this request is inside of
)

func (x *exchange) progress() progress {
	switch {
	case x.last != nil && x.last.run != nil:
		return ranLeased
	case x.last != nil, attemptOf(x.r.Context()) != nil:
		return ranAndUndid
	}
	return notRun
}

// errNoAnswer: the key's record was completed by something that is no HTTP handler, or
// by one that gave CompleteTx no HTTP answer.
var errNoAnswer = invalid("the record of the key has no status; a job and a handler use the same scope and key, or the value given to idem.CompleteTx was not made by NewAnswer")
