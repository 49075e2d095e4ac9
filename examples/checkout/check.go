package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// check compares the gateway's book with the payments, with what was meant and with
// what customers were told. It trusts no answer of the service.
func (d *demo) check(ctx context.Context) (bool, error) {
	c := checker{demo: d}
	c.line(fmt.Sprintf("\n%-7s %7s %-9s %8s %8s  %s", "order", "amount", "status", "payments", "charges", "scenario"))
	orders := 0
	for _, t := range d.played {
		if t.answer == nil && t.fine() {
			continue // it has no order of its own
		}
		orders++
		if err := c.order(ctx, t); err != nil {
			return false, fmt.Errorf("read the payments: %w", err)
		}
	}
	var rows int
	if err := d.ledger.get(ctx, "SELECT count(*) FROM payments", nil, &rows); err != nil {
		return false, fmt.Errorf("read the payments: %w", err)
	}
	c.line(fmt.Sprintf("%d orders, %d payments, %d entries in the gateway's book", orders, rows, len(d.gateway.book)),
		differ("payments", rows, orders), differ("entries", len(d.gateway.book), orders))
	return c.wrong == 0, nil
}

type checker struct {
	*demo
	wrong int
}

// line prints a line and what is wrong in it.
func (c *checker) line(text string, wrong ...string) {
	for _, w := range wrong {
		if w != "" {
			c.wrong++
			text += "  WRONG " + w
		}
	}
	fmt.Fprintln(c.out, text)
}

func differ[V comparable](what string, got, want V) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s: %v, want %v", what, got, want)
}

// order compares all that is known of one.
func (c *checker) order(ctx context.Context, t *trial) error {
	ord := t.request.order
	want := payment{Order: ord.ID, Amount: ord.Amount, Status: paid}
	charges, total, wantCharges := c.gateway.charges(ord.ID), int64(0), 1
	for _, ch := range charges {
		total += ch.Amount
		want.Charge = ch.ID
	}
	if t.mode == declines {
		want.Status, wantCharges = refused, 0
	}
	var rows int
	var p payment
	err := c.ledger.get(ctx, `SELECT count(*), coalesce(min(id), ''), coalesce(min(order_id), ''), CAST(coalesce(sum(amount), 0) AS bigint),
		coalesce(min(status), ''), coalesce(min(charge), '') FROM payments WHERE order_id = $1`, []any{ord.ID},
		&rows, &p.ID, &p.Order, &p.Amount, &p.Status, &p.Charge)
	if err != nil {
		return err
	}
	want.ID = p.ID // whatever it is
	var told payment
	if t.answer != nil {
		if err := json.Unmarshal(t.answer.body, &told); err != nil {
			return err
		}
	}
	shown, _ := c.board.shows(ord.ID)
	c.line(fmt.Sprintf("%-7s %4d.%02d %-9s %8d %8d  %s", ord.ID, ord.Amount/100, ord.Amount%100, p.Status, rows, len(charges), t.name),
		differ("payments", rows, 1), differ("charges", len(charges), wantCharges), differ("charged", total, ord.Amount*int64(wantCharges)),
		differ("payment", p, want), differ("answer", told, p), differ("board", shown, want.Status))
	return nil
}
