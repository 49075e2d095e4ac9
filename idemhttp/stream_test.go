package idemhttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
)

// field report 18, hard case 15: an answer that leaves while it is made reaches its
// caller whole, the handler runs once, and a retry is told that the answer is gone.
func TestStreaming(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   reply
	}{
		"Flush": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/orders/1")
			w.Header().Set("Content-Length", "3") // of which nothing is known yet
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "one ")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "two ")
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			_, _ = w.Write([]byte("three"))
		}, reply{status: http.StatusCreated, body: "one two three"}},
		"Flush before anything": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "hello")
		}, reply{status: http.StatusOK, body: "hello"}},
		"Flush alone": {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, reply{status: http.StatusOK}},
		"Flush and 204": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			w.(http.Flusher).Flush()
		}, reply{status: http.StatusNoContent}},
		"Hijack": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok")
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
				panic(fmt.Sprintf("Write after Hijack = %v", err))
			}
		}, reply{status: http.StatusAccepted, body: "ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, ran := runs(c.handle)
			s := leased(t, setup{options: []Option{WithStreaming()}}, h)
			first := send(t, s, withKey(key1))
			if first.status != c.want.status || first.body != c.want.body {
				t.Errorf("first = %d %q, want %d %q", first.status, first.body, c.want.status, c.want.body)
			}
			retry := send(t, s, withKey(key1))
			checkProblem(t, "retry", retry, answerNotKept)
			if got, want := retry.header.Get("Location"), first.header.Get("Location"); got != want {
				t.Errorf("Location of the retry = %q, want %q", got, want)
			}
			if retry.header.Get("Set-Cookie") != "" {
				t.Errorf("the retry got the cookie of the first: %q", retry.head)
			}
			if n := ran.Load(); n != 1 {
				t.Errorf("the handler ran %d times, want 1", n)
			}
			if errs := s.failures(); len(errs) > 0 {
				t.Errorf("errors = %v, want none", errs)
			}
		})
	}
}

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

// An answer that is not stored can't leave early: it stays in memory.
func TestFlushOfWhatIsNotStored(t *testing.T) {
	t.Parallel()
	h, ran := runs(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "down")
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Flush() = %v, want %v", err, http.ErrNotSupported)
		}
	})
	s := leased(t, setup{options: []Option{WithStreaming()}}, h)
	for range 2 {
		if r := send(t, s, withKey(key1)); r.status != http.StatusServiceUnavailable || r.body != "down" {
			t.Errorf("request = %d %q, want the handler's 503", r.status, r.body)
		}
	}
	if n := ran.Load(); n != 2 {
		t.Errorf("the handler ran %d times, want 2", n)
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

// WithMaxBuffer is exact. Over it, an answer on the leased path goes on without being
// kept; where that can't be, nothing is stored and nothing of it is sent.
func TestMaxBuffer(t *testing.T) {
	t.Parallel()
	const limit = 1000
	large := func(status, n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			for range n {
				if _, err := io.WriteString(w, "x"); err != nil {
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		path   func(testing.TB, setup, http.Handler) *site
		status int
		size   int
		first  *problem // nil: the whole answer
		retry  *problem // nil: as the first
		runs   int32
	}{
		"leased, limit":                  {leased, http.StatusOK, limit, nil, nil, 1},
		"leased, limit+1":                {leased, http.StatusOK, limit + 1, nil, &answerNotKept, 1},
		"leased, limit+1, not stored":    {leased, http.StatusTooManyRequests, limit + 1, &answerTooLarge, &answerTooLarge, 2},
		"transaction, limit":             {transacted, http.StatusOK, limit, nil, nil, 1},
		"transaction, limit+1":           {transacted, http.StatusOK, limit + 1, &answerTooLarge, &answerTooLarge, 2},
		"transaction, much over, stored": {transacted, http.StatusPaymentRequired, 5 * limit, &answerTooLarge, &answerTooLarge, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, ran := runs(large(c.status, c.size))
			s := c.path(t, setup{options: []Option{WithMaxBuffer(limit)}}, h)
			for i, want := range []*problem{c.first, c.retry} {
				r := send(t, s, withKey(key1))
				if want != nil {
					checkProblem(t, fmt.Sprintf("try %d", i+1), r, *want)
				} else if r.status != c.status || len(r.body) != c.size {
					t.Errorf("try %d = %d, %d bytes, want %d and %d", i+1, r.status, len(r.body), c.status, c.size)
				}
			}
			if n := ran.Load(); n != c.runs {
				t.Errorf("the handler ran %d times, want %d", n, c.runs)
			}
		})
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
