package idemhttp

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

func newMiddleware(t testing.TB, b backend.Backend, opts ...Option) *Middleware {
	t.Helper()
	ex, err := idem.New(b)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(ex, byUser, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// One target has one spelling, however the client and the routes around the
// middleware write it.
func TestTarget(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"/a/b?c=d":                         "/a/b?c=d",
		"/a%2Fb%7E|":                       "/a%2Fb%7E|",
		"//a//b?":                          "//a//b?",
		"/a?to=http://b/c":                 "/a?to=http://b/c",
		"http://shop.example/a/b?c=d":      "/a/b?c=d",
		"http://shop.example/a%2Fb%7E|":    "/a%2Fb%7E|",
		"HTTP://u@shop.example:80//a//b?":  "//a//b?",
		"http://shop.example":              "/",
		"http://shop.example?c=d":          "/?c=d",
		"http://shop.example/?to=ftp://b/": "/?to=ftp://b/",
		"*":                                "*",
	} {
		r := &http.Request{RequestURI: uri}
		if got := target(r); got != want {
			t.Errorf("target(%q) = %q, want %q", uri, got, want)
		}
	}
	r, err := http.NewRequest(http.MethodPost, "http://shop.example/a%2Fb?c=d", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := target(r); got != "/a%2Fb?c=d" {
		t.Errorf("target of a request that no server made = %q, want /a%%2Fb?c=d", got)
	}
}

// The absolute form is the same request; http.StripPrefix makes no two routes one.
func TestRoutes(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
		s := path(t, setup{outer: func(next http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/v1/", http.StripPrefix("/v1", next))
			mux.Handle("/v2/", http.StripPrefix("/v2", next))
			return mux
		}}, h)
		q := withKey(key1)
		q.path = "/v1/orders"
		first := send(t, s, q)
		q.path = "http://shop.example/v1/orders"
		if r := send(t, s, q); r.body != "/orders" || first.body != "/orders" || r.header.Get(replayedHeader) != "true" {
			t.Errorf("absolute form = %d %q, want the replay of %q", r.status, r.body, first.body)
		}
		q.path = "/v2/orders"
		checkProblem(t, "another prefix", send(t, s, q), keyReused)
		if n := ran.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want 1", n)
		}
	})
}

// The operation is the mux's pattern, where it is known.
func TestOperation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pattern string
		options []Option
		want    string
	}{
		"pattern": {pattern: "POST /orders/{id}", want: "POST /orders/{id}"},
		"no mux":  {want: http.MethodPost},
		"given":   {pattern: "/", options: []Option{WithOperation(func(*http.Request) string { return "order" })}, want: "order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := memory.New()
			h := newMiddleware(t, b, c.options...).Wrap(http.HandlerFunc(created))
			if c.pattern != "" {
				mux := http.NewServeMux()
				mux.Handle(c.pattern, h)
				h = mux
			}
			r := httptest.NewRequest(http.MethodPost, "/orders/7", nil)
			r.Header.Set("Idempotency-Key", key1)
			h.ServeHTTP(httptest.NewRecorder(), r)
			rec, err := b.Get(t.Context(), backend.Key{Tenant: "shop", Actor: "ada", Value: key1})
			if err != nil || rec.Operation != c.want {
				t.Errorf("operation = %q, %v, want %q", rec.Operation, err, c.want)
			}
		})
	}
}

// Requests that are not protected reach the handler as they are.
func TestPassedThrough(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := RunFrom(r.Context()); ok {
				t.Error("RunFrom() of a request that is not protected = a run")
			}
			if _, ok := Tx[*sql.Tx](r.Context()); ok {
				t.Error("Tx() of a request that is not protected = a transaction")
			}
			Transient(r.Context(), nil)
			Final(r.Context())
			w.(http.Flusher).Flush()
			_, _ = io.Copy(w, r.Body)
		})
		s := path(t, setup{options: []Option{Optional(), WithMethods(http.MethodPost), WithMaxBody(3)}}, h)
		for _, q := range []request{
			{body: "hello"},
			{method: http.MethodPut, keys: []string{key1}, body: "hello"},
			{method: http.MethodPatch, keys: []string{"a", "b"}, body: "hello"},
		} {
			for range 2 {
				if r := send(t, s, q); r.status != http.StatusOK || r.body != "hello" || r.header.Get(replayedHeader) != "" {
					t.Errorf("%s with keys %q = %d %q %q, want the handler's answer", q.method, q.keys, r.status, r.head, r.body)
				}
			}
		}
		if n := ran.Load(); n != 6 {
			t.Errorf("the handler ran %d times, want 6", n)
		}
	})
}

// A handler that can't do without its transaction always has it.
func TestWrapFunc(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	m, err := NewTx(setup{}.txExecutor(t, db), byUser, Optional())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, m.WrapFunc(func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		if same, ok := Tx[*sql.Tx](r.Context()); !ok || same != tx {
			t.Error("Tx() is not the transaction that the handler got")
		}
		if _, err := tx.ExecContext(r.Context(), "INSERT INTO effects VALUES ('order')"); err != nil {
			t.Error(err)
		}
		created(w, r)
	}))
	checkProblem(t, "no key", send(t, s, request{}), keyMissing)
	q := withKey(key1)
	q.method = http.MethodPut
	r := send(t, s, q)
	checkProblem(t, "another method", r, methodNotAllowed)
	if got := r.header.Get("Allow"); got != "POST, PATCH" {
		t.Errorf("Allow = %q, want POST, PATCH", got)
	}
	for range 2 {
		if r := send(t, s, withKey(key1)); r.status != http.StatusCreated {
			t.Errorf("request = %d %q, want 201", r.status, r.body)
		}
	}
	if n := count(t, db); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// Middleware inside of middleware. What the inner one does not store, the outer one
// does not store either: its problems least of all (hard case 30).
func TestNested(t *testing.T) {
	t.Parallel()
	onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
		var handle http.HandlerFunc
		h, ran := runs(func(w http.ResponseWriter, r *http.Request) { handle(w, r) })
		inner := newMiddleware(t, memory.New()).Wrap(h)
		s := path(t, setup{}, inner)
		for key, c := range map[string]struct {
			handle http.HandlerFunc
			status int
			again  bool
		}{
			"key-of-an-answer": {handle: created, status: http.StatusCreated},
			"key-of-a-409":     {handle: status(http.StatusConflict), status: http.StatusConflict},
			"key-of-a-passing-409": {handle: func(w http.ResponseWriter, r *http.Request) {
				Transient(r.Context(), nil)
				w.WriteHeader(http.StatusConflict)
			}, status: http.StatusConflict, again: true},
		} {
			handle = c.handle
			before := ran.Load()
			for i := range 2 {
				r := send(t, s, withKey(key))
				if r.status != c.status || (r.header.Get(replayedHeader) != "") != (i == 1 && !c.again) {
					t.Errorf("%s, try %d = %d %q", key, i+1, r.status, r.head)
				}
			}
			if n := ran.Load() - before; (n == 2) != c.again {
				t.Errorf("%s: the handler ran %d times, want again %v", key, n, c.again)
			}
		}
	})
	t.Run("problem of the inner one", func(t *testing.T) {
		t.Parallel()
		onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
			b := newShaky()
			busy := backend.Claimed{Hidden: true}
			claims := 0
			inner := newMiddleware(t, claimOnce{b, &claims, busy}).Wrap(http.HandlerFunc(created))
			s := path(t, setup{}, inner)
			checkProblem(t, "first", send(t, s, withKey(key1)), inProgress)
			if r := send(t, s, withKey(key1)); r.status != http.StatusCreated {
				t.Errorf("retry = %d %q, want 201: the problem was stored", r.status, r.body)
			}
		})
	})
	t.Run("the same one", func(t *testing.T) {
		t.Parallel()
		onBothPaths(t, func(t *testing.T, path func(testing.TB, setup, http.Handler) *site) {
			h, ran := runs(created)
			m := newMiddleware(t, memory.New(), WithErrorHandler(func(_ *http.Request, err error) {
				if !errors.Is(err, idem.ErrInvalid) {
					t.Errorf("error = %v, want %v", err, idem.ErrInvalid)
				}
			}))
			s := path(t, setup{}, m.Wrap(m.Wrap(h)))
			checkProblem(t, "request", send(t, s, withKey(key1)), internal)
			if n := ran.Load(); n != 0 {
				t.Errorf("the handler ran %d times, want 0", n)
			}
		})
	})
}

// claimOnce is a store whose first claim has a given answer.
type claimOnce struct {
	backend.Backend
	n     *int
	first backend.Claimed
}

func (b claimOnce) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	if *b.n++; *b.n == 1 {
		return b.first, nil
	}
	return b.Backend.Claim(ctx, c)
}

// field report 3: a handler that takes longer than three leases keeps its key. A
// duplicate from another process meanwhile is refused, and there is one effect.
func TestOutlivesItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 10 * time.Second
		store := memory.New()
		wrap := func(h http.Handler) http.Handler {
			ex, err := idem.New(store, idem.WithLease(lease))
			if err != nil {
				t.Fatal(err)
			}
			m, err := New(ex, byUser)
			if err != nil {
				t.Fatal(err)
			}
			return m.Wrap(h)
		}
		h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(3*lease + lease/2)
			if err := r.Context().Err(); err != nil {
				t.Errorf("the handler's context: %v", err)
			}
			created(w, r)
		})
		own, other := wrap(h), wrap(h)
		serve := func(h http.Handler) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("hello"))
			r.Header.Set("Idempotency-Key", key1)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- serve(own) }()
		for range 3 {
			time.Sleep(lease + time.Second)
			if w := serve(other); w.Code != http.StatusConflict {
				t.Errorf("duplicate = %d %q, want 409", w.Code, w.Body)
			}
		}
		if w := <-first; w.Code != http.StatusCreated {
			t.Errorf("first = %d %q, want 201", w.Code, w.Body)
		}
		if w := serve(other); w.Code != http.StatusCreated || w.Header().Get(replayedHeader) != "true" {
			t.Errorf("retry = %d %q, want the replay of 201", w.Code, w.Header())
		}
		if n := ran.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want 1", n)
		}
	})
}

// field report 3, on the transaction path: the lease bounds the handler, and what it
// does after that is not committed.
func TestTransactionOutlivesItsLease(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	late := true
	s := transactedOn(t, db, setup{executor: []idem.Option{idem.WithLease(time.Second)}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, _ := Tx[*sql.Tx](r.Context())
		if _, err := tx.Exec("INSERT INTO effects VALUES ('order')"); err != nil { //nolint:noctx // its context ends
			t.Error(err)
		}
		if late {
			<-r.Context().Done()
		}
		created(w, r)
	}))
	r := send(t, s, withKey(key1))
	n := count(t, db)
	if committed := r.status == http.StatusCreated; committed != (n == 1) {
		t.Errorf("first = %d with %d effects, want both or neither", r.status, n)
	}
	late = false
	if r := send(t, s, withKey(key1)); r.status != http.StatusCreated {
		t.Errorf("retry = %d %q, want 201", r.status, r.body)
	}
	if n := count(t, db); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	ex, err := idem.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	tx := setup{}.txExecutor(t, openDB(t))
	for name, opt := range map[string]Option{
		"nil":                 nil,
		"header":              WithHeader("no token"),
		"no methods":          WithMethods(),
		"empty method":        WithMethods(""),
		"long method":         WithMethods(strings.Repeat("A", 33)),
		"operation":           WithOperation(nil),
		"stored":              WithStored(nil),
		"error handler":       WithErrorHandler(nil),
		"max body":            WithMaxBody(-1),
		"max buffer":          WithMaxBuffer(-1),
		"timeout":             WithTimeout(0),
		"key length":          WithKeySyntax(KeySyntax{MaxLen: 256}),
		"negative key length": WithKeySyntax(KeySyntax{MinLen: -1}),
	} {
		if _, err := New(ex, byUser, opt); !errors.Is(err, idem.ErrInvalid) {
			t.Errorf("New with %s = %v, want %v", name, err, idem.ErrInvalid)
		}
		if _, err := NewTx(tx, byUser, opt); !errors.Is(err, idem.ErrInvalid) {
			t.Errorf("NewTx with %s = %v, want %v", name, err, idem.ErrInvalid)
		}
	}
	if _, err := New(nil, byUser); !errors.Is(err, idem.ErrInvalid) {
		t.Errorf("New(nil) = %v, want %v", err, idem.ErrInvalid)
	}
	if _, err := New(ex, nil); !errors.Is(err, idem.ErrInvalid) {
		t.Errorf("New without scope = %v, want %v", err, idem.ErrInvalid)
	}
	if _, err := NewTx[*sql.Tx](nil, byUser); !errors.Is(err, idem.ErrInvalid) {
		t.Errorf("NewTx(nil) = %v, want %v", err, idem.ErrInvalid)
	}
	if _, err := NewTx(tx, byUser, WithStreaming()); !errors.Is(err, idem.ErrInvalid) {
		t.Errorf("NewTx with streaming = %v, want %v", err, idem.ErrInvalid)
	}
	if _, err := New(ex, byUser, WithMaxBody(math.MaxInt64), WithMaxBuffer(math.MaxInt), WithTimeout(math.MaxInt64)); err != nil {
		t.Errorf("New with the largest limits = %v, want nil", err)
	}
}
