package main

import (
	"context"
	"net/http"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/idemhttp"
)

// protect makes the middleware: claim, charge and answer are one transaction of
// the database that has the ledger. adapt makes a database of its transactions.
func protect[T any](ctx context.Context, b backend.Transactor[T], adapt func(T) database) (func(txHandler) http.Handler, error) {
	ex, err := idem.NewTx(b)
	if err != nil {
		return nil, err
	}
	if err := ex.Check(ctx); err != nil {
		return nil, err
	}
	m, err := idemhttp.NewTx(ex, scopeOf)
	if err != nil {
		return nil, err
	}
	return func(h txHandler) http.Handler {
		return m.WrapFunc(func(w http.ResponseWriter, r *http.Request, tx T) { h(w, r, adapt(tx)) })
	}, nil
}
