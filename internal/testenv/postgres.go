package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresServer is a running PostgreSQL server and a database on it that the
// test has for itself.
type PostgresServer struct {
	// URL reaches the database as its owner, who may create roles and databases.
	URL string

	// Addr is the server's "host:port".
	Addr string

	controls
}

// Postgres returns the server of this test process with a new, empty database,
// which is dropped when the test ends. A test that stops, kills or configures the
// server wants [PostgresPrivate].
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	shared.Lock()
	if !shared.tried {
		shared.tried = true
		shared.server, shared.err = startPostgres(t, providers(t), nil)
		if shared.server != nil && shared.server.instance != nil {
			onShutdown(shared.server.close)
		}
	}
	srv, err := shared.server, shared.err
	shared.Unlock()
	if err != nil {
		Unavailable(t, "postgres", err)
	}
	return newDatabase(t, srv, false)
}

// PostgresPrivate starts a server for this test alone, with settings such as
// "max_connections=20", and stops it when the test ends.
func PostgresPrivate(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	srv, err := startPostgres(t, ours(t), settings)
	if err != nil {
		Unavailable(t, "postgres", err)
	}
	t.Cleanup(func() {
		if err := srv.close(); err != nil {
			t.Errorf("stopping PostgreSQL: %v", err)
		}
	})
	return newDatabase(t, srv, true)
}

// shared is the server that Postgres hands out.
var shared struct {
	sync.Mutex
	tried  bool
	server *server
	err    error
}

// server is a PostgreSQL server and how to get in.
type server struct {
	instance // nil for one that is not ours
	access
	base *url.URL // of one that is not ours
}

// access is what a server is entered with.
type access struct{ user, password string }

func newAccess() access { return access{user: "postgres", password: rand.Text()} }

func (a access) url(addr, database string) *url.URL {
	return &url.URL{Scheme: "postgres", User: url.UserPassword(a.user, a.password), Host: addr, Path: "/" + database, RawQuery: "sslmode=disable"}
}

// ask returns what tells that a server at addr answers queries.
func (a access) ask(addr string) func(context.Context) error {
	return asks(a.url(addr, "postgres").String())
}

func asks(target string) func(context.Context) error {
	return func(ctx context.Context) error { return execute(ctx, target, "SELECT 1") }
}

const postgresStart = 60 * time.Second // a slow disk; usually under two seconds

func startPostgres(t testing.TB, from []provider, settings []string) (*server, error) {
	t.Helper()
	return choose(t, "PostgreSQL", from, func(p provider) (*server, error) { return startPostgresFrom(p, settings) })
}

func startPostgresFrom(p provider, settings []string) (*server, error) {
	switch p {
	case fromEnv:
		return postgresFromEnv()
	case fromDocker:
		in, acc, err := startDockerPostgres(settings)
		return &server{instance: in, access: acc}, err
	default:
		in, acc, err := startLocalPostgres(settings)
		return &server{instance: in, access: acc}, err
	}
}

func postgresFromEnv() (*server, error) {
	given := os.Getenv("IDEM_TEST_POSTGRES_URL")
	if given == "" {
		return nil, fmt.Errorf("IDEM_TEST_POSTGRES_URL is not set: %w", errNotConfigured)
	}
	base, err := url.Parse(given)
	if err != nil || base.Host == "" {
		return nil, errors.New("IDEM_TEST_POSTGRES_URL is not a postgres://user:password@host:port/database URL")
	}
	if base.Port() == "" {
		base.Host += ":5432"
	}
	password, _ := base.User.Password()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := execute(ctx, given, "SELECT 1"); err != nil {
		return nil, fmt.Errorf("the server of IDEM_TEST_POSTGRES_URL: %w", err)
	}
	return &server{access: access{base.User.Username(), password}, base: base}, nil
}

// databaseURL is where the server's database of that name is, "" for the one to
// administer from.
func (s *server) databaseURL(name string) *url.URL {
	if s.base != nil {
		u := *s.base
		if name != "" {
			u.Path = "/" + name
		}
		return &u
	}
	if name == "" {
		name = "postgres"
	}
	return s.url(s.addr(), name)
}

func newDatabase(t testing.TB, srv *server, private bool) *PostgresServer {
	t.Helper()
	name := "idem_" + strings.ToLower(rand.Text()[:12])
	admin := srv.databaseURL("").String()
	// template0 is never in use, so that tests can do this at once.
	if err := execute(t.Context(), admin, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatalf("CREATE DATABASE: %v", err)
	}
	if !private {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := execute(ctx, admin, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
				t.Errorf("DROP DATABASE: %v", err)
			}
		})
	}
	u := srv.databaseURL(name)
	s := &PostgresServer{URL: u.String(), Addr: u.Host, controls: controls{what: "PostgreSQL", own: "PostgresPrivate", within: postgresStart, ask: srv.ask(u.Host)}}
	if private {
		s.in = srv.instance
	}
	return s
}

// Via is URL with another "host:port", a proxy's.
func (s *PostgresServer) Via(addr string) string { return s.with(func(u *url.URL) { u.Host = addr }) }

// As is URL for another role.
func (s *PostgresServer) As(role, password string) string {
	return s.with(func(u *url.URL) { u.User = url.UserPassword(role, password) })
}

func (s *PostgresServer) with(change func(*url.URL)) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err) // it was made by url.URL.String
	}
	change(u)
	return u.String()
}

// Proxy puts a proxy in front of the server that reads PostgreSQL's protocol.
// Connect through it with s.Via(proxy.Addr()).
func (s *PostgresServer) Proxy(t testing.TB) *Proxy {
	t.Helper()
	return newProxy(t, s.Addr, newPostgresSession)
}

func execute(ctx context.Context, target, sql string) error {
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}
