package idemhttp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
)

// The tombstone is stored before the first byte leaves. The client sees how far the
// handler got, and whatever became of it, it does not run again.
func TestStreamBroken(t *testing.T) {
	t.Parallel()
	g := newGate()
	h, ran := runs(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half of it")
		w.(http.Flusher).Flush()
		g.pass()
		panic(http.ErrAbortHandler)
	})
	s := leased(t, setup{options: []Option{WithStreaming()}}, h)
	conn := dial(t, s)
	defer conn.Close()
	if _, err := conn.Write(withKey(key1).bytes()); err != nil {
		t.Fatal(err)
	}
	<-g.reached
	during := send(t, s, withKey(key1))
	close(g.open)
	checkProblem(t, "retry while it streams", during, inProgress)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); string(body) != "half of it" || err == nil {
		t.Errorf("first = %q, %v, want half of it and an error", body, err)
	}
	checkProblem(t, "retry", send(t, s, withKey(key1)), answerNotKept)
	if n := ran.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want 1", n)
	}
}

// field report 21: the store is down when the first byte should leave. Nothing leaves.
func TestStreamStoreDown(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.ResponseWriter) error{
		"Flush":  func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
		"Hijack": func(w http.ResponseWriter) error { _, _, err := http.NewResponseController(w).Hijack(); return err },
		"Write": func(w http.ResponseWriter) error {
			_, err := io.WriteString(w, strings.Repeat("x", 1001))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newShaky()
			fail(&b.completes, &backend.Error{Op: "test", Kind: backend.ErrInvalid, Err: errDown})
			h, ran := runs(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/secret")
				if err := start(w); err == nil {
					t.Error("the answer can leave, want an error")
				}
				if _, err := io.WriteString(w, "secret"); err == nil {
					t.Error("Write() = nil, want an error")
				}
			})
			s := leased(t, setup{backend: b, options: []Option{WithStreaming(), WithMaxBuffer(1000)}}, h)
			r := send(t, s, withKey(key1))
			checkProblem(t, "request", r, unknownOutcome)
			if all := strings.Join(r.head, "\n") + r.body; strings.Contains(all, "secret") {
				t.Errorf("request = %q, which has something of the answer", all)
			}
			b.completes.Store(nil)
			checkProblem(t, "retry before the lease is over", send(t, s, withKey(key1)), inProgress)
			if n := ran.Load(); n != 1 {
				t.Errorf("the handler ran %d times, want 1", n)
			}
		})
	}
}

// noHijack says that it can be hijacked, and can't.
type noHijack struct{ http.ResponseWriter }

func (noHijack) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errDown }

// A connection that turns out not to be the handler's to have. The record is
// completed by then; what the handler says of it is not sent as if it was stored.
func TestHijackFails(t *testing.T) {
	t.Parallel()
	h, ran := runs(func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, errDown) {
			t.Errorf("Hijack() = %v, want %v", err, errDown)
		}
		http.Error(w, "no connection", http.StatusInternalServerError)
	})
	s := leased(t, setup{options: []Option{WithStreaming()}, outer: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(noHijack{w}, r) })
	}}, h)
	checkProblem(t, "request", send(t, s, withKey(key1)), internal)
	checkProblem(t, "retry", send(t, s, withKey(key1)), answerNotKept)
	if n := ran.Load(); n != 1 {
		t.Errorf("the handler ran %d times, want 1", n)
	}
}

// A run that was taken over can't begin to stream.
func TestStreamAfterTakeover(t *testing.T) {
	t.Parallel()
	b := newShaky()
	lost := atomic.Bool{}
	h, _ := runs(func(w http.ResponseWriter, _ *http.Request) {
		lost.Store(true)
		fail(&b.completes, idem.ErrLeaseLost)
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, idem.ErrLeaseLost) {
			t.Errorf("Flush() = %v, want %v", err, idem.ErrLeaseLost)
		}
		_, _ = io.WriteString(w, "secret")
	})
	s := leased(t, setup{backend: b, options: []Option{WithStreaming()}}, h)
	r := send(t, s, withKey(key1))
	checkProblem(t, "request", r, leaseLost)
	if !lost.Load() || strings.Contains(r.body, "secret") {
		t.Errorf("request = %q, want nothing of the answer", r.body)
	}
}
