package main

import (
	"context"
	"database/sql"

	"github.com/idem-go/idem"
)

// bookMoney writes to the database that has the records: the transaction path.
func bookMoney(ctx context.Context, ex *idem.TxExecutor[*sql.Tx], user, key string, body []byte) (receipt, error) {
	req := idem.Request{
		Scope:     idem.Scope{Tenant: "shop", Actor: user}, // whose key it is: required, always
		Key:       key,                                     // made by the client, once per decision
		Operation: "book money",                            // the name of the job; for metrics, too
		Content:   idem.Content{Type: "application/json", Body: body},
	}
	res, err := idem.DoTx(ctx, ex, req, func(ctx context.Context, tx *sql.Tx) (receipt, error) {
		// The claim of the key, this write and the receipt commit together.
		r, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 5 WHERE id = ? AND balance >= 5", user)
		if err != nil {
			return receipt{}, err // undone; the next retry starts fresh
		}
		n, err := r.RowsAffected()
		if err == nil && n == 0 {
			err = idem.Reject(receipt{ID: "refused: no money"}) // undone, but kept as the answer
		}
		return receipt{ID: "b-1", Amount: 5}, err
	})
	return res.Value, err
}
