package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/postgres"
)

func openPostgres(ctx context.Context, url string) (*store, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := postgres.Migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	b, err := postgres.New(pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return on(ctx, b, func(tx pgx.Tx) database { return pgDB{tx} }, pgDB{pool}, pool.Close), nil
}

// pgDB makes a database of a *pgxpool.Pool or a pgx.Tx.
type pgDB struct {
	q interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
}

func (d pgDB) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := d.q.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

// get returns pgx.ErrNoRows for no row, which is also sql.ErrNoRows.
func (d pgDB) get(ctx context.Context, sql string, args []any, into ...any) error {
	return d.q.QueryRow(ctx, sql, args...).Scan(into...)
}

// newPostgresSchema gives a run a schema of its own and a URL whose connections
// work in it. Cleaning up drops it.
func newPostgresSchema(ctx context.Context, server string) (dsn string, cleanUp func(), err error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", nil, fmt.Errorf("-backend is not a URL") // the cause would show the password
	}
	name := "checkout_" + strings.ToLower(rand.Text())
	if err := execOnce(ctx, server, "CREATE SCHEMA "+name); err != nil {
		return "", nil, fmt.Errorf("create a schema for this run: %w", err)
	}
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	return u.String(), func() {
		// Also after an interrupt.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := execOnce(ctx, server, "DROP SCHEMA "+name+" CASCADE"); err != nil {
			fmt.Println("drop the schema of this run:", err)
		}
	}, nil
}

func execOnce(ctx context.Context, server, sql string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
