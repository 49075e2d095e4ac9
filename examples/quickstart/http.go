package main

import (
	"database/sql"
	"errors"
	"net/http"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemhttp"
)

type userKey struct{}

// newServer protects POST /bookings with the key in the Idempotency-Key header.
func newServer(ex *idem.TxExecutor[*sql.Tx]) (http.Handler, error) {
	m, err := idemhttp.NewTx(ex, func(r *http.Request) (idem.Scope, error) {
		user, ok := r.Context().Value(userKey{}).(string) // put there by your authentication
		if !ok {
			return idem.Scope{}, errors.New("not behind authentication") // answered with 500
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
