package bench

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/internal/testenv"
	"github.com/idem-go/idem/postgres"
)

const connections = 8

func openPostgres(b *testing.B) (*pgxpool.Pool, *idem.TxExecutor[pgx.Tx]) {
	b.Helper()
	cfg, err := pgxpool.ParseConfig(testenv.Postgres(b).URL)
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if err := postgres.Migrate(b.Context(), pool); err != nil {
		b.Fatal(err)
	}
	for _, sql := range []string{
		"CREATE TABLE effects (n bigint)",
		"CREATE TABLE bare (key text COLLATE \"C\" PRIMARY KEY, status text, locked_until timestamptz, token bigint, response_status int, response_header bytea, response_body bytea)",
	} {
		if _, err := pool.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	store, err := postgres.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	ex, err := idem.NewTx(store)
	if err != nil {
		b.Fatal(err)
	}
	return pool, ex
}

// twoStatements inserts a row and updates it: what a claim and a completion can't
// do without.
func twoStatements(pool *pgxpool.Pool) op {
	return func(ctx context.Context, n int64) error {
		key := request(n).Key
		if _, err := pool.Exec(ctx, "INSERT INTO bare VALUES ($1, 'started', now() + interval '30 s', 1) ON CONFLICT DO NOTHING", key); err != nil {
			return err
		}
		_, err := pool.Exec(ctx, "UPDATE bare SET status = 'completed', response_status = $2, response_header = $3, response_body = $4 WHERE key = $1 AND token = 1",
			key, answer.Status, answer.Header, answer.Body)
		return err
	}
}

func BenchmarkPostgres(b *testing.B) {
	pool, ex := openPostgres(b)
	insert := func(ctx context.Context, tx pgx.Tx, n int64) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", n)
		return err
	}
	effectOnly := func(ctx context.Context, n int64) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return insert(ctx, tx, n) })
	}
	transaction := func(ctx context.Context, n int64) error {
		_, err := idem.DoTx(ctx, ex, request(n), func(ctx context.Context, tx pgx.Tx) (idem.Response, error) {
			return answer, insert(ctx, tx, n)
		})
		return err
	}
	one := func(ctx context.Context, _ int64) error {
		var status int
		var header, body []byte
		return pool.QueryRow(ctx, "SELECT response_status, response_header, response_body FROM bare WHERE key = $1", request(-1).Key).
			Scan(&status, &header, &body)
	}
	if err := twoStatements(pool)(b.Context(), -1); err != nil {
		b.Fatal(err)
	}
	for _, w := range []struct {
		name    string
		workers int
	}{{"1", 1}, {"8", connections}} {
		b.Run("leased/workers="+w.name, func(b *testing.B) { compare(b, w.workers, twoStatements(pool), leased(ex.Executor)) })
		b.Run("replay/workers="+w.name, func(b *testing.B) { compare(b, w.workers, one, replay(b, ex.Executor)) })
		b.Run("transaction/workers="+w.name, func(b *testing.B) { compare(b, w.workers, effectOnly, transaction) })
	}
}
