// Payments is a service that can't charge twice, and an impatient customer on a
// bad network who tries to make it.
//
//	go run ./examples/payments
//
// starts the service on a SQLite file in a temporary directory, sends it requests
// that are doubled, raced, lost, killed and retried, prints what was expected and what
// was observed, then the ledger, and exits with status 0 only if every intent was
// charged exactly once and every answer was right. The README has the flags.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("payments: ")
	var o options
	flag.StringVar(&o.serve, "serve", "", "keep serving on this `address` instead of playing the scenarios")
	flag.StringVar(&o.backend, "backend", "", "`database`: the path of a SQLite file or a postgres:// URL (default: a temporary SQLite file)")
	flag.BoolVar(&o.verbose, "v", false, "print every request and its answer")
	flag.BoolVar(&o.demo, "demo", false, "with -serve: stop at crash points, and end with the standard input; the scenarios start their server so")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Printf("unexpected argument %q", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	passed, err := o.run(ctx)
	cancel()
	switch {
	case err != nil:
		log.Fatal(err)
	case !passed:
		log.Fatal("FAILED: see above")
	}
}

type options struct {
	serve, backend string
	verbose, demo  bool
}

func (o options) run(ctx context.Context) (passed bool, err error) {
	if o.demo {
		return true, serveDemo(ctx, o.serve, o.backend)
	}
	dsn, cleanUp, err := prepare(ctx, o.backend)
	if err != nil {
		return false, err
	}
	defer cleanUp()
	s, err := open(ctx, dsn)
	if err != nil {
		return false, err
	}
	defer s.close()
	if o.serve != "" {
		return true, serve(ctx, o.serve, s, nil)
	}
	return runDemo(ctx, s.pool, dsn, o.verbose, os.Stdout)
}

// serveDemo is the server process of the scenarios. It ends with its standard
// input, and so with the process that started it.
func serveDemo(ctx context.Context, addr, dsn string) error {
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
	return serve(ctx, addr, s, &crashes{os.Stdout})
}

// prepare gives the run a database of its own: a temporary file, or a new schema
// on a PostgreSQL server. Only a file that the caller named is kept.
func prepare(ctx context.Context, backend string) (dsn string, cleanUp func(), err error) {
	switch {
	case isPostgres(backend):
		return newPostgresSchema(ctx, backend)
	case backend != "":
		return backend, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "payments-")
	if err != nil {
		return "", nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	return filepath.Join(dir, "payments.db"), func() { os.RemoveAll(dir) }, nil
}
