package postgres_test

import (
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/limits"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

var page = limits.Of("postgres", "one server with PostgreSQL's defaults")

var moved = page.Variant("with a clock that the suite moves, to check exact boundaries")

var cases atomic.Int64

// store gives a conformance case a schema of its own on the server. Its handles
// have a pool each, as different processes would.
func store(t *testing.T, srv *testenv.PostgresServer, change ...func(*pgxpool.Config)) (conformance.Store, *pgxpool.Pool) {
	t.Helper()
	pool, more := schema(t, srv, change...)
	return conformance.Store{Open: func(conformance.T) backend.Backend { return newBackend(t, more()) }}, pool
}

// schema makes a schema with the table of the records. The pool is for the
// harness, more gives others.
func schema(t *testing.T, srv *testenv.PostgresServer, change ...func(*pgxpool.Config)) (pool *pgxpool.Pool, more func() *pgxpool.Pool) {
	t.Helper()
	schema := fmt.Sprint("case_", cases.Add(1))
	within := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = schema + ", pg_catalog" }
	pool = open(t, srv.URL, size(1), within)
	exec(t, pool, `CREATE SCHEMA `+pgx.Identifier{schema}.Sanitize())
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return pool, func() *pgxpool.Pool { return open(t, srv.URL, append(change, size(4), within)...) }
}

func TestConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	conformance.Run(t, func(t *testing.T) conformance.Store {
		s, _ := store(t, srv)
		return s
	}, conformance.Without(ofServers...), page.Shown())
}

// ofServers are the groups that want a server they can kill.
var ofServers = []string{"capability", "fault"}

// What a server promises, and how it takes being killed, paused and cut off.
func TestServerConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.PostgresPrivate(t)
	conformance.Run(t, func(t *testing.T) conformance.Store {
		proxy := testenv.NewProxy(t, srv.Addr)
		s, pool := store(t, srv, func(c *pgxpool.Config) {
			host, port, _ := net.SplitHostPort(proxy.Addr())
			n, _ := strconv.ParseUint(port, 10, 16)
			c.ConnConfig.Host, c.ConnConfig.Port = host, uint16(n)
		})
		s.Restart = func(conformance.T) { srv.Kill(t); srv.Start(t) }
		s.Pause = func(conformance.T) func() {
			srv.Pause(t)
			return func() { srv.Resume(t) }
		}
		s.Partition = func(conformance.T) func() {
			proxy.Partition()
			return proxy.Heal
		}
		s.Skewed = func(_ conformance.T, by time.Duration) backend.Backend {
			return conformance.Skew(t, by, func(t *testing.T) backend.Backend {
				return newBackend(t, open(t, srv.URL, size(1), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams = pool.Config().ConnConfig.RuntimeParams }))
			})
		}
		return s
	}, conformance.Only(ofServers...), page.Shown())
}

// With a clock that the suite moves it checks the boundaries exactly. The clock is
// a function that the sessions find before the server's own. It shows a microsecond
// more with every look: tokens are drawn from it.
func TestConformanceWithAMovedClock(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	conformance.Run(t, func(t *testing.T) conformance.Store {
		s, pool := store(t, srv)
		exec(t, pool, `CREATE TABLE frozen AS SELECT timestamptz '2001-02-03 04:05:06.000007 UTC' AS at`)
		exec(t, pool, `CREATE SEQUENCE looks`)
		exec(t, pool, `CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS
			$$ SELECT at + nextval('looks') * interval '1 microsecond' FROM frozen $$`)
		s.Advance = func(d time.Duration) {
			exec(t, pool, `UPDATE frozen SET at = at + $1::bigint * interval '1 microsecond'`, d.Microseconds())
		}
		return s
	}, conformance.Without(ofServers...), moved.Shown())
}

func TestTxConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	conformance.RunTx(t, func(t *testing.T) conformance.TxStore[pgx.Tx] { return txStore(t, srv.URL) }, page.Shown())
}
