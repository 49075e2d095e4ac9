package httpsuite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/idem-go/idem/conformance/httpsuite"
)

// app is a service that counts its effects, without anything that makes it idempotent.
type app struct {
	mu      sync.Mutex
	paid    int
	effects map[int]int
	holds   map[int]*hold
}

// hold keeps requests where they are.
type hold struct {
	reached, open chan struct{}
	arrive, free  func()
}

func newApp() *app { return &app{effects: make(map[int]int), holds: make(map[int]*hold)} }

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var order struct{ N int }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, "no order", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	h := a.holds[order.N]
	a.mu.Unlock()
	if h != nil {
		h.arrive()
		<-h.open
	}
	a.mu.Lock()
	a.paid++
	a.effects[order.N]++
	id := a.paid
	a.mu.Unlock()
	w.Header().Set("Location", fmt.Sprintf("/payments/%d", id))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Add("Link", "</a>")
	w.Header().Add("Link", "</b>")
	w.Header().Set("Set-Cookie", "seen=1")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"payment": %d, "of": %q}`, id, r.Header.Get("X-User"))
}

func (a *app) count(_ context.Context, n int) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.effects[n], nil
}

func (a *app) slow(n int) (<-chan struct{}, func()) {
	h := &hold{reached: make(chan struct{}), open: make(chan struct{})}
	h.arrive = sync.OnceFunc(func() { close(h.reached) })
	h.free = sync.OnceFunc(func() { close(h.open) })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds[n] = h
	return h.reached, h.free
}

func body(n int) (string, []byte) {
	return "application/json", fmt.Appendf(nil, `{"n": %d, "card": "4000-0000-0000-0002"}`, n)
}

func authorize(user int, r *http.Request) {
	r.Header.Set("X-User", []string{"ada", "bob"}[user])
}

// config is for a server of the app, all of which is claimed.
func (a *app) config(url string) httpsuite.Config {
	return httpsuite.Config{
		URL: url, Path: "/payments", Body: body, First: 100, Authorize: authorize,
		Effects: a.count, Slow: a.slow, Claims: httpsuite.Ours(),
	}
}

// serve starts a server of h as p has it, and completes the config.
func (a *app) serve(t *testing.T, h http.Handler, p planted) httpsuite.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = quiet
	c := a.config("")
	if p.wire != nil {
		s.Listener = p.wire(s.Listener)
	}
	if p.secure {
		s.EnableHTTP2 = true
		s.StartTLS()
		c.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

func readBody(r *http.Request) []byte {
	b, _ := io.ReadAll(r.Body)
	return b
}
