package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/idem-go/idem/backend"
)

// database is a transaction of either database, or its pool. With it the SQL is
// written once.
type database interface {
	// exec returns how many rows the statement changed.
	exec(ctx context.Context, sql string, args ...any) (rows int64, err error)
	// get reads the one row that the query has; none is sql.ErrNoRows.
	get(ctx context.Context, sql string, args []any, into ...any) error
}

// store is a database that is open.
type store struct {
	pool database
	// service makes the service on it.
	service func(partners) (http.Handler, error)
	close   func()
}

// open opens a SQLite file, or PostgreSQL if dsn is a URL of it, and makes the
// tables of the service and of the library.
func open(ctx context.Context, dsn string) (*store, error) {
	connect := openSQLite
	if isPostgres(dsn) {
		connect = openPostgres
	}
	s, err := connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if _, err := s.pool.exec(ctx, schema); err != nil {
		s.close()
		return nil, fmt.Errorf("create the tables: %w", err)
	}
	return s, nil
}

func isPostgres(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// on makes a store of a backend: adapt makes a database of its transactions.
func on[T any](ctx context.Context, b backend.Transactor[T], adapt func(T) database, pool database, closeIt func()) *store {
	return &store{pool: pool, close: closeIt, service: func(p partners) (http.Handler, error) {
		return newService(ctx, b, adapt, p)
	}}
}
