package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem"
)

// An effect makes a call for another key in its transaction, and is rejected after
// it: all that it wrote is undone, also what it wrote before that call.
func TestRejectAroundAnotherCall(t *testing.T) {
	t.Parallel()
	b, pool := withEffects(t)
	e, p := executor(t, b), &payments{}
	effect := func(ctx context.Context, tx pgx.Tx) (string, error) {
		if _, err := p.inTx(ctx, tx); err != nil {
			return "", err
		}
		if _, err := idem.DoIn(ctx, e, tx, intent("key-0002"), p.inTx); err != nil {
			return "", err
		}
		return "", idem.Reject("declined")
	}
	res, err := idem.DoTx(t.Context(), e, intent("key-0001"), effect)
	wantResult(t, "DoTx", res, err, "declined", false, 1)
	wantEffects(t, pool, 0)
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		res, err := idem.DoIn(t.Context(), e, tx, intent("key-0003"), effect)
		wantResult(t, "DoIn", res, err, "declined", false, 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEffects(t, pool, 0)
	res, err = idem.DoTx(t.Context(), e, intent("key-0002"), p.inTx)
	wantResult(t, "DoTx of what was undone", res, err, "payment 5", false, 1)
}
