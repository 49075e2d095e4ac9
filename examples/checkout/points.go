package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/idem-go/idem/backend"
)

// Crash points exist for the demonstration only. They are not listed anywhere: each
// is a place between two things that can be seen from outside, found by what stands
// between the service and its stores, its partners and its customers. A step that is
// added to the service has points without anybody thinking of it.
//
// With traceHeader a request prints the points that it passes. With stopHeader it stops at
// one of them, and the customer kills the process.
const (
	traceHeader = "Demo-Trace"
	stopHeader  = "Demo-Stop"

	passLine = "passed: "
	stopLine = "stopped: "
)

type stopKey struct{}

// at passes a crash point.
func at(ctx context.Context, point string) {
	stop, traced := ctx.Value(stopKey{}).(string)
	if !traced {
		return
	}
	if point == stop {
		fmt.Fprintln(os.Stdout, stopLine+point)
		select {} // until the kill
	}
	fmt.Fprintln(os.Stdout, passLine+point)
}

// stoppable has points around whatever is written to the store. A write in doubt is
// one that was made: the next run may find it, and not come by its point again.
type stoppable[T any] struct{ backend.Transactor[T] }

func (s *stoppable[T]) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	at(ctx, "before the claim")
	got, err := s.Transactor.Claim(ctx, c)
	if got.Acquired {
		at(ctx, "after the claim")
	}
	return got, err
}

func (s *stoppable[T]) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	at(ctx, "before "+c.Point+" is stored")
	err := s.Transactor.Checkpoint(ctx, l, c)
	if !backend.NotApplied(err) {
		at(ctx, "after "+c.Point+" is stored")
	}
	return err
}

func (s *stoppable[T]) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	at(ctx, "before the answer is stored")
	err := s.Transactor.Complete(ctx, l, c)
	if !backend.NotApplied(err) {
		at(ctx, "after the answer is stored")
	}
	return err
}

func (s *stoppable[T]) InLease(ctx context.Context, l backend.Lease, seq backend.Sequence, step func(context.Context, T) (backend.Step, error)) (backend.Record, error) {
	what, ran := "the answer", false
	rec, err := s.Transactor.InLease(ctx, l, seq, func(ctx context.Context, tx T) (backend.Step, error) {
		done, err := step(ctx, tx)
		if done.Point != "" {
			what = done.Point
		}
		if ran = err == nil; ran {
			at(ctx, "before the commit of "+what)
		}
		return done, err
	})
	if ran && !backend.NotApplied(err) {
		at(ctx, "after the commit of "+what)
	}
	return rec, err
}

// stoppableTransport has points around every request to a partner.
type stoppableTransport struct{ http.RoundTripper }

func (s stoppableTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	what := r.Method + " /" + strings.Split(r.URL.Path, "/")[1]
	at(r.Context(), "before "+what)
	resp, err := s.RoundTripper.RoundTrip(r)
	at(r.Context(), "after "+what)
	return resp, err
}

// stoppableHandler has a point before the customer gets an answer.
func stoppableHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stop := r.Header.Get(stopHeader)
		if stop != "" || r.Header.Get(traceHeader) != "" {
			r = r.WithContext(context.WithValue(r.Context(), stopKey{}, stop))
			w = stoppableWriter{w, r.Context()}
		}
		next.ServeHTTP(w, r)
	})
}

type stoppableWriter struct {
	http.ResponseWriter
	ctx context.Context //nolint:containedctx // of the request that this is the answer to
}

func (w stoppableWriter) WriteHeader(status int) {
	at(w.ctx, "before the answer leaves")
	w.ResponseWriter.WriteHeader(status)
}
