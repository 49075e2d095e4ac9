package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

// txStore gives a case for transactions a schema of its own. Its tables are named
// with it: a pooler takes no search_path.
func txStore(t *testing.T, url string, change ...func(*pgxpool.Config)) conformance.TxStore[pgx.Tx] {
	t.Helper()
	schema := fmt.Sprint("case_", cases.Add(1))
	table := postgres.WithTable(schema, "idem_keys")
	pool := open(t, url, append(change, size(1))...)
	exec(t, pool, `CREATE SCHEMA `+schema)
	exec(t, pool, `CREATE TABLE `+schema+`.effects (name text NOT NULL)`)
	if err := postgres.Migrate(t.Context(), pool, table); err != nil {
		t.Fatal(err)
	}
	return conformance.TxStore[pgx.Tx]{
		Open: func(conformance.T) conformance.TxHandle[pgx.Tx] {
			pool := open(t, url, append(change, size(4))...)
			return conformance.TxHandle[pgx.Tx]{
				Transactor: newBackend(t, pool, table),
				InTx: func(ctx context.Context, f func(tx pgx.Tx) error) error {
					return pgx.BeginFunc(ctx, pool, f)
				},
			}
		},
		Put: func(ctx context.Context, tx pgx.Tx, name string) error {
			_, err := tx.Exec(ctx, `INSERT INTO `+schema+`.effects VALUES ($1)`, name)
			return err
		},
		Count: func(ctx context.Context, name string) (n int, err error) {
			err = pool.QueryRow(ctx, `SELECT count(*) FROM `+schema+`.effects WHERE name = $1`, name).Scan(&n)
			return n, err
		},
	}
}

// wholeSuite runs the suite and the one for transactions. The groups of
// servers are left out: they try what a server promises and how it takes being killed,
// paused and cut off, which TestServerConformance does and no setting here
// changes.
func wholeSuite(t *testing.T, url string, change ...func(*pgxpool.Config)) {
	conformance.Run(t, func(t *testing.T) conformance.Store {
		s := txStore(t, url, change...)
		return conformance.Store{Open: func(ct conformance.T) backend.Backend { return s.Open(ct).Transactor }}
	}, conformance.Without(ofServers...))
	conformance.RunTx(t, func(t *testing.T) conformance.TxStore[pgx.Tx] { return txStore(t, url, change...) })
}

// Facts PG-19 and PG-24, field report 28: through PgBouncer in transaction mode, where statements
// of a session go to one connection or another.
func TestConformanceThroughPgBouncer(t *testing.T) {
	t.Parallel()
	url := testenv.PgBouncer(t, testenv.Postgres(t))
	wholeSuite(t, url, mode(pgx.QueryExecModeCacheDescribe))
}

// Fact PG-3: where transactions are serializable by default and
// the sessions are far from UTC.
func TestConformanceSerializableInTokyo(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	tokyo := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["TimeZone"] = "Asia/Tokyo" }
	pool := open(t, srv.URL, size(1))
	exec(t, pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$`)
	pool = open(t, srv.URL, tokyo, size(1)) // a session that has the database's new default
	for setting, want := range map[string]string{"transaction_isolation": "serializable", "TimeZone": "Asia/Tokyo"} {
		if got := value[string](t, pool, `SELECT current_setting($1)`, setting); got != want {
			t.Fatalf("%s = %q, want %q", setting, got, want)
		}
	}
	wholeSuite(t, srv.URL, tokyo)
}
