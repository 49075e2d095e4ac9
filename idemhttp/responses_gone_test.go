package idemhttp

import (
	"context"
	"database/sql"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// leave sends a request, and gives a function with which its client goes away: it ends the
// connection, or on HTTP/2 the stream.
func leave(t *testing.T, s *site, wire string, q request) (away func()) {
	t.Helper()
	if wire == "HTTP/2" {
		conn := dial2(t, s)
		t.Cleanup(func() { conn.Close() })
		conn.write(t, q)
		return func() {
			if err := conn.framer.WriteRSTStream(h2stream, http2.ErrCodeCancel); err != nil {
				t.Error(err)
			}
		}
	}
	conn := dial(t, s)
	if _, err := conn.Write(q.bytes()); err != nil {
		t.Fatal(err)
	}
	return func() { conn.Close() }
}

// tellContext sends the context of each request, as the server gave it.
func tellContext(to chan<- context.Context) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to <- r.Context()
			next.ServeHTTP(w, r)
		})
	}
}

// goneClient is a client that goes away at a point, and comes back: the request is
// completed all the same, and its retry gets the answer.
func goneClient(t *testing.T, path, wire, point string) {
	t.Helper()
	g := newGate()
	stop := g.once()
	at := func(p string) func() {
		return func() {
			if p == point {
				stop()
			}
		}
	}
	inHandler := at("in the handler")
	h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
		inHandler()
		if err := r.Context().Err(); err != nil {
			t.Errorf("the handler's context: %v, want it to go on", err)
		}
		created(w, r)
	})
	requests := make(chan context.Context, 1)
	var s *site
	if path == "leased" {
		s = leased(t, setup{
			backend: &gated{memory.New(), at("after the body"), at("before the completion")},
			outer:   tellContext(requests),
		}, h)
	} else {
		before, after := at("after the body"), at("before the completion")
		s = transacted(t, setup{
			outer: tellContext(requests),
			tx: interfere(func(inner func(effect) (backend.Claimed, error), e effect) (backend.Claimed, error) {
				before()
				return inner(func(ctx context.Context, tx *sql.Tx, c backend.Claimed) (backend.Effect, error) {
					defer after()
					return e(ctx, tx, c)
				})
			}),
		}, h)
	}
	q := withKey(key1)
	q.body = "hello" // until it is read, net/http does not notice
	away := leave(t, s, wire, q)
	<-g.reached
	away()
	select {
	case <-(<-requests).Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not notice that the client has gone")
	}
	close(g.open)

	// Until the first one has ended.
	r := reply{status: http.StatusConflict}
	for r.status == http.StatusConflict {
		r = send(t, s, q)
		<-requests
	}
	if r.status != http.StatusCreated || r.body != "order 1" || r.header.Get(replayedHeader) != "true" {
		t.Errorf("retry = %d %q %q, want the replay of 201", r.status, r.head, r.body)
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want 1", n)
	}
}
