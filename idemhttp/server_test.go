package idemhttp

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
	"github.com/idem-go/idem/sqlite"
)

const key1 = "key-number-one"

// byUser is the scope of the tests: the user is the header field X-User, which
// stands for what authentication found out.
func byUser(r *http.Request) (idem.Scope, error) {
	user := r.Header.Get("X-User")
	if user == "" {
		user = "ada"
	}
	return idem.Scope{Tenant: "shop", Actor: user}, nil
}

// setup is what a test says about the server it wants.
type setup struct {
	backend  backend.Backend // on the leased path; nil: a new memory
	tx       func(backend.Transactor[*sql.Tx]) backend.Transactor[*sql.Tx]
	executor []idem.Option
	options  []Option
	scope    ScopeFunc // nil: byUser
	outer    func(http.Handler) http.Handler
}

// site is a server on a real socket.
type site struct {
	*httptest.Server
	mu     sync.Mutex
	errors []error // that were answered with a 5xx problem
}

func (s *site) failures() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.errors)
}

func (s *site) addr() string { return s.Listener.Addr().String() }

// serve starts a server of h.
func serve(t testing.TB, h http.Handler) *site {
	t.Helper()
	s := &site{Server: httptest.NewUnstartedServer(h)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // panics are meant
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// common is what both paths make of a setup.
func (s setup) common(site *site) (ScopeFunc, []Option) {
	scope := s.scope
	if scope == nil {
		scope = byUser
	}
	return scope, append([]Option{WithErrorHandler(func(_ *http.Request, err error) {
		site.mu.Lock()
		defer site.mu.Unlock()
		site.errors = append(site.errors, err)
	})}, s.options...)
}

func (s setup) wrap(h http.Handler) http.Handler {
	if s.outer != nil {
		return s.outer(h)
	}
	return h
}

// late is a handler that is set after the server's start.
type late struct{ http.Handler }

// leased serves h on the leased path.
func leased(t testing.TB, s setup, h http.Handler) *site {
	t.Helper()
	if s.backend == nil {
		s.backend = memory.New()
	}
	ex, err := idem.New(s.backend, s.executor...)
	if err != nil {
		t.Fatal(err)
	}
	l := new(late)
	site := serve(t, l)
	scope, opts := s.common(site)
	m, err := New(ex, scope, opts...)
	if err != nil {
		t.Fatal(err)
	}
	l.Handler = s.wrap(m.Wrap(h))
	return site
}

// transacted serves h on the transaction path.
func transacted(t testing.TB, s setup, h http.Handler) *site {
	t.Helper()
	return transactedOn(t, openDB(t), s, h)
}

func transactedOn(t testing.TB, db *sql.DB, s setup, h http.Handler) *site {
	t.Helper()
	l := new(late)
	site := serve(t, l)
	scope, opts := s.common(site)
	m, err := NewTx(s.txExecutor(t, db), scope, opts...)
	if err != nil {
		t.Fatal(err)
	}
	l.Handler = s.wrap(m.Wrap(h))
	return site
}

func (s setup) txExecutor(t testing.TB, db *sql.DB) *idem.TxExecutor[*sql.Tx] {
	t.Helper()
	var b backend.Transactor[*sql.Tx]
	b, err := sqlite.New(db)
	if err != nil {
		t.Fatal(err)
	}
	if s.tx != nil {
		b = s.tx(b)
	}
	ex, err := idem.NewTx(b, s.executor...)
	if err != nil {
		t.Fatal(err)
	}
	return ex
}

// openDB opens a database with the records' table and one of effects.
func openDB(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	ctx := context.Background()
	if err := sqlite.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE effects (what TEXT)"); err != nil {
		t.Fatal(err)
	}
	return db
}

// count is how many effects there are.
func count(t testing.TB, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(context.Background(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func readAll(t testing.TB, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Errorf("read the request's body: %v", err)
	}
	return string(body)
}

// paths are both of them, for what has to be so on both.
var paths = []struct {
	name string
	site func(testing.TB, setup, http.Handler) *site
}{{"leased", leased}, {"transaction", transacted}}

// onBothPaths runs f for each path.
func onBothPaths(t *testing.T, f func(t *testing.T, site func(testing.TB, setup, http.Handler) *site)) {
	t.Helper()
	for _, p := range paths {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f(t, p.site)
		})
	}
}

// request is what a test sends, byte by byte.
type request struct {
	method string   // POST by default
	path   string   // /orders by default
	keys   []string // lines of the key's header
	header []string // further lines
	body   string
}

func withKey(key string) request { return request{keys: []string{key}} }

func (q request) bytes() []byte {
	var b bytes.Buffer
	orElse := func(s, def string) string {
		if s == "" {
			return def
		}
		return s
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n", orElse(q.method, "POST"), orElse(q.path, "/orders"))
	for _, k := range q.keys {
		fmt.Fprintf(&b, "Idempotency-Key: %s\r\n", k)
	}
	for _, h := range q.header {
		fmt.Fprintf(&b, "%s\r\n", h)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(q.body), q.body)
	return b.Bytes()
}

// reply is what came back.
type reply struct {
	status  int
	head    []string // the lines of the header, as they came, without Date
	header  http.Header
	body    string
	early   []int // informational statuses before it
	trailer http.Header
	cut     error // why its body is not whole
}

// aborted is the reply of a server that said nothing.
func (r reply) aborted() bool { return r.status == 0 }

// send sends the request on a connection of its own and reads to the end.
func send(t testing.TB, s *site, q request) reply {
	t.Helper()
	conn := dial(t, s)
	defer conn.Close()
	if _, err := conn.Write(q.bytes()); err != nil {
		t.Fatal(err)
	}
	return receive(t, conn, q.method)
}

func dial(t testing.TB, s *site) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func receive(t testing.TB, conn net.Conn, method string) reply {
	t.Helper()
	r := receiveCut(t, conn, method)
	if r.cut != nil {
		t.Fatalf("the answer's body is cut off after %q: %v", r.body, r.cut)
	}
	return r
}

// receiveCut is receive for an answer that may break off.
func receiveCut(t testing.TB, conn net.Conn, method string) reply {
	t.Helper()
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	for len(raw) > 0 {
		head, _, _ := strings.Cut(string(raw), "\r\n\r\n")
		in := bufio.NewReader(bytes.NewReader(raw))
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("the answer %q can't be read: %v", raw, err)
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			r.early = append(r.early, resp.StatusCode)
			raw = raw[len(head)+4:]
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		lines := strings.Split(head, "\r\n")[1:]
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Date: ") })
		r.status, r.head, r.header, r.body = resp.StatusCode, lines, resp.Header, string(body)
		r.trailer, r.cut = resp.Trailer, err
		break
	}
	return r
}

// runs counts how often h ran.
func runs(h http.HandlerFunc) (http.Handler, *atomic.Int32) {
	var n atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}), &n
}

// created is a plain handler.
func created(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "/orders/1")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "order 1")
}

// checkProblem compares a reply with the problem of a type.
func checkProblem(t testing.TB, what string, r reply, want problem) {
	t.Helper()
	var got struct {
		Type      string
		Status    int
		Title     string
		Detail    string
		Retryable *bool
	}
	if r.status != want.Status {
		t.Fatalf("%s = %d %q, want %d", what, r.status, r.body, want.Status)
	}
	decode(t, r.body, &got)
	if got.Type != problemTypes+want.Type || got.Status != want.Status || got.Title != want.Title || got.Detail == "" {
		t.Errorf("%s: problem %+v, want type %q", what, got, want.Type)
	}
	if got.Retryable == nil || *got.Retryable != want.Retryable {
		t.Errorf("%s: %s, want retryable %v", what, r.body, want.Retryable)
	}
	for name, value := range map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store"} {
		if got := r.header.Get(name); got != value {
			t.Errorf("%s: %s is %q, want %q", what, name, got, value)
		}
	}
	if after := r.header.Get("Retry-After"); (after != "") != (want.retryAfter > 0 || want.Type == inProgress.Type) {
		t.Errorf("%s: Retry-After is %q", what, after)
	}
}
