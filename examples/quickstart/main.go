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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "idem-quickstart")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	db, ex, err := setUp(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL); INSERT INTO accounts VALUES ('ada', 9); CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)"); err != nil {
		return err
	}
	for _, key := range []string{"booking-1", "booking-1", "booking-2", "booking-2"} {
		r, err := bookMoney(ctx, ex, "ada", key, []byte(`{"amount": 5}`))
		fmt.Println(key, r, err)
	}
	for range 2 {
		r, err := sendMoney(ctx, ex.Executor, "ada", "transfer-1", []byte(`{"amount": 5}`))
		fmt.Println("transfer-1", r, err)
	}
	store, err := sqlite.New(db)
	if err != nil {
		return err
	}
	steps, err := idem.New(store, idem.WithPhases("1")) // "1" is the version of the steps
	if err != nil {
		return err
	}
	req := idem.Request{Scope: idem.Scope{Tenant: "shop", Actor: "ada"}, Key: "order-17", Operation: "pay order"}
	for range 2 {
		r, err := payOrder(ctx, steps, store, req)
		fmt.Println("order-17", r, err)
	}
	server, err := newServer(ex)
	if err != nil {
		return err
	}
	for range 2 {
		r := httptest.NewRequestWithContext(context.WithValue(ctx, userKey{}, "ada"), http.MethodPost, "/bookings", http.NoBody)
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		fmt.Println("POST /bookings", w.Code, w.Header())
	}
	return nil
}

// errNoAnswer is what a timeout leaves one with.
var errNoAnswer = errors.New("the bank did not answer")

// callTheBank stands for a call over the network that knows idempotency keys, too.
func callTheBank(ctx context.Context, user, key string) (receipt, error) {
	if ctx.Err() != nil {
		return receipt{}, errNoAnswer
	}
	fmt.Println("calling the bank for", user, key)
	return receipt{ID: "t-1", Amount: 5}, nil
}
