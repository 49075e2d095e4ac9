package idemhttp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/idem-go/idem"
)

func decode(t testing.TB, s string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), into); err != nil {
		t.Fatalf("%q is no JSON: %v", s, err)
	}
}

// The limit of what is stored in the matrix. It counts the header too.
const (
	guessed     = "Content-Type: text/plain; charset=utf-8"
	limit       = 1000
	storedLimit = limit + len(guessed+"\r\n")
)

func text(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", n)) }
}

func zipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s)
	_ = z.Close()
	return b.Bytes()
}

// matrix has a row for everything that a handler can do with its answer. The first
// answer has to be the bare handler's, and the retry's the first one's, but for
// what a row says.
var matrix = []struct {
	name   string
	method string
	handle http.HandlerFunc

	bareBroken bool     // what the bare handler sends is not HTTP
	unlike     string   // why the first answer is not the bare handler's
	onlyBare   []string // lines of the header that the first answer does not have
	onlyFirst  []string // lines of the header that the retry does not have
	again      bool     // the retry runs the handler again, and gets what that answers
	retry      *problem // what the retry gets instead
}{
	// Sizes. field report 18
	{name: "no bytes", handle: text(0)},
	{name: "1 byte", handle: text(1)},
	{name: "limit-1 bytes", handle: text(limit - 1)},
	{name: "limit bytes", handle: text(limit)},
	{name: "limit+1 bytes", handle: text(limit + 1), retry: &answerNotKept},
	{name: "in many writes", handle: func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			_, _ = w.Write([]byte("abcdefghi\n"))
		}
	}},
	{name: "limit+1 bytes with Location", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Repeat("x", storedLimit))
	}, retry: &answerNotKept},

	// Statuses and headers. field report 19
	{name: "201 with Location and ETag", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id": 1}`)
	}},
	{name: "204", handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	{name: "204 and a body", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed {
			panic(err)
		}
	}},
	{name: "303", handle: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/orders/1", http.StatusSeeOther) }},
	{name: "304", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		w.WriteHeader(http.StatusNotModified)
	}},
	{name: "402", handle: func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no money", http.StatusPaymentRequired)
	}},
	{name: "409 of the handler", handle: func(w http.ResponseWriter, _ *http.Request) { // hard case 30
		http.Error(w, "sold out", http.StatusConflict)
	}},
	{name: "gzip", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Vary", "Accept-Encoding")
		_, _ = w.Write(zipped("hello"))
	}},
	{name: "no content type, and none guessed", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	}},
	{name: "content type guessed", handle: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>")
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "repeated headers", handle: func(w http.ResponseWriter, _ *http.Request) {
		for _, v := range []string{"b", "a, c", "", `"q, r"`, "b"} {
			w.Header().Add("X-Many", v)
		}
		w.Header()["x-raw-NAME"] = []string{"1"}
		w.Header()["Link"] = []string{"</a>; rel=next", "</b>; rel=prev"}
	}},
	{name: "header values that need care", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Split", "a\r\nX-Evil: 1")
		w.Header().Set("X-Space", "  a \t")
		w.Header()["not a name"] = []string{"1"}
		w.Header().Set("X-Colon", "a: b: c")
		w.Header().Set("X-Bytes", "caf\xe9")
	}},
	{name: "several Set-Cookie", handle: func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2", HttpOnly: true})
		w.Header().Set("X-Kept", "1")
		created(w, r)
	}, onlyFirst: []string{"Set-Cookie: a=1", "Set-Cookie: b=2; HttpOnly"}},
	{name: "authentication", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.Header().Set("Authentication-Info", `nextnonce="1"`)
		w.Header()["authorization"] = []string{"Bearer secret"}
		created(w, r)
	}, onlyFirst: []string{"Www-Authenticate: Basic", `Authentication-Info: nextnonce="1"`, "authorization: Bearer secret"}},
	{name: "hop-by-hop", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "x-hop, close")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Hop", "1")
		created(w, r)
	}, onlyFirst: []string{"Connection: x-hop, close", "Keep-Alive: timeout=5", "X-Hop: 1"}},
	{name: "its own Idempotent-Replayed", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Idempotent-Replayed", "true")
		created(w, r)
	}, onlyBare: []string{"Idempotent-Replayed: true"}},
	{name: "its own Content-Length", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "Content-Length that says too little", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		_, _ = io.WriteString(w, "hello")
	}, unlike: "the length is counted", bareBroken: true},
	{name: "Content-Length that says too much", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "300")
		_, _ = io.WriteString(w, "hello")
	}, unlike: "the length is counted", bareBroken: true},
	{name: "hop-by-hop, spelled otherwise", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header()["connection"] = []string{"x-hop, close"}
		w.Header()["x-hop"] = []string{"1"}
		created(w, r)
	}, onlyFirst: []string{"connection: x-hop, close", "x-hop: 1"}},
	{name: "header changed after WriteHeader", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Early", "1")
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Early", "2")
		w.Header().Set("X-Late", "1")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("Content-Type", "application/late")
	}},
	{name: "trailers", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Kept", "1")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-Other", "2")
	}, onlyBare: []string{"Trailer: X-Sum"}},
	{name: "HEAD", method: http.MethodHead, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		_, _ = io.WriteString(w, "hello")
	}},
	{name: "HEAD without a body to measure", method: http.MethodHead, handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "12345")
		w.WriteHeader(http.StatusOK)
	}},
	{name: "HEAD with nothing", method: http.MethodHead, handle: func(http.ResponseWriter, *http.Request) {}},

	// What handlers do. field report 20, field report 22
	{name: "nothing written", handle: func(http.ResponseWriter, *http.Request) {}},
	{name: "WriteHeader alone", handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }},
	{name: "WriteHeader twice", handle: func(w http.ResponseWriter, r *http.Request) {
		created(w, r)
		w.WriteHeader(http.StatusInternalServerError)
	}},
	{name: "1xx", handle: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		created(w, r)
	}, unlike: "informational answers are left out"},
	{name: "invalid status", handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) }, again: true},
	{name: "panic", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		panic("test")
	}, again: true},
	{name: "http.ErrAbortHandler", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		panic(http.ErrAbortHandler)
	}, again: true},
	{name: "Flush without WithStreaming", handle: func(w http.ResponseWriter, r *http.Request) {
		_, isFlusher := w.(http.Flusher)
		err := http.NewResponseController(w).Flush()
		w.Header().Set("X-Flusher", map[bool]string{true: "yes", false: "no"}[isFlusher || err == nil])
		created(w, r)
	}, unlike: "the answer is buffered"},
	{name: "Hijack without WithStreaming", handle: func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(http.Hijacker); ok {
			panic("hijacker")
		}
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			panic("hijacked")
		}
		created(w, r)
	}, unlike: "the answer is buffered"},

	// Not stored. field report 16
	{name: "401", handle: status(401), again: true},
	{name: "403", handle: status(403), again: true},
	{name: "408", handle: status(408), again: true},
	{name: "425", handle: status(425), again: true},
	{name: "429", handle: status(429), again: true},
	{name: "500", handle: status(500), again: true},
	{name: "503 with Retry-After and a cookie", handle: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.Error(w, "down", http.StatusServiceUnavailable)
	}, again: true},
	{name: "transient 409", handle: func(w http.ResponseWriter, r *http.Request) { // hard case 30
		Transient(r.Context(), nil)
		http.Error(w, "somebody else is at it", http.StatusConflict)
	}, again: true},
	{name: "transient 201", handle: func(w http.ResponseWriter, r *http.Request) {
		Transient(r.Context(), io.ErrUnexpectedEOF)
		created(w, r)
	}, again: true},
	{name: "final 500", handle: func(w http.ResponseWriter, r *http.Request) {
		Final(r.Context())
		http.Error(w, "broken for good", http.StatusInternalServerError)
	}},
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Kept", "1")
		http.Error(w, "no", code)
	}
}

// tableSet is a header as a set of lines, without the two that say how long a body
// is, which is not what a handler answers.
func tableSet(lines []string) []string {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return strings.HasPrefix(l, "Content-Length: ") || strings.HasPrefix(l, "Transfer-Encoding: ")
	})
	slices.SortStableFunc(lines, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB) // values of one name stay in order
	})
	return lines
}

func without(lines, drop []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return slices.Contains(drop, l) })
}

// The response matrix: design 9, field reports 16, 18, 19, 20 and 22, hard cases 15
// and 30.
func TestMatrix(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, site func(testing.TB, setup, http.Handler) *site) {
		for _, c := range matrix {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				h, ran := runs(c.handle)
				s := site(t, setup{
					executor: []idem.Option{idem.WithMaxResponse(storedLimit)},
					options:  []Option{WithMethods("POST", "HEAD")},
				}, h)
				q := withKey(key1)
				q.method = c.method

				var bare reply
				if !c.bareBroken {
					bare = send(t, serve(t, c.handle), q)
				}
				first := send(t, s, q)
				if c.unlike == "" {
					if first.status != bare.status || first.body != bare.body {
						t.Errorf("first answer = %d %q, want the bare handler's, %d %q", first.status, first.body, bare.status, bare.body)
					}
					got, want := tableSet(first.head), tableSet(without(bare.head, c.onlyBare))
					if !slices.Equal(got, want) {
						t.Errorf("header of the first answer = %q, want the bare handler's, %q", got, want)
					}
				}
				if c.method != http.MethodHead && !first.aborted() && hasBody(first.status) && first.header.Get("Content-Length") == "" {
					t.Errorf("the first answer has no Content-Length: %q", first.head)
				}

				retry := send(t, s, q)
				switch {
				case c.retry != nil:
					checkProblem(t, "retry", retry, *c.retry)
					if got, want := retry.header.Get("Location"), first.header.Get("Location"); got != want {
						t.Errorf("Location of the retry = %q, want %q", got, want)
					}
				case c.again:
					if retry.status != first.status || retry.body != first.body || !slices.Equal(retry.head, first.head) {
						t.Errorf("retry = %d %q %q, want %d %q %q", retry.status, retry.head, retry.body, first.status, first.head, first.body)
					}
				default:
					if retry.status != first.status || retry.body != first.body {
						t.Errorf("retry = %d %q, want %d %q", retry.status, retry.body, first.status, first.body)
					}
					got, want := tableLines(retry.head), tableLines(append(without(first.head, c.onlyFirst), "Idempotent-Replayed: true"))
					if !slices.Equal(got, want) {
						t.Errorf("header of the retry = %q, want %q", got, want)
					}
				}
				want := int32(1)
				if c.again {
					want = 2
				}
				if got := ran.Load(); got != want {
					t.Errorf("the handler ran %d times, want %d", got, want)
				}
				if errs := s.failures(); len(errs) > 0 {
					t.Errorf("errors = %v, want none", errs)
				}
			})
		}
	})
}

// tableLines is tableSet with the length of the body. What the connection's end adds
// by itself does not count.
func tableLines(lines []string) []string {
	lines = without(lines, []string{"Connection: close"})
	slices.SortStableFunc(lines, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return lines
}
