package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/idemhttp"
)

// lease is how long a retry has to wait after a crash. It is short, for impatient
// customers; the default is 30 s.
const lease = 4 * time.Second

// partners are the addresses of those that the service talks to.
type partners struct {
	gateway, board string
	careless       bool // how the service charges
}

// newService makes the service on a store: all of the set-up that it takes. Everything
// called stoppable is for the demonstration.
func newService[T any](ctx context.Context, b backend.Transactor[T], adapt func(T) database, p partners) (http.Handler, error) {
	b = &stoppable[T]{b}
	ex, err := idem.New(b,
		idem.WithPhases("1"),                // the version of the steps' code
		idem.WithLease(lease),               // after it a crashed request is taken over
		idem.WithWait(250*time.Millisecond), // a double click waits for the first
	)
	if err != nil {
		return nil, err
	}
	if err := ex.Check(ctx); err != nil {
		return nil, err
	}
	m, err := idemhttp.New(ex, scopeOf, idemhttp.WithErrorHandler(func(_ *http.Request, err error) { fmt.Println(err) }))
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: stoppableTransport{http.DefaultTransport}}
	s := &service[T]{
		store: b, adapt: adapt,
		gateway:  gatewayClient{p.gateway, client},
		board:    boardClient{p.board, client},
		careless: p.careless,
	}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", m.Wrap(http.HandlerFunc(s.postPayment)))
	return stoppableHandler(mux), nil
}

// serve is the service's process: the scenarios start it and kill it. It ends with its
// standard input, and so with the process that started it.
func serve(ctx context.Context, dsn string, p partners) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	s, err := open(ctx, dsn)
	if err != nil {
		return err
	}
	defer s.close()
	h, err := s.service(p)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listenLine + l.Addr().String())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
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
	return srv.Shutdown(bound)
}
