// Quickstart holds the examples of the project's README, and runs them on a
// SQLite file in a temporary directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/sqlite"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "idem-quickstart")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	db, err := sqlite.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := sqlite.Migrate(ctx, db); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL); INSERT INTO accounts VALUES ('ada', 9)"); err != nil {
		return err
	}
	store, err := sqlite.New(db)
	if err != nil {
		return err
	}
	tx, err := idem.NewTx(store) // idem.New for a backend without transactions
	if err != nil {
		return err
	}
	for _, key := range []string{"booking-1", "booking-1", "booking-2", "booking-2"} {
		r, err := bookMoney(ctx, tx, "ada", key, []byte(`{"amount": 5}`))
		fmt.Println(key, r, err)
	}
	for range 2 {
		r, err := sendMoney(ctx, tx.Executor, "ada", "transfer-1", []byte(`{"amount": 5}`))
		fmt.Println("transfer-1", r, err)
	}
	server, err := newServer(tx)
	if err != nil {
		return err
	}
	for range 2 {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/bookings", http.NoBody)
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`)
		r.Header.Set("X-User", "ada")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Println("POST /bookings", w.Code, w.Header())
	}
	return nil
}

// callTheBank stands for a call over the network that knows idempotency keys, too.
func callTheBank(context.Context, string, int64) (receipt, error) {
	fmt.Println("calling the bank")
	return receipt{ID: "t-1", Amount: 5}, nil
}
