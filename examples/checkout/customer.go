package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// request is one intent to pay: every try of it is the same.
type request struct {
	key   string
	order order
}

// order is also the body of a request.
type order struct {
	ID     string `json:"order"`
	Amount int64  `json:"amount"`
}

// answer is what a customer can tell of one.
type answer struct {
	status   int
	replayed bool
	problem  string // the type of an application/problem+json, its part after '#'
	location string
	body     []byte
}

// final reports whether the customer has no reason to try again.
func (a answer) final() bool {
	return a.status < http.StatusInternalServerError && a.problem != "in-progress"
}

// same reports whether two answers are one: what a retry must get.
func (a answer) same(b answer) bool {
	return a.status == b.status && a.location == b.location && bytes.Equal(a.body, b.body)
}

func (a answer) String() string {
	s := strconv.Itoa(a.status)
	if a.problem != "" {
		s += " " + a.problem
	}
	return s
}

// customers have little patience: they don't wait as long as Retry-After says. Each
// request has a connection of its own: on a kept one net/http would repeat a POST with
// an Idempotency-Key by itself.
var customers = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

const patience = 100 * time.Millisecond

// send makes one try. header is a header field, or none.
func send(ctx context.Context, addr string, q request, header ...string) (answer, error) {
	body, err := json.Marshal(q.order)
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/payments", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer alice")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", q.key)
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	resp, err := customers.Do(r)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(resp)
}

// retry sends until an answer is enough for the customer.
func retry(ctx context.Context, addr string, q request, enough func(answer) bool, header ...string) (answer, error) {
	for {
		a, err := send(ctx, addr, q, header...)
		if err == nil && enough(a) {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("no answer in time, the last was %v: %w", a, ctx.Err())
		case <-time.After(patience):
		}
	}
}

func readAnswer(resp *http.Response) (answer, error) {
	defer resp.Body.Close()
	a := answer{
		status:   resp.StatusCode,
		replayed: resp.Header.Get("Idempotent-Replayed") == "true",
		location: resp.Header.Get("Location"),
	}
	var err error
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, err
	}
	if resp.Header.Get("Content-Type") == "application/problem+json" {
		var p struct{ Type string }
		if err := json.Unmarshal(a.body, &p); err != nil {
			return a, err
		}
		_, a.problem, _ = strings.Cut(p.Type, "#")
	}
	return a, nil
}
