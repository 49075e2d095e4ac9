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

// customer is somebody with a browser, little patience and a bad network.
type customer struct {
	name string
	http *http.Client
	say  func(format string, args ...any) // for -v
}

// newCustomer makes a customer with a connection of its own per request. On a kept one
// net/http would repeat a POST with an Idempotency-Key by itself; here it's the
// customer who repeats, so that the scenarios show every request.
func newCustomer(name string, say func(string, ...any)) customer {
	return customer{name, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, say}
}

// request is one intent: every try of it is the same.
type request struct {
	path  string
	key   string
	body  any
	crash string // a crash point of the demonstration
}

// answer is what a customer can tell of one.
type answer struct {
	status   int
	replayed bool
	problem  string // the type of an application/problem+json, its part after '#'
	location string
	body     []byte

	retryAfter time.Duration
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
	if a.replayed {
		s += " replayed"
	}
	return s
}

// send makes one try through the given address.
func (c customer) send(ctx context.Context, via string, q request) (answer, error) {
	a, err := c.try(ctx, via, q)
	if err != nil {
		c.say("%s: POST %s %s %v: %v", c.name, q.path, q.key, q.body, err)
		return a, err
	}
	c.say("%s: POST %s %s %v: %v %s", c.name, q.path, q.key, q.body, a, bytes.TrimSpace(a.body))
	return a, nil
}

func (c customer) try(ctx context.Context, via string, q request) (answer, error) {
	body, err := json.Marshal(q.body)
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+via+q.path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+c.name)
	r.Header.Set("Content-Type", "application/json")
	if q.key != "" {
		r.Header.Set("Idempotency-Key", q.key)
	}
	if q.crash != "" {
		r.Header.Set(crashHeader, q.crash)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(resp)
}

// retry sends until there is an answer to the intent: not after a lost connection,
// nor while the server says that the first try still runs.
func (c customer) retry(ctx context.Context, via string, q request) (answer, error) {
	for {
		a, err := c.send(ctx, via, q)
		if err == nil && a.status != http.StatusServiceUnavailable && a.retryAfter == 0 {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("no answer in time, the last was %v: %w", a, ctx.Err())
		case <-time.After(max(a.retryAfter, 50*time.Millisecond)):
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
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		a.retryAfter = time.Duration(seconds) * time.Second
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
