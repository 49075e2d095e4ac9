package idem

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/idem-go/idem/backend"
)

// Response is what a record stores of an answer. A value of this type is stored
// as it is, any other as JSON.
type Response = backend.Response

// Result is what a call gives its caller: the same for the first and for every
// retry but for Replayed. The first caller gets the effect's own value, retries
// what encoding/json makes of it: fields that are not exported are lost, and an int
// in an interface comes back as a float64.
type Result[V any] struct {
	Value    V
	Replayed bool // the effect did not run in this call
	Attempt  int  // which try of the request gave the answer, from 1
}

func encode[V any](v V) (Response, error) {
	if r, ok := any(v).(Response); ok {
		if r.Status < 0 || r.Status > backend.MaxStatus {
			return Response{}, invalidValue("has a status that can't be stored", nil)
		}
		return r, nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		return Response{}, invalidValue("does not encode as JSON", err)
	}
	return Response{Body: body}, nil
}

func decode[V any](r Response) (v V, err error) {
	if p, ok := any(&v).(*Response); ok {
		*p = r
		return v, nil
	}
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return v, invalidValue("stored for this key does not decode into this type", unquoted{err})
	}
	return v, nil
}

// unquoted keeps the text of an error out of ours: it quotes the stored value.
type unquoted struct{ err error }

func (u unquoted) Error() string { return fmt.Sprintf("%T", u.err) }
func (u unquoted) Unwrap() error { return u.err }

func invalidValue(what string, err error) error {
	return &backend.Error{Op: "idem: result", Kind: ErrInvalid, Err: err, Hint: fmt.Sprintf("the value %s", what)}
}

// rejection carries an answer through the error of an effect.
type rejection[V any] struct{ value V }

func (*rejection[V]) Error() string { return "idem: rejected" }

// Reject returns an error with which an effect refuses its request for good: its
// writes are undone (on the transaction path; on the leased path there is no
// undo), and answer is stored and replayed like any other. V must be the type
// the effect returns. Use it for refusals that a retry must not turn into a
// success, such as an insufficient balance.
func Reject[V any](answer V) error { return &rejection[V]{answer} }

func isRejection(err error) bool {
	var r interface{ rejected() }
	return errors.As(err, &r)
}

func (*rejection[V]) rejected() {}

// settle gives the value that an effect's return stands for: what it returned or
// what it was rejected with, and whether its writes are to be undone.
func settle[V any](v V, err error) (_ V, undo bool, _ error) {
	if err == nil {
		return v, false, nil
	}
	if r, ok := errors.AsType[*rejection[V]](err); ok {
		return r.value, true, nil
	}
	if isRejection(err) {
		return v, false, invalid("the answer given to Reject is of another type than the effect's")
	}
	return v, false, err
}

// doneError marks what an effect's error says about its doing.
type doneError struct {
	error
	maybe bool
}

func (e *doneError) Unwrap() error { return e.error }

// NotDone marks an error of an effect that surely did nothing, so that the key
// is free again at once. It is what an error means anyway.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return &doneError{err, false}
}

// MaybeDone marks an error of an effect under a lease that may have done its work
// all the same, such as a timeout of a call to somebody else's system. The record
// stays as it is, and the next try takes it over when the lease is over. Without it
// a retry may run beside what the effect set off. In a transaction it changes
// nothing: that is rolled back.
func MaybeDone(err error) error {
	if err == nil {
		return nil
	}
	return &doneError{err, true}
}

func maybeDone(err error) bool {
	var d *doneError
	return errors.As(err, &d) && d.maybe
}

func notDone(err error) bool {
	var d *doneError
	return errors.As(err, &d) && !d.maybe
}
