package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// The final check must find whatever is wrong with a ledger.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, damage string
		want         string // what is printed beside WRONG; empty: nothing is wrong
	}{
		{"nothing", "", ""},
		{"a charge that nobody meant", "INSERT INTO payments VALUES ('x', 'INV-02', 'alice', 1000)", "charges: 1, want 0"},
		{"a lost charge", "DELETE FROM payments", "charges: 0, want 1"},
		{"a charge to somebody else", "UPDATE payments SET owner = 'bob'", "charges: 0, want 1"},
		{"a charge of another amount", "UPDATE payments SET amount = amount + 1", "charged: 4201, want 4200"},
		{"an invoice with another status", "UPDATE invoices SET status = 'open'", "status: open, want paid"},
		{"a payment of an unknown invoice", "INSERT INTO payments VALUES ('x', 'INV-99', 'alice', 1)", "payments: 2, want 1"},
		{"a balance that is off", "UPDATE accounts SET balance = balance - 1 WHERE owner = 'bob'", "balance: 50998, want 50999"},
		{"a second credit", "INSERT INTO topups VALUES ('x', 'bob', 999)", "topped up: 1998, want 999"},
		{"an answer about another payment", "UPDATE payments SET id = 'x'", "answer: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := open(t.Context(), filepath.Join(t.TempDir(), "payments.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			var out bytes.Buffer
			d := &demo{out: &out, ledger: s.pool, topups: map[string]int64{"bob": 999}}
			fill(t, d)
			if tt.damage != "" {
				if _, err := s.pool.exec(t.Context(), tt.damage); err != nil {
					t.Fatal(err)
				}
			}
			got, err := d.check(t.Context())
			if err != nil || got != (tt.want == "") || !strings.Contains(out.String(), tt.want) || strings.Contains(out.String(), "WRONG") == got {
				t.Errorf("check with %s = %v, %v, want %q to be found; it printed\n%s", tt.name, got, err, tt.want, &out)
			}
		})
	}
}

// fill plays one paid invoice, one unpaid and a top-up without a server.
func fill(t *testing.T, d *demo) {
	t.Helper()
	ctx := t.Context()
	for owner, cents := range opening {
		if err := openAccount(ctx, d.ledger, owner, cents); err != nil {
			t.Fatal(err)
		}
	}
	d.intents = []intent{{"paid", "INV-01", "alice", 42_00, 1}, {"unpaid", "INV-02", "alice", 10_00, 0}}
	for _, in := range d.intents {
		if err := issueInvoice(ctx, d.ledger, in.invoice, in.owner, in.amount); err != nil {
			t.Fatal(err)
		}
	}
	p, err := pay(ctx, d.ledger, "alice", "INV-01", 42_00)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topUp(ctx, d.ledger, "bob", 9_99); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	d.answers = []answered{{
		by:      customer{name: "alice"},
		request: request{body: payBody{"INV-01", 42_00}},
		answer:  answer{status: http.StatusCreated, location: "/payments/" + p.ID, body: body},
	}}
}
