package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/idem-go/idem"
)

// gatewayTimeout is how long the service waits for the gateway.
const gatewayTimeout = 500 * time.Millisecond

// gatewayClient is how the service talks to the gateway.
type gatewayClient struct {
	url  string
	http *http.Client
}

// charge is the foreign call that charges a payment. Of every error it has to say
// what it means, and when in doubt nothing: then the charge may have been made.
func (g gatewayClient) charge(p payment) idem.Foreign[charge] {
	return idem.Foreign[charge]{
		Do: func(ctx context.Context, key string) (charge, error) {
			return g.send(ctx, key, p)
		},
		Inquire: g.inquire,
	}
}

func (g gatewayClient) send(ctx context.Context, key string, p payment) (charge, error) {
	body, err := json.Marshal(charge{Order: p.Order, Amount: p.Amount})
	if err != nil {
		return charge{}, idem.NotDone(err)
	}
	c, status, err := g.do(ctx, http.MethodPost, "/charges", key, body)
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return c, idem.NotDone(err) // there was no connection: surely nothing was sent
	case err != nil:
		return c, err
	case status == http.StatusCreated:
		return c, nil
	case status == http.StatusPaymentRequired:
		return c, idem.Refused("card declined")
	}
	return c, fmt.Errorf("the gateway answers %d", status) // it may have charged
}

func (g gatewayClient) inquire(ctx context.Context, key string) (charge, idem.Outcome, error) {
	c, status, err := g.do(ctx, http.MethodGet, "/charges/"+key, "", nil)
	switch {
	case err != nil:
		return c, idem.OutcomeUnknown, err
	case status == http.StatusCreated:
		return c, idem.OutcomeDone, nil
	case status == http.StatusPaymentRequired:
		return c, idem.OutcomeUnknown, idem.Refused("card declined")
	case status == http.StatusNotFound:
		// It may still arrive, but the gateway knows keys: one that comes twice is
		// charged once.
		return c, idem.OutcomeNever, nil
	}
	return c, idem.OutcomeUnknown, nil // it is being processed
}

func (g gatewayClient) do(ctx context.Context, method, path, key string, body []byte) (c charge, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, gatewayTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, g.url+path, bytes.NewReader(body))
	if err != nil {
		return c, 0, idem.NotDone(err)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := g.http.Do(r)
	if err != nil {
		return c, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		err = json.NewDecoder(resp.Body).Decode(&c)
	}
	return c, resp.StatusCode, err
}
