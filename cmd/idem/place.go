package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// place is where a DSN leads.
type place interface {
	// String names the place without its password.
	String() string

	// open gives the backend on the records there, and what closes it.
	open(ctx context.Context) (backend.Backend, func(), error)

	// lab makes a namespace there for the cases of the suite. Its error says that
	// nothing was made.
	lab(ctx context.Context) (*lab, error)
}

// locate reads a DSN. Its errors, and those of all places, don't repeat it: it may
// have a password in it.
func locate(dsn string, o options) (place, error) {
	scheme, rest, _ := strings.Cut(dsn, ":")
	if scheme != "sqlite" && strings.Contains(behindHost(rest), "@") {
		// The parsers would take a part of the password for a database or an option.
		return nil, errors.New("there is an @ behind the host: special characters must be percent-encoded (/ is %2F, ? is %3F, # is %23, @ is %40)")
	}
	var p place
	var err error
	switch scheme {
	case "postgres", "postgresql":
		p, err = locatePostgres(dsn, o)
		err = errors.Join(err, o.refuse("prefix"))
	case "redis", "rediss":
		p, err = locateRedis(dsn, o)
		err = errors.Join(err, o.refuse("table", "schema"))
	case "etcd":
		p, err = locateEtcd(rest, o)
		err = errors.Join(err, o.refuse("table", "schema"))
	case "sqlite":
		p, err = locateSQLite(rest, o)
		err = errors.Join(err, o.refuse("schema", "prefix"))
	case "memory":
		p = memoryPlace{}
		err = o.refuse("table", "schema", "prefix")
	default:
		err = errors.New("a DSN begins with memory:, sqlite:, postgres://, postgresql://, redis://, rediss:// or etcd://")
	}
	return p, err
}

// behindHost is the path of a URL without its scheme, and what follows.
func behindHost(rest string) string {
	rest = strings.TrimPrefix(rest, "//")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[i:]
	}
	return ""
}

// cantAsk is the error of a server that does not answer as it should.
func cantAsk(p place, err error) error {
	return fmt.Errorf("%v can't be asked: %w; is it running, and are address, user and password right?", p, err)
}

// explain adds that to an error of a backend that says no more than that the store
// is not available.
func explain(p place, err error) error {
	var e *backend.Error
	if errors.As(err, &e) && errors.Is(e.Kind, backend.ErrUnavailable) && e.Hint == "" {
		return cantAsk(p, err)
	}
	return err
}

// refuse returns an error if one of these flags was given: the store has no use for
// it, so that something else was meant.
func (o options) refuse(names ...string) error {
	for _, name := range names {
		if map[string]string{"table": o.table, "schema": o.schema, "prefix": o.prefix}[name] != "" {
			return fmt.Errorf("-%s means nothing to this kind of store", name)
		}
	}
	return nil
}

// within calls a function that knows no context, and gives up on it after a while.
func within(d time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
