package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// serve runs the service until ctx ends. With crash points it is the server of
// the scenarios, else one to play with.
func serve(ctx context.Context, addr string, s *store, points *crashes) error {
	if points == nil {
		if err := seed(ctx, s.pool); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println(listenLine + l.Addr().String())
	if points == nil {
		printCurl(os.Stdout, l.Addr().String())
	}

	srv := &http.Server{Handler: newServer(s, points), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Requests that run are finished before the database is closed.
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := srv.Shutdown(bound); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// seed gives people something to pay.
func seed(ctx context.Context, db database) error {
	for owner, cents := range opening {
		if err := openAccount(ctx, db, owner, cents); err != nil {
			return err
		}
		for i, amount := range []int64{42_00, 19_99, 7_50} {
			if err := issueInvoice(ctx, db, fmt.Sprintf("%s-%d", owner, i+1), owner, amount); err != nil {
				return err
			}
		}
	}
	return nil
}

func printCurl(out io.Writer, addr string) {
	fmt.Fprintf(out, `
alice, bob and carol owe 4200 for <name>-1, 1999 for <name>-2 and 750 for <name>-3 (in cents).
Pay, and repeat it as often as you like:

  curl -i http://%[1]s/payments -H 'Authorization: Bearer alice' -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: my-first-payment' -d '{"invoice": "alice-1", "amount": 4200}'

Then use the key for another amount, or as bob, or use another key for the same invoice.
carol can't afford carol-1 (a refusal that stays), unless she tops up first:

  curl -i http://%[1]s/topups -H 'Authorization: Bearer carol' -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: my-first-topup' -d '{"amount": 10000}'
`, addr)
}
