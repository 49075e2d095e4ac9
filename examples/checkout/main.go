// Checkout takes payments by a gateway that is somebody else's: no transaction of
// ours holds its charge.
//
//	go run ./examples/checkout
//
// starts a gateway, and the service in processes of its own that it kills at every
// step, retries as a customer would, prints what was expected and what was observed,
// then the books of both sides, and exits with status 0 only if every order was charged
// exactly once and every answer was right. The README has the flags.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("checkout: ")
	var o options
	flag.StringVar(&o.backend, "backend", "", "`database`: the path of a new SQLite file or a postgres:// URL (default: a temporary SQLite file)")
	flag.StringVar(&o.kill, "kill", "", "kill the service at this `step` only; an unknown one prints all")
	flag.BoolVar(&o.careless, "careless", false, "charge without idem.Call, to see it fail")
	flag.BoolVar(&o.verbose, "v", false, "print every try and its answer")
	flag.BoolVar(&o.service, "service", false, "be the service; the scenarios start it so")
	flag.StringVar(&o.gateway, "gateway", "", "with -service: `URL` of the gateway")
	flag.StringVar(&o.board, "board", "", "with -service: `URL` of the board")
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
	partners
	backend, kill    string
	verbose, service bool
}

func (o options) run(ctx context.Context) (passed bool, err error) {
	if o.service {
		return true, serve(ctx, o.backend, o.partners)
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
	d := newDemo(ctx, s.pool, dsn, os.Stdout)
	defer d.close()
	d.partners.careless, d.verbose = o.careless, o.verbose
	return d.playAll(ctx, o.kill)
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
	dir, err := os.MkdirTemp("", "checkout-")
	if err != nil {
		return "", nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	return filepath.Join(dir, "checkout.db"), func() { os.RemoveAll(dir) }, nil
}
