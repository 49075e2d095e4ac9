package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/idemhttp"
)

// service takes payments for orders.
type service[T any] struct {
	store   backend.Transactor[T] // keeps the payments and the records of the keys
	adapt   func(T) database
	gateway gatewayClient
	board   boardClient

	careless bool // charges as one shouldn't, to show what comes of it
}

// postPayment is ordinary code, from the top to the bottom. Each step is done once,
// and its result stored; whoever comes after a crash goes on behind the last of them.
func (s *service[T]) postPayment(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	run, ok := idemhttp.RunFrom(ctx)
	if !ok {
		http.Error(w, "send a POST with an Idempotency-Key", http.StatusMethodNotAllowed)
		return
	}
	var in struct {
		Order  string `json:"order"`
		Amount int64  `json:"amount"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Order == "" || in.Amount <= 0 {
		writeJSON(w, http.StatusBadRequest, map[string]string{"reason": "an order and a positive amount are needed"})
		return
	}
	if err := s.pay(ctx, run, userOf(r), in.Order, in.Amount); err != nil {
		// The middleware answers: with what the error is, and that a retry with the
		// same key goes on.
		idemhttp.Transient(ctx, err)
	}
}

func (s *service[T]) pay(ctx context.Context, run *idem.Run, customer, order string, amount int64) error {
	// A transaction, committed with its recovery point: exactly one row.
	p, err := idem.PhaseTx(ctx, run, s.store, "create", func(ctx context.Context, tx T) (payment, error) {
		return createPayment(ctx, s.adapt(tx), customer, order, amount)
	})
	if err != nil {
		return err
	}
	// A plain phase is done at least once. What makes that right here is the token.
	if err := s.show(ctx, run, "announce", p); err != nil {
		return err
	}

	c, err := s.charge(ctx, run, p)
	var no *idem.RefusedError
	switch {
	case errors.As(err, &no):
		p.Status = refused
	case err != nil:
		return err
	default:
		p.Status, p.Charge = paid, c.ID
	}
	if err := s.show(ctx, run, "publish", p); err != nil {
		return err
	}

	// The answer is committed together with what it says.
	_, err = idem.CompleteTx(ctx, run, s.store, func(ctx context.Context, tx T) (idem.Response, error) {
		if err := settle(ctx, s.adapt(tx), p); err != nil {
			return idem.Response{}, err
		}
		return answerWith(p)
	})
	return err
}

func (s *service[T]) charge(ctx context.Context, run *idem.Run, p payment) (charge, error) {
	if s.careless {
		return idem.Phase(ctx, run, "charge", func(ctx context.Context) (charge, error) {
			return s.gateway.send(ctx, rand.Text(), p)
		})
	}
	// A foreign call: noted before it is sent, asked for if there was no answer.
	return idem.Call(ctx, run, "charge", s.gateway.charge(p))
}

func (s *service[T]) show(ctx context.Context, run *idem.Run, step string, p payment) error {
	_, err := idem.Phase(ctx, run, step, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.board.show(ctx, run.Token(), p.Order, p.Status)
	})
	return err
}

func answerWith(p payment) (idem.Response, error) {
	status := http.StatusCreated
	if p.Status == refused {
		status = http.StatusPaymentRequired
	}
	body, err := json.Marshal(p)
	if err != nil {
		return idem.Response{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Location": {"/payments/" + p.ID}}
	return idemhttp.NewAnswer(status, header, body)
}

// userOf is who is logged in. A real service checks a real token, before the
// middleware.
func userOf(r *http.Request) string {
	user, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return user
}

// scopeOf says whose keys a request's key is among.
func scopeOf(r *http.Request) (idem.Scope, error) {
	user := userOf(r)
	if user == "" {
		return idem.Scope{}, errors.New("nobody is logged in")
	}
	return idem.Scope{Tenant: "demo", Actor: user}, nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	_ = json.NewEncoder(&body).Encode(v) // the types of this program always encode
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}
