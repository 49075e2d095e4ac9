package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/sqlite"
)

// payOrder does several things, each of them once.
func payOrder(ctx context.Context, ex *idem.Executor, store *sqlite.Backend, req idem.Request) (receipt, error) {
	res, err := idem.Do(ctx, ex, req, func(ctx context.Context, run *idem.Run) (receipt, error) {
		// A transaction that commits with its recovery point: exactly once.
		id, err := idem.PhaseTx(ctx, run, store, "create", func(ctx context.Context, tx *sql.Tx) (int64, error) {
			res, err := tx.ExecContext(ctx, "INSERT INTO orders (amount) VALUES (5)")
			if err != nil {
				return 0, err
			}
			return res.LastInsertId()
		})
		if err != nil {
			return receipt{}, err
		}
		// A call that is noted before it is sent. After a crash the gateway is asked
		// what became of it.
		charge, err := idem.Call(ctx, run, "charge", idem.Foreign[string]{Do: charge, Inquire: findCharge})
		if err != nil {
			return receipt{}, err
		}
		return receipt{ID: fmt.Sprintf("order %d, %s", id, charge), Amount: 5}, nil
	})
	return res.Value, err
}

// charge stands for a gateway that takes idempotency keys: this one is the same for
// every attempt.
func charge(_ context.Context, key string) (string, error) {
	fmt.Println("charging under", key)
	return "ch_1", nil
}

// findCharge stands for its inquiry.
func findCharge(context.Context, string) (string, idem.Outcome, error) {
	return "", idem.OutcomeNever, nil
}
