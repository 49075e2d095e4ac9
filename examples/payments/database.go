package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// database is a transaction of either database, or its pool. With it the SQL in
// ledger.go is written once.
type database interface {
	// exec returns how many rows the statement changed.
	exec(ctx context.Context, sql string, args ...any) (rows int64, err error)
	// get reads the one row that the query has; none is sql.ErrNoRows.
	get(ctx context.Context, sql string, args []any, into ...any) error
	// lockRow is what a SELECT needs at its end to lock the rows it reads.
	lockRow() string
}

// txHandler answers a request inside a transaction.
type txHandler func(w http.ResponseWriter, r *http.Request, tx database)

// store is a database that is open.
type store struct {
	pool database
	// protect makes a handler that runs once per idempotency key.
	protect func(txHandler) http.Handler
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
