package idemhttp_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
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

// leased is middleware of the leased path, on a store for examples.
func leased(opts ...idemhttp.Option) *idemhttp.Middleware {
	ex, err := idem.New(memory.New())
	if err != nil {
		panic(err)
	}
	m, err := idemhttp.New(ex, scope, opts...)
	if err != nil {
		panic(err)
	}
	return m
}

// shop opens a database with a table of orders.
func shop() (db *sql.DB, closeAll func()) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	db, err = sqlite.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		panic(err)
	}
	if err := sqlite.Migrate(ctx, db); err != nil {
		panic(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)"); err != nil {
		panic(err)
	}
	return db, func() {
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}
}

// Keys in a header field of one's own, for methods of one's own.
func ExampleNew() {
	ex, err := idem.New(memory.New())
	if err != nil {
		panic(err)
	}
	_, err = idemhttp.New(ex, scope,
		idemhttp.WithHeader("X-Request-Key"),
		idemhttp.WithKeySyntax(idemhttp.KeySyntax{Strict: true, MinLen: 16}),
		idemhttp.WithMethods(http.MethodPost, http.MethodPut),
		idemhttp.WithMaxBody(64<<10),
	)
	fmt.Println(err)
	_, err = idemhttp.New(ex, nil)
	fmt.Println("no scope:", errors.Is(err, idem.ErrInvalid))
	// Output:
	// <nil>
	// no scope: true
}

// The executor's database is the one that the handlers write to.
func ExampleNewTx() {
	db, closeAll := shop()
	defer closeAll()
	store, err := sqlite.New(db)
	if err != nil {
		panic(err)
	}
	ex, err := idem.NewTx(store)
	if err != nil {
		panic(err)
	}
	_, err = idemhttp.NewTx(ex, scope)
	fmt.Println(err)
	// What is committed as a whole can't be sent in parts.
	_, err = idemhttp.NewTx(ex, scope, idemhttp.WithStreaming())
	fmt.Println("streaming:", errors.Is(err, idem.ErrInvalid))
	// Output:
	// <nil>
	// streaming: true
}

// Handlers that are no strangers to the middleware ask the context for their
// transaction (see [idemhttp.Tx]).
func ExampleTxMiddleware_Wrap() {
	db, closeAll := shop()
	defer closeAll()
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
	h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, ok := idemhttp.Tx[*sql.Tx](r.Context())
		if !ok {
			http.Error(w, "only with a key", http.StatusInternalServerError)
			return
		}
		if _, err := tx.ExecContext(r.Context(), "INSERT INTO orders (item) VALUES ('tea')"); err != nil {
			idemhttp.Transient(r.Context(), err)
			http.Error(w, "try again", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "ordered")
	}))
	post(h, "key-of-the-tea", `{"item": "tea"}`)
	post(h, "key-of-the-tea", `{"item": "tea"}`)
	// Output:
	// 201 replayed="" ordered
	// 201 replayed="true" ordered
}

// Code below a handler writes with its transaction, or refuses to write without one.
func ExampleTx() {
	save := func(ctx context.Context, item string) error {
		tx, ok := idemhttp.Tx[*sql.Tx](ctx)
		if !ok {
			return errors.New("not in a transaction")
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO orders (item) VALUES (?)", item)
		return err
	}
	fmt.Println(save(context.Background(), "tea"))
	// Output: not in a transaction
}

// A handler tells other systems which try of the request it is.
func ExampleRunFrom() {
	h := leased().Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		run, ok := idemhttp.RunFrom(r.Context())
		if !ok {
			http.Error(w, "only with a key", http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "attempt %d, fenced: %v", run.Attempt(), run.Token() > 0)
	}))
	post(h, "key-of-the-tea", `{}`)
	// Output: 200 replayed="" attempt 1, fenced: true
}

// A conflict that passes is not the answer for good.
func ExampleTransient() {
	busy := true
	h := leased().Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy {
			busy = false
			idemhttp.Transient(r.Context(), errors.New("the stock is being counted"))
			http.Error(w, "come back", http.StatusConflict)
			return
		}
		_, _ = io.WriteString(w, "order 1")
	}))
	post(h, "key-of-the-tea", `{}`)
	post(h, "key-of-the-tea", `{}`)
	// Output:
	// 409 replayed="" come back
	// 200 replayed="" order 1
}

// An error that no retry must turn into a second charge.
func ExampleFinal() {
	h := leased().Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		idemhttp.Final(r.Context())
		http.Error(w, "charged, but not shipped", http.StatusInternalServerError)
	}))
	post(h, "key-of-the-tea", `{}`)
	post(h, "key-of-the-tea", `{}`)
	// Output:
	// 500 replayed="" charged, but not shipped
	// 500 replayed="true" charged, but not shipped
}

// While clients are taught to send keys, those without one are let through.
func ExampleOptional() {
	orders := 0
	h := leased(idemhttp.Optional()).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		fmt.Fprintf(w, "order %d", orders)
	}))
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders", http.NoBody))
	}
	fmt.Println(orders, "orders without a key")
	post(h, "key-of-the-tea", `{}`)
	post(h, "key-of-the-tea", `{}`)
	// Output:
	// 2 orders without a key
	// 200 replayed="" order 3
	// 200 replayed="true" order 3
}

// A long answer leaves while it is made. It is not kept: a retry is told that the
// request was carried out, and where its result is.
func ExampleWithStreaming() {
	h := leased(idemhttp.WithStreaming()).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/reports/1")
		for i := range 3 {
			fmt.Fprintf(w, "line %d; ", i)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	post(h, "key-of-the-report", `{}`)
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "key-of-the-report")
	r.Header.Set("X-User", "ada")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Location"))
	// Output:
	// 200 replayed="" line 0; line 1; line 2;
	// 410 /reports/1
}

// Answers of one more status are not stored.
func ExampleStored() {
	m := leased(idemhttp.WithStored(func(status int) bool {
		return idemhttp.Stored(status) && status != http.StatusLocked
	}))
	tries := 0
	h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tries++
		http.Error(w, "locked", http.StatusLocked)
	}))
	post(h, "key-of-the-tea", `{}`)
	post(h, "key-of-the-tea", `{}`)
	fmt.Println(tries, "tries;", idemhttp.Stored(http.StatusCreated), idemhttp.Stored(http.StatusTooManyRequests))
	// Output:
	// 423 replayed="" locked
	// 423 replayed="" locked
	// 2 tries; true false
}
