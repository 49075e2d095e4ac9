package httpsuite_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/idem-go/idem/idemhttp"
)

var quiet = log.New(io.Discard, "", 0)

// layer makes a handler idempotent, with joints where a fault can be put. Without one it
// does everything right.
type layer struct {
	next http.Handler

	lines    func(r *http.Request) []string                                      // of the key's header
	parse    func(lines []string) (string, error)                                //
	missing  bool                                                                // requests without a key are let through
	identity func(r *http.Request, key string, body []byte) string               // what a record is found by
	content  func(r *http.Request, body []byte) string                           // what a request is compared by
	differs  func(rec *record, content string) bool                              //
	gap      func()                                                              // between looking for a record and making one; nil: both are one step
	claimed  func(rec *record)                                                   // before the handler runs
	busy     func(l *layer, w http.ResponseWriter, r *http.Request, rec *record) // in flight
	forget   func(r *http.Request) bool                                          // after the handler has run
	again    func(l *layer, r *http.Request, body []byte)                        // before a replay
	replay   func(h http.Header, status int, body []byte) (int, []byte)
	first    func(h http.Header)
	refuse   func(rec *record) // a mismatch
	problem  func(p *problem, rec *record, key string, body []byte)

	mu      sync.Mutex
	records map[string]*record
}

// record of a key. What it has besides is for faults.
type record struct {
	content string
	user    string
	done    chan struct{}
	header  http.Header
	status  int
	body    []byte
}

func (r *record) completed() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

type problem struct {
	media, cache, retryAfter string
	members                  map[string]any
	status                   int
	header                   http.Header
}

func newLayer(next http.Handler, fault func(l *layer)) *layer {
	l := &layer{
		next: next, records: make(map[string]*record),
		lines:    func(r *http.Request) []string { return r.Header["Idempotency-Key"] },
		parse:    idemhttp.KeySyntax{}.Parse,
		identity: func(r *http.Request, key string, _ []byte) string { return r.Header.Get("X-User") + "\x00" + key },
		content:  func(_ *http.Request, body []byte) string { return string(body) },
		differs:  func(rec *record, content string) bool { return rec.content != content },
		claimed:  func(*record) {},
		busy: func(l *layer, w http.ResponseWriter, _ *http.Request, _ *record) {
			l.say(w, inProgress(), nil, "", nil)
		},
		forget: func(*http.Request) bool { return false },
		again:  func(*layer, *http.Request, []byte) {},
		replay: func(h http.Header, status int, body []byte) (int, []byte) {
			h.Set("Idempotent-Replayed", "true")
			h.Del("Set-Cookie")
			return status, body
		},
		first:   func(http.Header) {},
		refuse:  func(*record) {},
		problem: func(*problem, *record, string, []byte) {},
	}
	fault(l)
	return l
}

func newProblem(status int, kind string, retryable bool) *problem {
	return &problem{
		media: "application/problem+json", cache: "no-store", status: status, header: make(http.Header),
		members: map[string]any{"type": "https://shop.example/problems#" + kind, "title": kind, "status": status, "retryable": retryable},
	}
}

func inProgress() *problem {
	p := newProblem(http.StatusConflict, "in-progress", true)
	p.retryAfter = "1"
	return p
}

func (l *layer) say(w http.ResponseWriter, p *problem, rec *record, key string, body []byte) {
	l.problem(p, rec, key, body)
	maps.Copy(w.Header(), p.header)
	w.Header().Set("Content-Type", p.media)
	if p.cache != "" {
		w.Header().Set("Cache-Control", p.cache)
	}
	if p.retryAfter != "" {
		w.Header().Set("Retry-After", p.retryAfter)
	}
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(p.members)
}

func (l *layer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := readBody(r)
	lines := l.lines(r)
	key, err := l.parse(lines)
	switch {
	case len(lines) == 0 && l.missing:
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.next.ServeHTTP(w, r)
		return
	case len(lines) == 0:
		l.say(w, newProblem(http.StatusBadRequest, "missing", false), nil, "", body)
		return
	case err != nil:
		l.say(w, newProblem(http.StatusBadRequest, "malformed", false), nil, lines[0], body)
		return
	}
	id, content := l.identity(r, key, body), l.content(r, body)
	l.mu.Lock()
	rec := l.records[id]
	if l.gap != nil {
		l.mu.Unlock()
		l.gap()
		l.mu.Lock()
	}
	mine := rec == nil
	if mine {
		rec = &record{content: content, user: r.Header.Get("X-User"), done: make(chan struct{})}
		l.claimed(rec)
		l.records[id] = rec
	}
	l.mu.Unlock()
	switch {
	case mine:
		l.run(w, r, id, rec, body)
	case l.differs(rec, content):
		l.refuse(rec)
		l.say(w, newProblem(http.StatusUnprocessableEntity, "mismatch", false), rec, key, body)
	case !rec.completed():
		l.busy(l, w, r, rec)
	default:
		l.again(l, r, body)
		l.send(w, rec, true)
	}
}

func (l *layer) run(w http.ResponseWriter, r *http.Request, id string, rec *record, body []byte) {
	out := l.handle(r, body)
	if l.forget(r) {
		l.mu.Lock()
		delete(l.records, id)
		l.mu.Unlock()
	}
	rec.status, rec.header, rec.body = out.Code, out.Header(), out.Body.Bytes()
	close(rec.done)
	l.send(w, rec, false)
}

func (l *layer) handle(r *http.Request, body []byte) *httptest.ResponseRecorder {
	return serve(l.next, r, body)
}

func serve(h http.Handler, r *http.Request, body []byte) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	next := r.Clone(r.Context())
	next.Body = io.NopCloser(bytes.NewReader(body))
	h.ServeHTTP(out, next)
	return out
}

func (l *layer) send(w http.ResponseWriter, rec *record, replay bool) {
	l.mu.Lock()
	h, status, body := rec.header.Clone(), rec.status, rec.body
	l.mu.Unlock()
	if replay {
		status, body = l.replay(h, status, body)
	} else {
		l.first(h)
	}
	maps.Copy(w.Header(), h)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
