package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"strings"

	"github.com/idem-go/idem"
)

// newServer is the service. What moves money is behind protect; everything in
// there is ordinary code, written as if requests came once.
func newServer(s *store, points *crashes) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /payments", s.protect(points.inside(postPayment)))
	mux.Handle("POST /topups", s.protect(points.inside(postTopup)))
	mux.HandleFunc("GET /payments/{id}", func(w http.ResponseWriter, r *http.Request) { getPayment(w, r, s.pool) })
	return points.outside(authenticate(mux))
}

type userKey struct{}

// authenticate comes before the idempotency key: a key belongs to a user. A real
// service checks a real token here.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || user == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeJSON(w, http.StatusUnauthorized, problem{"send Authorization: Bearer <your name>"})
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

func userOf(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// scopeOf says whose keys a request's key is among. Two users can choose the same
// key and never meet.
func scopeOf(r *http.Request) (idem.Scope, error) {
	user := userOf(r.Context())
	if user == "" {
		return idem.Scope{}, errors.New("nobody is logged in")
	}
	return idem.Scope{Tenant: "demo", Actor: user}, nil
}

func postPayment(w http.ResponseWriter, r *http.Request, tx database) {
	var in struct {
		Invoice string `json:"invoice"`
		Amount  int64  `json:"amount"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	p, err := pay(r.Context(), tx, userOf(r.Context()), in.Invoice, in.Amount)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/payments/"+p.ID)
	writeJSON(w, http.StatusCreated, p)
}

func postTopup(w http.ResponseWriter, r *http.Request, tx database) {
	var in struct {
		Amount int64 `json:"amount"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	if in.Amount <= 0 {
		writeJSON(w, http.StatusBadRequest, problem{"the amount must be positive"})
		return
	}
	t, err := topUp(r.Context(), tx, userOf(r.Context()), in.Amount)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Location", "/topups/"+t.ID)
	writeJSON(w, http.StatusCreated, t)
}

func getPayment(w http.ResponseWriter, r *http.Request, db database) {
	p := payment{ID: r.PathValue("id")}
	err := db.get(r.Context(), "SELECT invoice, amount FROM payments WHERE id = $1 AND owner = $2",
		[]any{p.ID, userOf(r.Context())}, &p.Invoice, &p.Amount)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		writeJSON(w, http.StatusNotFound, problem{"you have no such payment"})
	case err != nil:
		writeError(w, err)
	default:
		writeJSON(w, http.StatusOK, p)
	}
}

type problem struct {
	Reason string `json:"reason"`
}

func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		writeJSON(w, http.StatusBadRequest, problem{"the body is not what was expected: " + err.Error()})
		return false
	}
	return true
}

// writeError answers with a refusal, which the middleware stores, or with 500,
// which it doesn't: nothing was done, and a retry with the same key tries again.
func writeError(w http.ResponseWriter, err error) {
	var no *refusal
	if errors.As(err, &no) {
		writeJSON(w, no.status, problem{no.reason})
		return
	}
	log.Print(err)
	writeJSON(w, http.StatusInternalServerError, problem{"something went wrong; retry with the same key"})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	_ = json.NewEncoder(&body).Encode(v) // the types above always encode
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}
