package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

var cases atomic.Int64

// store gives a conformance case a schema of its own on the server. Its handles
// have a pool each, as different processes would.
func store(t *testing.T, srv *testenv.PostgresServer) (conformance.Store, *pgxpool.Pool) {
	t.Helper()
	schema := fmt.Sprint("case_", cases.Add(1))
	within := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = schema + ", pg_catalog" }
	pool := open(t, srv.URL, size(1), within)
	exec(t, pool, `CREATE SCHEMA `+pgx.Identifier{schema}.Sanitize())
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return conformance.Store{Open: func(conformance.T) backend.Backend {
		return newBackend(t, open(t, srv.URL, size(4), within))
	}}, pool
}

func TestConformance(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	conformance.Run(t, func(t *testing.T) conformance.Store {
		s, _ := store(t, srv)
		return s
	})
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
	})
}
