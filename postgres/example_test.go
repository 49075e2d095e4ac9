package postgres_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/postgres"
)

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	// Once, at deployment; the role that serves needs no rights to change tables.
	if err := postgres.Migrate(ctx, pool, postgres.WithTable("payments", "idem_keys")); err != nil {
		log.Fatal(err)
	}
	b, err := postgres.New(pool, postgres.WithTable("payments", "idem_keys"))
	if err != nil {
		log.Fatal(err)
	}
	d, err := b.Describe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range d.Findings {
		log.Printf("%s: %s (%s)", f.ID, f.Text, f.Advice)
	}
}

// The SQL for a migration tool.
func ExampleSchema() {
	sql, err := postgres.Schema(postgres.WithTable("payments", "idem_keys"))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("migrations/0042_idem.sql", []byte(sql), 0o644); err != nil {
		log.Fatal(err)
	}
}

// A transaction of one's own that also claims the key.
func ExampleBackend_Bind() {
	transfer := func(ctx context.Context, pool *pgxpool.Pool, b *postgres.Backend, c backend.Claim) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			view := b.Bind(tx)
			got, err := view.Claim(ctx, c)
			if err != nil || !got.Acquired {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance - 100 WHERE id = 1`); err != nil {
				return err
			}
			return view.Complete(ctx, got.Record.Holder(), backend.Completion{
				Sequence: got.Record.Sequence + 1,
				Response: backend.Response{Status: 204},
			})
		})
	}
	_ = transfer
}
