package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// board is a downstream store of the service: on it people see how each order stands,
// in a column for each status. It has no keys and no transactions, the last write
// counts. What it has is a fence: it refuses a write with a smaller token than it has seen, which is one of a run that
// another has taken over from.
type board struct {
	mu     sync.Mutex
	tokens map[string]int64
	status map[string]string
	late   map[string]int // how many writes were refused

	held map[string]hold // for the demonstration: the next write for an order
}

// hold is what happens to a write that is long on its way.
type hold struct{ arrives, goesOn, over chan struct{} }

func newBoard() *board {
	return &board{tokens: map[string]int64{}, status: map[string]string{}, late: map[string]int{}, held: map[string]hold{}}
}

const fencingToken = "Fencing-Token"

func (b *board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /{column}/{order}", b.put)
	mux.ServeHTTP(w, r)
}

func (b *board) put(w http.ResponseWriter, r *http.Request) {
	order, column := r.PathValue("order"), r.PathValue("column")
	token, err := strconv.ParseInt(r.Header.Get(fencingToken), 10, 64)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if h, ok := b.isHeld(order); ok {
		close(h.arrives)
		<-h.goesOn
		defer close(h.over)
	}
	w.WriteHeader(b.write(order, token, column))
}

func (b *board) write(order string, token int64, status string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token < b.tokens[order] {
		b.late[order]++
		return http.StatusPreconditionFailed
	}
	b.tokens[order], b.status[order] = token, status
	return http.StatusNoContent
}

// hold lets the next write for an order be late.
func (b *board) hold(order string) hold {
	h := hold{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[order] = h
	return h
}

func (b *board) isHeld(order string) (hold, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.held[order]
	delete(b.held, order)
	return h, ok
}

// shows is what the board has of an order, and how many late writes it has refused.
func (b *board) shows(order string) (status string, late int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status[order], b.late[order]
}

// boardClient is how the service writes to the board.
type boardClient struct {
	url  string
	http *http.Client
}

func (b boardClient) show(ctx context.Context, token int64, order, status string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, b.url+"/"+status+"/"+order, nil)
	if err != nil {
		return err
	}
	r.Header.Set(fencingToken, strconv.FormatInt(token, 10))
	resp, err := b.http.Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the board answers %d", resp.StatusCode)
	}
	return nil
}
