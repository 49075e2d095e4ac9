package idemhttp

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

// gate stops somebody at a point until the test lets go.
type gate struct{ reached, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

// pass is called by the one that is stopped, once.
func (g *gate) pass() {
	close(g.reached)
	<-g.open
}

// once is pass the first time, and nothing after that.
func (g *gate) once() func() {
	var passed atomic.Bool
	return func() {
		if !passed.Swap(true) {
			g.pass()
		}
	}
}

// gated is a store with gates before the claim and before the completion.
type gated struct {
	backend.Backend
	claim, complete func()
}

func (b *gated) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	b.claim()
	return b.Backend.Claim(ctx, c)
}

func (b *gated) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	b.complete()
	return b.Backend.Complete(ctx, l, c)
}

// WithClientCancel gives the handler the client's going away, and what the handler
// answers all the same is stored.
func TestWithClientCancel(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		started := make(chan struct{}, 1)
		finished := make(chan error, 1)
		h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
			started <- struct{}{}
			<-r.Context().Done()
			finished <- context.Cause(r.Context())
			created(w, r)
		})
		s := path(t, setup{options: []Option{WithClientCancel()}}, h)
		conn := dial(t, s)
		if _, err := conn.Write(withKey(key1).bytes()); err != nil {
			t.Fatal(err)
		}
		<-started
		conn.Close()
		if err := <-finished; !errors.Is(err, context.Canceled) {
			t.Errorf("the handler's context ended with %v, want %v", err, context.Canceled)
		}
		r := reply{status: http.StatusConflict}
		for r.status == http.StatusConflict {
			r = send(t, s, withKey(key1)) // until the first one has ended
		}
		if n := ran.Load(); n != 1 || r.status != http.StatusCreated || r.header.Get(replayedHeader) != "true" {
			t.Errorf("retry = %d %q after %d runs, want the replay of 201 and 1", r.status, r.head, n)
		}
	})
}

func TestWithTimeout(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := r.Context().Deadline(); !ok {
				t.Error("the handler's context has no deadline")
			}
			<-r.Context().Done()
			http.Error(w, r.Context().Err().Error(), http.StatusGatewayTimeout)
		})
		s := path(t, setup{options: []Option{WithTimeout(50 * time.Millisecond)}}, h)
		for ran.Load() < 2 {
			before := ran.Load()
			r := send(t, s, withKey(key1))
			if ran.Load() == before { // on a slow machine it is over before the claim
				checkProblem(t, "request", r, unavailable)
			} else if r.status != http.StatusGatewayTimeout || r.body != "context deadline exceeded\n" {
				t.Fatalf("request = %d %q, want the handler's own 504", r.status, r.body)
			}
		}
	})
}

// What outer handlers put into the context stays.
func TestContextValues(t *testing.T) {
	t.Parallel()
	type key struct{}
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Context().Value(key{}); got != "value" {
				t.Errorf("Value() = %v, want value", got)
			}
			created(w, r)
		})
		s := path(t, setup{outer: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, "value")))
			})
		}}, h)
		if r := send(t, s, withKey(key1)); r.status != http.StatusCreated {
			t.Errorf("request = %d, want 201", r.status)
		}
	})
}
