package idemhttp_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/idemhttp"
	"github.com/idem-go/idem/memory"
	"github.com/idem-go/idem/sqlite"
)

// scope is what authentication knows about a request; a real service has looked at
// a token by now.
func scope(r *http.Request) (idem.Scope, error) {
	return idem.Scope{Tenant: "shop", Actor: r.Header.Get("X-User")}, nil
}

// post sends one order and prints what comes back.
func post(h http.Handler, key, order string) {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(order))
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-User", "ada")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Printf("%d replayed=%q %s\n", w.Code, w.Header().Get("Idempotent-Replayed"), strings.TrimSpace(w.Body.String()))
}

// The leased path, for effects outside of the database. The second request is a
// retry of the first.
func ExampleMiddleware_Wrap() {
	ex, err := idem.New(memory.New())
	if err != nil {
		panic(err)
	}
	m, err := idemhttp.New(ex, scope)
	if err != nil {
		panic(err)
	}
	orders := 0
	mux := http.NewServeMux()
	mux.Handle("POST /orders", m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", orders)
	})))

	post(mux, `"9d1c3d2e-5b0f"`, `{"item": "tea", "count": 1}`)
	post(mux, `"9d1c3d2e-5b0f"`, `{"count": 1.0, "item": "tea"}`)
	// Output:
	// 201 replayed="" order 1
	// 201 replayed="true" order 1
}

// The transaction path. The order, the key and the answer are committed together,
// or none of them.
func ExampleTxMiddleware_WrapFunc() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sqlite.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := sqlite.Migrate(ctx, db); err != nil {
		panic(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)"); err != nil {
		panic(err)
	}
	store, err := sqlite.New(db)
	if err != nil {
		panic(err)
	}
	ex, err := idem.NewTx(store)
	if err != nil {
		panic(err)
	}
	m, err := idemhttp.NewTx(ex, scope)
	if err != nil {
		panic(err)
	}

	h := m.WrapFunc(func(w http.ResponseWriter, r *http.Request, tx *sql.Tx) {
		var in struct{ Item string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, "no order", http.StatusBadRequest)
			return
		}
		res, err := tx.ExecContext(r.Context(), "INSERT INTO orders (item) VALUES (?)", in.Item)
		if err != nil {
			idemhttp.Transient(r.Context(), err)
			http.Error(w, "try again", http.StatusInternalServerError)
			return
		}
		if in.Item == "gold" { // a refusal: its order is undone, and its answer stays
			http.Error(w, "sold out", http.StatusUnprocessableEntity)
			return
		}
		id, _ := res.LastInsertId()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", id)
	})
	post(h, "key-of-the-tea", `{"item": "tea"}`)
	post(h, "key-of-the-tea", `{"item": "tea"}`)
	post(h, "key-of-the-gold", `{"item": "gold"}`)
	post(h, "key-of-the-gold", `{"item": "gold"}`)
	var orders int
	_ = db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&orders)
	fmt.Println(orders, "order")
	// Output:
	// 201 replayed="" order 1
	// 201 replayed="true" order 1
	// 422 replayed="" sold out
	// 422 replayed="true" sold out
	// 1 order
}
