package idemhttp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idem-go/idem/backend"
)

// chunked is the request with its body in chunks of n bytes.
func (q request) chunked(n int) []byte {
	head, body, _ := bytes.Cut(q.bytes(), []byte("\r\n\r\n"))
	lines := bytes.Split(head, []byte("\r\n"))
	lines[len(lines)-1] = []byte("Transfer-Encoding: chunked")
	raw := append(bytes.Join(lines, []byte("\r\n")), "\r\n\r\n"...)
	for len(body) > 0 {
		c := body[:min(n, len(body))]
		raw = fmt.Appendf(raw, "%x\r\n%s\r\n", len(c), c)
		body = body[len(c):]
	}
	return append(raw, "0\r\n\r\n"...)
}

func sendRaw(t testing.TB, s *site, raw []byte) reply {
	t.Helper()
	conn := dial(t, s)
	defer conn.Close()
	if _, err := conn.Write(raw); err != nil {
		t.Fatal(err)
	}
	return receive(t, conn, http.MethodPost)
}

// echo answers with the body of the request.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// The limit is exact, however the client says how long its body is.
func TestBodyLimit(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(echo)
		s := path(t, setup{options: []Option{WithMaxBody(1000)}}, h)
		for n, fits := range map[int]bool{0: true, 1: true, 999: true, 1000: true, 1001: false} {
			q := withKey(fmt.Sprintf("key-of-%d-bytes", n))
			q.body = strings.Repeat("x", n)
			for what, raw := range map[string][]byte{"with a length": q.bytes(), "in chunks": q.chunked(300)} {
				before := ran.Load()
				if !fits {
					checkProblem(t, fmt.Sprintf("%d bytes %s", n, what), sendRaw(t, s, raw), bodyTooLarge)
					if ran.Load() != before {
						t.Errorf("the handler ran for %d bytes %s", n, what)
					}
					continue
				}
				if r := sendRaw(t, s, raw); r.status != http.StatusOK || r.body != q.body {
					t.Errorf("%d bytes %s = %d %.20q, want them back", n, what, r.status, r.body)
				}
			}
		}
	})
}

// A body in chunks is the same as one with a length.
func TestChunkedIsNoOther(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(echo)
		s := path(t, setup{}, h)
		q := order()
		q.body = `{"amount": 5, "note": "` + strings.Repeat("x", 100_000) + `"}` // more than one read
		for i, raw := range [][]byte{q.chunked(7), q.bytes(), q.chunked(50_000)} {
			r := sendRaw(t, s, raw)
			if r.body != q.body || (r.header.Get(replayedHeader) != "") != (i > 0) {
				t.Errorf("try %d = %d %q, %d bytes", i, r.status, r.head, len(r.body))
			}
		}
		if n := ran.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want 1", n)
		}
	})
}

// A body that does not arrive whole is no request: the handler does not run, and the
// key stays free.
func TestBodyIncomplete(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(echo)
		s := path(t, setup{}, h)
		q := withKey(key1)
		q.body = strings.Repeat("x", 100)
		whole := q.bytes()
		cut := map[string][]byte{
			"shorter than it says": whole[:len(whole)-1],
			"in chunks, cut off":   q.chunked(10)[:len(q.chunked(10))-5],
			"a malformed chunk":    bytes.Replace(q.chunked(10), []byte("\r\na\r\n"), []byte("\r\nzz\r\n"), 1),
		}
		for what, raw := range cut {
			conn := dial(t, s)
			if _, err := conn.Write(raw); err != nil {
				t.Fatal(err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			checkProblem(t, what, receive(t, conn, http.MethodPost), bodyIncomplete)
			conn.Close()
		}
		if n := ran.Load(); n != 0 {
			t.Errorf("the handler ran %d times, want 0", n)
		}
		if r := send(t, s, q); r.status != http.StatusOK || r.header.Get(replayedHeader) != "" {
			t.Errorf("the whole body = %d %q, want a first answer", r.status, r.head)
		}
	})
}

// A client that waits for 100 Continue gets it when its body is wanted, and a problem
// at once when it is not.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(echo)
		s := path(t, setup{options: []Option{WithMaxBody(10)}}, h)
		q := withKey(key1)
		q.header, q.body = []string{"Expect: 100-continue"}, "hello"
		for i := range 2 {
			r := send(t, s, q)
			if r.status != http.StatusOK || r.body != "hello" || len(r.early) != 1 || r.early[0] != http.StatusContinue {
				t.Errorf("try %d = %v %d %q, want 100 and 200", i, r.early, r.status, r.body)
			}
		}
		q.keys, q.body = []string{"key-number-two"}, strings.Repeat("x", 11)
		head, _, _ := bytes.Cut(q.bytes(), []byte("\r\n\r\n"))
		r := sendRaw(t, s, append(head, "\r\n\r\n"...)) // the body is never sent
		checkProblem(t, "too much", r, bodyTooLarge)
		if len(r.early) != 0 {
			t.Errorf("too much was answered with %v before the problem, want nothing", r.early)
		}
		if n := ran.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want 1", n)
		}
	})
}

// What outer handlers do with a body before the middleware.
func TestBodyTouchedBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outer func(http.ResponseWriter, *http.Request)
		want  *problem // nil: it is put back
	}{
		"read a part": {func(_ http.ResponseWriter, r *http.Request) { _, _ = r.Body.Read(make([]byte, 3)) }, &internal},
		"read it all": {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, &internal},
		"parsed":      {func(_ http.ResponseWriter, r *http.Request) { _ = r.ParseForm() }, &internal},
		"put back": {func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}, nil},
		"limited": {func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 3)
		}, &bodyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
				h, ran := runs(echo)
				s := path(t, setup{outer: func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						c.outer(w, r)
						next.ServeHTTP(w, r)
					})
				}}, h)
				q := withKey(key1)
				q.header, q.body = []string{"Content-Type: application/x-www-form-urlencoded"}, "a=b&c=d"
				r := send(t, s, q)
				if c.want == nil {
					if r.body != q.body {
						t.Errorf("answer = %d %q, want the whole body", r.status, r.body)
					}
					return
				}
				checkProblem(t, "request", r, *c.want)
				if n := ran.Load(); n != 0 {
					t.Errorf("the handler ran %d times, want 0", n)
				}
			})
		})
	}
}

// A handler that goes on reading in a goroutine of its own gets its body.
func TestBodyAfterTheHandler(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		answered, got := make(chan struct{}), make(chan string, 1)
		s := path(t, setup{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			go func() {
				<-answered
				_, _ = io.WriteString(w, "too late")
				body, err := io.ReadAll(r.Body)
				got <- fmt.Sprint(string(body), err)
			}()
			created(w, r)
		}))
		q := withKey(key1)
		q.body = "hello"
		first := send(t, s, q)
		close(answered)
		if body := <-got; body != "hello<nil>" {
			t.Errorf("body = %q, want hello", body)
		}
		if retry := send(t, s, q); retry.body != first.body || first.body != "order 1" {
			t.Errorf("answers = %q and %q, want what was written before the handler returned", first.body, retry.body)
		}
	})
}

func TestBodyLimitAsLargeAsCanBe(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello"))
	if body, err := readBody(r, math.MaxInt64); string(body) != "hello" || err != nil {
		t.Errorf("readBody = %q, %v, want hello", body, err)
	}
	r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello"))
	if body, err := readBody(r, 0); err == nil || !backend.NotApplied(err) {
		t.Errorf("readBody of nothing = %q, %v, want an error", body, err)
	}
}
