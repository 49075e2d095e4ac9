package idemhttp

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

// A client that never comes back, and one that does when its request was ended for it.
func TestPayload(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	m := memory.New(memory.WithClock(clock))
	h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
		Transient(r.Context(), idem.MaybeDone(errors.New("the process is about to die")))
		w.WriteHeader(http.StatusBadGateway)
	})
	s := leased(t, setup{backend: m, options: []Option{WithPayload()}}, h)
	q := request{keys: []string{key1}, body: `{"amount":5}`}
	if r := send(t, s, q); r.status != http.StatusBadGateway {
		t.Fatalf("POST = %d, want the handler's 502", r.status)
	}
	rec, err := m.Get(t.Context(), backend.Key{Tenant: "shop", Actor: "ada", Value: key1})
	if err != nil || string(rec.Payload) != q.body {
		t.Fatalf("the record's payload is %q, %v, want the body", rec.Payload, err)
	}
	clock.Advance(idem.DefaultLease)

	ex, err := idem.New(m)
	if err != nil {
		t.Fatal(err)
	}
	c, err := idem.NewCompleter(ex, idem.WithBackoff(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	err = idem.Handle(c, rec.Operation, func(_ context.Context, _ *idem.Run, body []byte) (idem.Response, error) {
		return NewAnswer(http.StatusCreated, http.Header{"Location": {"/orders/1"}}, body)
	})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.Pass(t.Context()); err != nil || p != (idem.Passed{Completed: 1}) {
		t.Fatalf("Pass = %+v, %v, want one completed", p, err)
	}
	r := send(t, s, q)
	if r.status != http.StatusCreated || r.header.Get("Location") != "/orders/1" || r.body != q.body || ran.Load() != 1 {
		t.Errorf("POST = %d %v %q after %d runs of the handler, want the completer's answer", r.status, r.header, r.body, ran.Load())
	}
	rec, err = m.Get(t.Context(), backend.Key{Tenant: "shop", Actor: "ada", Value: key1})
	if err != nil || rec.Payload != nil {
		t.Errorf("the completed record's payload is %q, %v, want none", rec.Payload, err)
	}

	if _, err := New(ex, byUser, WithPayload(), WithMaxBody(backend.MaxPayload+1)); !errors.Is(err, idem.ErrInvalid) {
		t.Errorf("New(WithPayload, larger bodies) = %v, want ErrInvalid", err)
	}
}
