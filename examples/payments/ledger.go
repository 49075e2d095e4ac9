package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
)

// The schema has guards of its own. Idempotency keys are for retries; these stop
// whatever else goes wrong, two keys for one invoice for example.
const schema = `
CREATE TABLE IF NOT EXISTS accounts (
	owner   text   PRIMARY KEY,
	opening bigint NOT NULL,                     -- all amounts in cents
	balance bigint NOT NULL CHECK (balance >= 0)
);
CREATE TABLE IF NOT EXISTS invoices (
	id      text   PRIMARY KEY,
	owner   text   NOT NULL REFERENCES accounts,
	amount  bigint NOT NULL CHECK (amount > 0),
	status  text   NOT NULL CHECK (status IN ('open', 'paid'))
);
CREATE TABLE IF NOT EXISTS payments (
	id      text   PRIMARY KEY,
	invoice text   NOT NULL UNIQUE REFERENCES invoices, -- one payment per invoice
	owner   text   NOT NULL REFERENCES accounts,
	amount  bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS topups (
	id      text   PRIMARY KEY,                 -- nothing but the key guards these
	owner   text   NOT NULL REFERENCES accounts,
	amount  bigint NOT NULL CHECK (amount > 0)
)`

// refusal is an answer of the domain: the same for every retry.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

var (
	errNoAccount    = &refusal{http.StatusNotFound, "you have no account"}
	errNoInvoice    = &refusal{http.StatusNotFound, "you have no such invoice"}
	errAmount       = &refusal{http.StatusUnprocessableEntity, "the invoice is over another amount"}
	errPaid         = &refusal{http.StatusConflict, "the invoice is paid"}
	errInsufficient = &refusal{http.StatusPaymentRequired, "insufficient balance"}
)

type payment struct {
	ID      string `json:"id"`
	Invoice string `json:"invoice"`
	Amount  int64  `json:"amount"`
}

// pay charges an invoice to its owner's account. A refusal may come after the
// first write: the middleware undoes what a refused request wrote.
func pay(ctx context.Context, tx database, owner, invoice string, amount int64) (payment, error) {
	// The lock keeps two payments from spending the same money.
	var balance int64
	err := tx.get(ctx, "SELECT balance FROM accounts WHERE owner = $1"+tx.lockRow(), []any{owner}, &balance)
	if errors.Is(err, sql.ErrNoRows) {
		return payment{}, errNoAccount
	}
	if err != nil {
		return payment{}, err
	}

	// The transition has its condition in the statement: of two that try it, one
	// changes a row.
	changed, err := tx.exec(ctx, `UPDATE invoices SET status = 'paid'
		WHERE id = $1 AND owner = $2 AND amount = $3 AND status = 'open'`, invoice, owner, amount)
	if err != nil {
		return payment{}, err
	}
	if changed == 0 {
		return payment{}, whyNot(ctx, tx, owner, invoice, amount)
	}
	if balance < amount {
		return payment{}, errInsufficient
	}

	p := payment{ID: "pay_" + rand.Text(), Invoice: invoice, Amount: amount}
	if _, err := tx.exec(ctx, "INSERT INTO payments (id, invoice, owner, amount) VALUES ($1, $2, $3, $4)", p.ID, invoice, owner, amount); err != nil {
		return payment{}, err
	}
	_, err = tx.exec(ctx, "UPDATE accounts SET balance = balance - $1 WHERE owner = $2", amount, owner)
	return p, err
}

// whyNot says why an invoice can't be paid.
func whyNot(ctx context.Context, tx database, owner, invoice string, amount int64) error {
	var due int64
	err := tx.get(ctx, "SELECT amount FROM invoices WHERE id = $1 AND owner = $2", []any{invoice, owner}, &due)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errNoInvoice
	case err != nil:
		return err
	case due != amount:
		return errAmount
	}
	return errPaid
}

type topup struct {
	ID      string `json:"id"`
	Amount  int64  `json:"amount"`
	Balance int64  `json:"balance"`
}

// topUp adds money to an account. Run twice it adds twice: there is nothing in the
// domain by which a retry could be told from a second top-up.
func topUp(ctx context.Context, tx database, owner string, amount int64) (topup, error) {
	t := topup{ID: "top_" + rand.Text(), Amount: amount}
	err := tx.get(ctx, "UPDATE accounts SET balance = balance + $1 WHERE owner = $2 RETURNING balance", []any{amount, owner}, &t.Balance)
	if errors.Is(err, sql.ErrNoRows) {
		return topup{}, errNoAccount
	}
	if err != nil {
		return topup{}, err
	}
	_, err = tx.exec(ctx, "INSERT INTO topups (id, owner, amount) VALUES ($1, $2, $3)", t.ID, owner, amount)
	return t, err
}

// openAccount and issueInvoice set the scene. What is there already stays.
func openAccount(ctx context.Context, db database, owner string, opening int64) error {
	_, err := db.exec(ctx, "INSERT INTO accounts (owner, opening, balance) VALUES ($1, $2, $2) ON CONFLICT DO NOTHING", owner, opening)
	if err != nil {
		return fmt.Errorf("open an account: %w", err)
	}
	return nil
}

func issueInvoice(ctx context.Context, db database, id, owner string, amount int64) error {
	_, err := db.exec(ctx, "INSERT INTO invoices (id, owner, amount, status) VALUES ($1, $2, $3, 'open') ON CONFLICT DO NOTHING", id, owner, amount)
	if err != nil {
		return fmt.Errorf("issue an invoice: %w", err)
	}
	return nil
}
