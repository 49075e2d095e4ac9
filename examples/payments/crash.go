package main

import (
	"fmt"
	"io"
	"net/http"
)

// Crash points exist for the demonstration only. With -demo a request names one in
// a header, the server stops there, says so on its standard output, and the
// customer kills it.
const crashHeader = "Demo-Crash"

const (
	beforeCommit = "before-commit" // charged, nothing committed
	beforeAnswer = "before-answer" // committed, nothing answered
)

// crashLine is what the server prints, followed by the point's name.
const crashLine = "crash point: "

// crashes stops requests at the point they name. It is nil in a real service.
type crashes struct{ out io.Writer }

func (c *crashes) stop(point string) {
	fmt.Fprintln(c.out, crashLine+point)
	select {} // until the kill
}

// inside wraps a handler that runs in the transaction: after it, its writes are
// done and not committed.
func (c *crashes) inside(next txHandler) txHandler {
	if c == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request, tx database) {
		next(w, r, tx)
		if r.Header.Get(crashHeader) == beforeCommit {
			c.stop(beforeCommit)
		}
	}
}

// outside wraps all of the service: the first thing that is written to the
// client comes after the commit.
func (c *crashes) outside(next http.Handler) http.Handler {
	if c == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(crashHeader) == beforeAnswer {
			w = crashingWriter{w, c}
		}
		next.ServeHTTP(w, r)
	})
}

type crashingWriter struct {
	http.ResponseWriter
	c *crashes
}

func (w crashingWriter) WriteHeader(int) { w.c.stop(beforeAnswer) }

func (w crashingWriter) Write([]byte) (int, error) {
	w.c.stop(beforeAnswer)
	return 0, nil
}
