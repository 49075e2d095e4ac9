package main

import (
	"database/sql"
	"errors"
	"net/http"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemhttp"
)

// newServer protects POST /bookings with the key in the Idempotency-Key header.
func newServer(tx *idem.TxExecutor[*sql.Tx]) (http.Handler, error) {
	m, err := idemhttp.NewTx(tx, func(r *http.Request) (idem.Scope, error) {
		user := r.Header.Get("X-User") // what your authentication found out
		if user == "" {
			return idem.Scope{}, errors.New("not authenticated")
		}
		return idem.Scope{Tenant: "shop", Actor: user}, nil
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /bookings", m.WrapFunc(func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		if _, err := tx.ExecContext(r.Context(), "UPDATE accounts SET balance = balance + 5 WHERE id = 'ada'"); err != nil {
			http.Error(w, "try again", http.StatusInternalServerError) // rolled back, not stored
			return
		}
		w.Header().Set("Location", "/bookings/1")
		w.WriteHeader(http.StatusCreated) // committed together with the write above
	}))
	return mux, nil
}
