package idemhttp

import (
	"context"
	"net/http"

	"github.com/idem-go/idem"
)

// attempt is one run of the handler, and its context.
type attempt struct {
	context.Context
	x    *exchange
	run  *idem.Run // on the leased path
	tx   any       // on the transaction path
	rec  recorder
	body bodyReader

	verdict verdict
	cause   error // of a transient answer
}

// verdict is what the handler says about storing its answer.
type verdict uint8

const (
	byStatus verdict = iota
	transient
	final
)

type attemptKey struct{}

// Value makes the attempt known to what the handler calls.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// RunFrom returns the run that the handler is in, on the leased path: with it the
// handler can go in steps (idem.Phase, idem.PhaseTx, idem.Call). The error of a step is
// passed on with [Transient], and nothing is written.
//
// A handler that ends with idem.CompleteTx gives that an answer made by [NewAnswer].
// The middleware sends it; what the handler writes itself is dropped.
func RunFrom(ctx context.Context) (*idem.Run, bool) {
	for a := attemptOf(ctx); a != nil; a = attemptOf(a.Context) {
		if a.run != nil {
			return a.run, true
		}
	}
	return nil, false
}

// Tx returns the transaction that the handler is in, on the transaction path: its
// writes are committed together with its answer. It must not be ended.
func Tx[T any](ctx context.Context) (tx T, ok bool) {
	for a := attemptOf(ctx); a != nil; a = attemptOf(a.Context) {
		if tx, ok = a.tx.(T); ok {
			return tx, true
		}
	}
	return tx, false
}

// Transient says that the handler's answer is not to be stored, whatever its
// status: the next try runs the handler again. cause is why, and may be nil. If there
// is one and the handler has written nothing, the client gets the problem that it is:
// so a handler says no more than Transient(ctx, err) of an error that it has no answer
// to, and returns. On the
// transaction path everything is rolled back, and a cause that is the database's
// wish to run the transaction again (a serialization failure, a deadlock) has the
// handler run again at once. On the leased path idem.MaybeDone(cause) keeps the key
// taken until the lease is over. Outside of the middleware it does nothing.
func Transient(ctx context.Context, cause error) {
	if a := attemptOf(ctx); a != nil {
		a.verdict, a.cause = transient, cause
	}
}

// Final says that the handler's answer is to be stored, whatever its status: the
// handler does not run again. Outside of the middleware it does nothing.
func Final(ctx context.Context) {
	if a := attemptOf(ctx); a != nil {
		a.verdict, a.cause = final, nil
	}
}

func (a *attempt) stores(status int) bool {
	if a.verdict == byStatus {
		return a.x.h.cfg.stored(status)
	}
	return a.verdict == final
}

// failed is how a handler leaves the run that has an error and no answer.
type failed struct{ cause error }

func (f *failed) Error() string { return "idemhttp: the handler failed: " + f.cause.Error() }
func (f *failed) Unwrap() error { return f.cause }

// unstored is how an answer that is not stored leaves the run.
type unstored struct {
	attempt *attempt
	resp    idem.Response
}

func (*unstored) Error() string   { return "idemhttp: the handler's answer is not stored" }
func (u *unstored) Unwrap() error { return u.attempt.cause }

// attempt runs the handler.
func (x *exchange) attempt(ctx context.Context, run *idem.Run, tx any) (idem.Response, error) {
	a := &x.first
	if x.last != nil { // the database wanted the transaction to be run again
		a = new(attempt)
	}
	*a = attempt{Context: ctx, x: x, run: run, tx: tx}
	a.rec = recorder{attempt: a, w: x.w, header: make(http.Header)}
	x.last = a
	r := x.r.WithContext(a)
	if len(x.body) > 0 {
		a.body.Reset(x.body)
		r.Body = &a.body
	} else {
		r.Body = http.NoBody
	}
	// The server removes the files of its own request, which this one is a copy of.
	defer func() {
		if f := r.MultipartForm; f != nil && f != x.r.MultipartForm {
			_ = f.RemoveAll()
		}
	}()
	if x.h.cfg.streaming {
		x.h.next(stream{&a.rec}, r, a)
	} else {
		x.h.next(&a.rec, r, a)
	}
	return a.answer()
}

func (a *attempt) answer() (idem.Response, error) {
	if a.rec.err != nil {
		return idem.Response{}, a.rec.err
	}
	if a.run != nil && !a.rec.live {
		if stored, ok := a.run.Answer(); ok {
			a.rec.split.once = nil // of an answer that nobody gets
			return stored, nil
		}
	}
	if a.cause != nil && a.rec.status == 0 {
		return idem.Response{}, &failed{a.cause}
	}
	resp := a.rec.response()
	if !a.rec.live && !a.stores(resp.Status) {
		return idem.Response{}, &unstored{attempt: a, resp: resp}
	}
	return resp, nil
}
