package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// check reads the ledger, prints it and reports whether it is what it must be. It
// trusts no answer of the service.
func (d *demo) check(ctx context.Context) (bool, error) {
	c := checker{demo: d, charged: map[string]int64{}}
	for _, part := range []func(context.Context) error{c.payments, c.balances, c.answered} {
		if err := part(ctx); err != nil {
			return false, fmt.Errorf("read the ledger: %w", err)
		}
	}
	return c.wrong == 0, nil
}

type checker struct {
	*demo
	charged map[string]int64 // what must have been, by owner
	wrong   int
}

// line prints a line of a table and what is wrong in it.
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

// payments compares what was charged for each invoice with what was meant.
func (c *checker) payments(ctx context.Context) error {
	c.line(fmt.Sprintf("\n%-8s %-6s %9s %-6s %7s  %s", "invoice", "owner", "amount", "status", "charges", "scenario"))
	total := 0
	for _, in := range c.intents {
		var status string
		var charges int
		var charged int64
		err := c.ledger.get(ctx, `SELECT i.status, count(p.id), CAST(coalesce(sum(p.amount), 0) AS bigint)
			FROM invoices i LEFT JOIN payments p ON p.invoice = i.id AND p.owner = i.owner
			WHERE i.id = $1 AND i.owner = $2 GROUP BY i.status`, []any{in.invoice, in.owner}, &status, &charges, &charged)
		if err != nil {
			return err
		}
		wantCharged, wantStatus := in.amount*int64(in.charges), "open"
		if in.charges > 0 {
			wantStatus = "paid"
		}
		c.line(fmt.Sprintf("%-8s %-6s %9s %-6s %7d  %s", in.invoice, in.owner, cents(in.amount), status, charges, in.scenario),
			differ("charges", charges, in.charges), differ("charged", charged, wantCharged), differ("status", status, wantStatus))
		c.charged[in.owner] += wantCharged
		total += in.charges
	}
	var all int
	if err := c.ledger.get(ctx, "SELECT count(*) FROM payments", nil, &all); err != nil {
		return err
	}
	c.line(fmt.Sprintf("%d payments in the ledger", all), differ("payments", all, total))
	return nil
}

// balances compares each account with what came in and what must have gone out.
func (c *checker) balances(ctx context.Context) error {
	c.line(fmt.Sprintf("\n%-6s %10s %10s %10s %10s", "owner", "opening", "topped up", "charged", "balance"))
	for _, owner := range []string{"alice", "bob", "carol"} {
		var balance, topped, charged int64
		err := c.ledger.get(ctx, `SELECT balance,
			CAST((SELECT coalesce(sum(amount), 0) FROM topups t WHERE t.owner = a.owner) AS bigint),
			CAST((SELECT coalesce(sum(amount), 0) FROM payments p WHERE p.owner = a.owner) AS bigint)
			FROM accounts a WHERE owner = $1`, []any{owner}, &balance, &topped, &charged)
		if err != nil {
			return err
		}
		c.line(fmt.Sprintf("%-6s %10s %10s %10s %10s", owner, cents(opening[owner]), cents(topped), cents(charged), cents(balance)),
			differ("topped up", topped, c.topups[owner]), differ("charged", charged, c.charged[owner]),
			differ("balance", balance, opening[owner]+c.topups[owner]-c.charged[owner]))
	}
	return nil
}

// answered compares what customers were told with the ledger: who got a 201 for a
// payment was told of the one that is there.
func (c *checker) answered(ctx context.Context) error {
	c.line("")
	told := 0
	for _, a := range c.answers {
		body, pays := a.request.body.(payBody)
		if !pays || a.answer.status != http.StatusCreated {
			continue
		}
		var p payment
		if err := json.Unmarshal(a.answer.body, &p); err != nil {
			return err
		}
		booked := payment{Invoice: body.Invoice}
		if err := c.ledger.get(ctx, "SELECT id, amount FROM payments WHERE invoice = $1 AND owner = $2",
			[]any{body.Invoice, a.by.name}, &booked.ID, &booked.Amount); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		wrong := differ("answer", p, booked) + differ("location", a.answer.location, "/payments/"+booked.ID)
		if wrong != "" {
			c.line(body.Invoice, wrong)
		}
		told++
	}
	c.line(fmt.Sprintf("%d payments were answered with what is in the ledger", told))
	return nil
}

// cents prints an amount.
func cents(n int64) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }
