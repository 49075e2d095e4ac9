package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
)

// Each COMMIT fails such that nobody knows what became of it, and is found to have
// failed: so it is with a disk that stays full. The call ends, and soon.
func TestTxCommitNeverComesThrough(t *testing.T) {
	b := openBank(t)
	refused := errors.New("the disk is full")
	b.transact = func(ctx context.Context, c backend.Claim, effect txEffect) (backend.Claimed, error) {
		got, err := b.Backend.Transact(ctx, c, func(ctx context.Context, tx *sql.Tx, held backend.Claimed) (backend.Effect, error) {
			_, err := effect(ctx, tx, held)
			return backend.Effect{}, errors.Join(err, refused)
		})
		if errors.Is(err, refused) {
			err = &backend.Error{Op: "test: commit", Err: refused}
		}
		return got, err
	}
	runs := 0
	_, err := idem.DoTx(t.Context(), newTx(t, b), request("key-0001"), func(ctx context.Context, tx *sql.Tx) (string, error) {
		if runs++; runs > 20 {
			t.Fatal("the effect runs again and again")
		}
		return charge("paid", nil)(ctx, tx)
	})
	if !errors.Is(err, idem.ErrUnknownOutcome) || !errors.Is(err, refused) {
		t.Errorf("DoTx() = %v, want ErrUnknownOutcome with its cause", err)
	}
	b.wantCharges(t, 0)

	b.transact = nil
	if res, err := idem.DoTx(t.Context(), newTx(t, b), request("key-0001"), charge("paid", nil)); err != nil || res.Value != "paid" {
		t.Errorf("DoTx() with room on the disk = %+v, %v, want it paid", res, err)
	}
	b.wantCharges(t, 1)
}
