package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// The final check must find whatever is wrong with the books.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, d *demo)
		want   string // what is printed beside WRONG; empty: nothing is wrong
	}{
		{"nothing", func(*testing.T, *demo) {}, ""},
		{"a second charge", func(_ *testing.T, d *demo) { d.gateway.book = append(d.gateway.book, d.gateway.book[0]) }, "charges: 2, want 1"},
		{"no charge", func(_ *testing.T, d *demo) { d.gateway.book[0].Status = declined }, "charges: 0, want 1"},
		{"a charge of what was declined", func(_ *testing.T, d *demo) { d.gateway.book[1].Status = charged }, "charges: 1, want 0"},
		{"a charge that is not through", func(_ *testing.T, d *demo) { d.gateway.book[0].Status = processing }, "charges: 0, want 1"},
		{"a charge of another amount", func(_ *testing.T, d *demo) { d.gateway.book[0].Amount++ }, "charged: 1001, want 1000"},
		{"a charge of an unknown order", func(_ *testing.T, d *demo) {
			d.gateway.book = append(d.gateway.book, &charge{Order: "?", Status: charged})
		}, "entries: 3, want 2"},
		{"a second payment", damage("INSERT INTO payments VALUES ('x', 'alice', 'ORD-01', 1000, 'paid', '')"), "payments: 2, want 1"},
		{"a lost payment", damage("DELETE FROM payments"), "payments: 0, want 1"},
		{"a payment of an unknown order", damage("INSERT INTO payments VALUES ('x', 'alice', '?', 1, 'paid', '')"), "payments: 3, want 2"},
		{"a payment that is pending", damage("UPDATE payments SET status = 'pending'"), "payment: "},
		{"a payment by another charge", damage("UPDATE payments SET charge = 'x' WHERE order_id = 'ORD-01'"), "payment: "},
		{"an answer about another payment", damage("UPDATE payments SET id = 'x' || id"), "answer: "},
		{"a board that was not told", func(_ *testing.T, d *demo) { d.board.write("ORD-01", 1, pending) }, "board: pending, want paid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := open(t.Context(), filepath.Join(t.TempDir(), "checkout.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			var out bytes.Buffer
			d := &demo{out: &out, ledger: s.pool, gateway: newGateway(), board: newBoard()}
			fill(t, d, "ORD-01", works)
			fill(t, d, "ORD-02", declines)
			tt.damage(t, d)
			got, err := d.check(t.Context())
			if err != nil || got != (tt.want == "") || !strings.Contains(out.String(), tt.want) || strings.Contains(out.String(), "WRONG") == got {
				t.Errorf("check with %s = %v, %v, want %q to be found; it printed\n%s", tt.name, got, err, tt.want, &out)
			}
		})
	}
}

func damage(statement string) func(t *testing.T, d *demo) {
	return func(t *testing.T, d *demo) {
		t.Helper()
		if _, err := d.ledger.exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// fill plays an order without a service.
func fill(t *testing.T, d *demo, id string, m mode) {
	t.Helper()
	ctx := t.Context()
	p, err := createPayment(ctx, d.ledger, "alice", id, 10_00)
	if err != nil {
		t.Fatal(err)
	}
	d.gateway.modes[id] = m
	c, _, _ := d.gateway.enter("key of "+id, charge{Order: id, Amount: p.Amount})
	status := http.StatusCreated
	if p.Status, p.Charge = paid, c.ID; m == declines {
		p.Status, p.Charge, status = refused, "", http.StatusPaymentRequired
	}
	if err := settle(ctx, d.ledger, p); err != nil {
		t.Fatal(err)
	}
	d.board.write(id, 1, p.Status)
	body, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	d.played = append(d.played, &trial{
		demo: d, scenario: scenario{mode: m},
		request: request{order: order{id, p.Amount}}, answer: &answer{status: status, body: body},
	})
}

// The board refuses the write of a run that was taken over, and takes all others.
func TestBoardFences(t *testing.T) {
	t.Parallel()
	b := newBoard()
	for _, w := range []struct {
		token  int64
		column string
		want   int
	}{
		{7, pending, http.StatusNoContent},
		{7, pending, http.StatusNoContent}, // a phase that is repeated
		{9, paid, http.StatusNoContent},
		{7, pending, http.StatusPreconditionFailed},
		{9, paid, http.StatusNoContent},
	} {
		if got := b.write("ORD-01", w.token, w.column); got != w.want {
			t.Errorf("write %s with token %d = %d, want %d", w.column, w.token, got, w.want)
		}
	}
	if status, late := b.shows("ORD-01"); status != paid || late != 1 {
		t.Errorf("the board shows %q and refused %d, want paid and 1", status, late)
	}
}
