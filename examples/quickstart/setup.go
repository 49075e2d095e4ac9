package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/sqlite"
)

// setUp opens the database and makes what keeps the keys in it.
func setUp(ctx context.Context, path string) (*sql.DB, *idem.TxExecutor[*sql.Tx], error) {
	db, err := sqlite.Open(path) // or a pgxpool.Pool, with package postgres
	if err != nil {
		return nil, nil, err
	}
	if err := sqlite.Migrate(ctx, db); err != nil { // creates the table; sqlite.Schema is the same as SQL
		return nil, nil, err
	}
	store, err := sqlite.New(db)
	if err != nil {
		return nil, nil, err
	}
	ex, err := idem.NewTx(store, idem.WithRetention(72*time.Hour)) // idem.New for a store without transactions
	if err != nil {
		return nil, nil, err
	}
	if err := ex.Check(ctx); err != nil { // is the server set up so that nothing is lost?
		return nil, nil, err
	}
	go func() { _ = ex.RunSweeper(ctx, time.Hour) }() // deletes what is over, until ctx ends
	return db, ex, nil
}
