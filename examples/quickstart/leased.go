package main

import (
	"context"
	"errors"

	"github.com/idem-go/idem"
)

type receipt struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// sendMoney calls somebody else's system: the leased path, on any backend.
func sendMoney(ctx context.Context, ex *idem.Executor, user, key string, body []byte) (receipt, error) {
	req := idem.Request{
		Scope:     idem.Scope{Tenant: "shop", Actor: user},
		Key:       key,
		Operation: "send money",
		Content:   idem.Content{Type: "application/json", Body: body},
	}
	res, err := idem.Do(ctx, ex, req, func(ctx context.Context, run *idem.Run) (receipt, error) {
		// Runs under a lease that is renewed until it returns. If this process dies
		// in here, a retry runs it again: give the key to the other side.
		r, err := callTheBank(ctx, user, key)
		if errors.Is(err, errNoAnswer) {
			err = idem.MaybeDone(err) // no retry before the lease is over
		}
		return r, err // any other error says that nothing was done
	})
	return res.Value, err // the same receipt for every retry; res.Replayed tells
}
