package main

import (
	"context"
	"crypto/rand"
	"fmt"
)

// Nothing in the schema keeps an order from being paid twice: here the key alone does.
const schema = `
CREATE TABLE IF NOT EXISTS payments (
	id       text   PRIMARY KEY,
	customer text   NOT NULL,
	order_id text   NOT NULL,
	amount   bigint NOT NULL CHECK (amount > 0),  -- in cents
	status   text   NOT NULL CHECK (status IN ('pending', 'paid', 'declined')),
	charge   text   NOT NULL                      -- the gateway's, of one that is paid
)`

type payment struct {
	ID     string `json:"id"`
	Order  string `json:"order"`
	Amount int64  `json:"amount"`
	Status string `json:"status"`
	Charge string `json:"charge,omitempty"`
}

// What a payment can be.
const (
	pending = "pending"
	paid    = "paid"
	refused = "declined"
)

func createPayment(ctx context.Context, tx database, customer, order string, amount int64) (payment, error) {
	p := payment{ID: "pay_" + rand.Text(), Order: order, Amount: amount, Status: pending}
	_, err := tx.exec(ctx, "INSERT INTO payments (id, customer, order_id, amount, status, charge) VALUES ($1, $2, $3, $4, $5, '')",
		p.ID, customer, order, amount, p.Status)
	return p, err
}

// settle ends a payment that is pending.
func settle(ctx context.Context, tx database, p payment) error {
	changed, err := tx.exec(ctx, "UPDATE payments SET status = $1, charge = $2 WHERE id = $3 AND status = 'pending'", p.Status, p.Charge, p.ID)
	if err == nil && changed != 1 {
		err = fmt.Errorf("%d payments were pending, want 1", changed)
	}
	return err
}
