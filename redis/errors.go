package redis

import (
	"context"
	"errors"
	"net"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
)

const op = "redis: "

func invalid(hint string) error {
	return &backend.Error{Op: op + "new", Kind: backend.ErrInvalid, Hint: hint}
}

// unreadable is an answer that no script of this package gives.
func unreadable(what string) error {
	return &backend.Error{Op: op + what, Hint: "the server answered what no script of idem answers"}
}

// waitError is what WAIT ended with: the script has run.
type waitError struct{ error }

func (e *waitError) Unwrap() error { return e.error }

// callError gives the error of a script that may have been sent. nil stays nil,
// and so does what is an Error already.
func callError(ctx context.Context, what string, err error) error {
	var known *backend.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &backend.Error{Op: op + what, Err: err}
	var wait *waitError
	switch {
	case errors.As(err, &wait):
		e.Hint = "it is written and may be lost in a failover"
	case unsent(err), refused(err):
		e.Kind, e.Hint = backend.ErrUnavailable, hint(err)
	}
	if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		e.Err = errors.Join(context.Cause(ctx), err)
	}
	return e
}

// changesNothing gives the error of a call that only reads: whatever happened,
// nothing was changed.
func changesNothing(err error) error {
	var e *backend.Error
	if errors.As(err, &e) && e.Kind == nil {
		e.Kind = backend.ErrUnavailable
	}
	return err
}

// unsent reports whether err proves that the command never left: no connection
// could be made or had. Scripts are sent once only, so that there was no earlier
// try either.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) || errors.Is(err, goredis.ErrClosed)
}

// refused reports whether err is a reply that the server gives instead of running
// a script, or that the first command of a script gives. The word a reply begins
// with is its code (Redis manual, RESP protocol, simple errors); what follows is
// never looked at. ERR and NOPERM are not among them: a script can end with either
// after a write.
func refused(err error) bool {
	return elsewhere(err) ||
		slices.ContainsFunc([]func(error) bool{
			goredis.IsOOMError, goredis.IsLoadingError, goredis.IsReadOnlyError, goredis.IsClusterDownError,
			goredis.IsTryAgainError, goredis.IsMasterDownError, goredis.IsMaxClientsError,
			goredis.IsNoReplicasError, goredis.IsAuthError,
		}, func(is func(error) bool) bool { return is(err) }) ||
		slices.ContainsFunc([]string{"NOSCRIPT ", "BUSY ", "MISCONF ", wrongType}, func(code string) bool {
			return goredis.HasErrorPrefix(err, code)
		})
}

const wrongType = "WRONGTYPE "

// elsewhere reports whether another server has the key.
func elsewhere(err error) bool {
	_, moved := goredis.IsMovedError(err)
	_, ask := goredis.IsAskError(err)
	return moved || ask
}

func hint(err error) string {
	switch {
	case goredis.IsOOMError(err):
		return "the server's memory is full: raise maxmemory or shorten the retention; never evict"
	case goredis.IsReadOnlyError(err):
		return "this is a replica: connect to the primary"
	case goredis.IsNoReplicasError(err):
		return "fewer replicas are connected than min-replicas-to-write asks for"
	case goredis.HasErrorPrefix(err, wrongType):
		return "something else uses keys of this prefix: choose another with WithPrefix"
	}
	return ""
}

// validate reports whether the claim keeps the contract and asks for no more than this
// store can do. To ignore Remember would free a key that the caller takes for remembered.
func validate(c backend.Claim) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Remember > 0 {
		return &backend.Error{Op: op + "claim", Kind: backend.ErrInvalid, Hint: "this store forgets a completed record when its retention is over: leave out idem.WithRemember, or use a store that remembers"}
	}
	return nil
}
