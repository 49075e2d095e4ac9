package backend

import (
	"context"
	"errors"
)

// What an operation can report besides its result. Test with errors.Is.
var (
	// ErrLeaseLost: the record is held by another claim, was released or is gone.
	// Nothing was changed.
	ErrLeaseLost = errors.New("lease lost")
	// ErrConflict: this claim already stored something else in this place.
	ErrConflict = errors.New("conflicting write of the same claim")
	// ErrInvalid: the call breaks the contract; it will never succeed as it is.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: the value exceeds what the store takes. Nothing was changed.
	ErrTooLarge = errors.New("too large")
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable: the store could not be asked and surely did nothing.
	ErrUnavailable = errors.New("unavailable")
	// ErrRetryTx: the transaction was or must be rolled back and can be run again
	// as a whole (serialization failure, deadlock). Nothing was changed.
	ErrRetryTx = errors.New("transaction must be run again")
)

// Error tells what an adapter was doing, what it means and what the driver said.
// It carries no part of a key, a request or a response.
type Error struct {
	Op   string // "postgres: claim"
	Kind error  // one of the sentinels; nil: the operation may have been applied
	Hint string // what to do about it; may be empty
	Err  error  // the driver's error; may be nil
}

func (e *Error) Error() string {
	s := e.Op
	if e.Kind != nil {
		s += ": " + e.Kind.Error()
	} else {
		s += ": outcome unknown"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap makes both the meaning and the driver's error reachable.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// NotApplied reports whether err proves that the operation left the store as it
// was. It is false for nil and for every error it does not know, a context's
// among them: those mean "maybe", and only the store can tell.
func NotApplied(err error) bool {
	for _, known := range []error{ErrUnavailable, ErrLeaseLost, ErrConflict, ErrInvalid, ErrTooLarge, ErrNotFound, ErrRetryTx} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// ContextDone returns the error of an operation that was never sent because its
// context had ended, or nil.
func ContextDone(ctx context.Context, op string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &Error{Op: op, Kind: ErrUnavailable, Err: context.Cause(ctx)}
}
