package main

import (
	"context"
	"database/sql"

	"github.com/idem-go/idem/sqlite"
)

func openSQLite(ctx context.Context, path string) (*store, error) {
	db, err := sqlite.Open(path)
	if err != nil {
		return nil, err
	}
	if err := sqlite.Migrate(ctx, db); err != nil {
		db.Close()
		return nil, err
	}
	b, err := sqlite.New(db)
	if err != nil {
		db.Close()
		return nil, err
	}
	return on(ctx, b, func(tx *sql.Tx) database { return sqlDB{tx} }, sqlDB{db}, func() { db.Close() }), nil
}

// sqlDB makes a database of a *sql.DB or a *sql.Tx.
type sqlDB struct {
	q interface {
		ExecContext(ctx context.Context, sql string, args ...any) (sql.Result, error)
		QueryRowContext(ctx context.Context, sql string, args ...any) *sql.Row
	}
}

func (d sqlDB) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	r, err := d.q.ExecContext(ctx, sql, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (d sqlDB) get(ctx context.Context, sql string, args []any, into ...any) error {
	return d.q.QueryRowContext(ctx, sql, args...).Scan(into...)
}
