package idem_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/idem-go/idem"
)

// An effect makes a call for another key in its transaction, and is rejected after
// it: all that it wrote is undone, also what it wrote before that call.
func TestRejectAroundAnotherCall(t *testing.T) {
	b := openBank(t)
	e := newTx(t, b)
	effect := func(ctx context.Context, tx *sql.Tx) (string, error) {
		if _, err := charge("", nil)(ctx, tx); err != nil {
			return "", err
		}
		if _, err := idem.DoIn(ctx, e, tx, request("key-0002"), charge("part", nil)); err != nil {
			return "", err
		}
		return "", idem.Reject("declined")
	}
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if res, err := idem.DoIn(t.Context(), e, tx, request("key-0001"), effect); err != nil || res.Value != "declined" {
		t.Errorf("DoIn() = %+v, %v, want it declined", res, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	b.wantCharges(t, 0)
	if res, err := idem.DoTx(t.Context(), e, request("key-0003"), effect); err != nil || res.Value != "declined" {
		t.Errorf("DoTx() = %+v, %v, want it declined", res, err)
	}
	b.wantCharges(t, 0)
	if res, err := idem.DoTx(t.Context(), e, request("key-0002"), charge("part", nil)); err != nil || res.Replayed {
		t.Errorf("DoTx() of what was undone = %+v, %v, want it to run", res, err)
	}
}
