package idemhttp

import (
	"context"
	"net/http"

	"github.com/idem-go/idem"
)

// ScopeFunc says whose key a request's key is, from what authentication found out.
// It must not trust anything that the client can choose. An error or an empty part
// is a mistake of the server, since requests that nobody is known for have to be
// refused before they get here: it is answered with 500, and the handler does not
// run.
type ScopeFunc func(*http.Request) (idem.Scope, error)

// Middleware runs handlers under a lease of the request's key. It is safe for
// concurrent use.
type Middleware struct {
	ex  *idem.Executor
	cfg *config
}

// New returns middleware for effects outside of the database, on any backend. A
// nil executor or scope and options that make no sense are idem.ErrInvalid.
func New(ex *idem.Executor, scope ScopeFunc, opts ...Option) (*Middleware, error) {
	if ex == nil {
		return nil, invalid("the executor is nil")
	}
	cfg, err := newConfig(scope, opts)
	if err != nil {
		return nil, err
	}
	return &Middleware{ex: ex, cfg: cfg}, nil
}

// Wrap returns a handler that runs next once per key. [RunFrom] gives next the run
// that it is in.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	if next == nil {
		panic("idemhttp: Wrap(nil)")
	}
	return &handler{cfg: m.cfg, pass: next, run: m.run, next: func(w http.ResponseWriter, r *http.Request, _ *attempt) {
		next.ServeHTTP(w, r)
	}}
}

func (m *Middleware) run(ctx context.Context, req idem.Request, x *exchange) (idem.Result[idem.Response], error) {
	return idem.Do(ctx, m.ex, req, func(ctx context.Context, run *idem.Run) (idem.Response, error) {
		return x.attempt(ctx, run, nil)
	})
}

// TxMiddleware runs handlers in the transaction that claims the request's key and
// stores the answer. It is safe for concurrent use.
type TxMiddleware[T any] struct {
	ex  *idem.TxExecutor[T]
	cfg *config
}

// NewTx returns middleware for effects in the database that keeps the records. The
// handler's transaction must not be ended by it, and may be rolled back and the handler
// run again where the database asks for it (see [Transient]). Its context ends when the
// lease would.
func NewTx[T any](ex *idem.TxExecutor[T], scope ScopeFunc, opts ...Option) (*TxMiddleware[T], error) {
	if ex == nil {
		return nil, invalid("the executor is nil")
	}
	cfg, err := newConfig(scope, opts)
	switch {
	case err != nil:
		return nil, err
	case cfg.streaming:
		return nil, invalid("nothing can leave before the transaction is committed: WithStreaming is for New")
	}
	return &TxMiddleware[T]{ex: ex, cfg: cfg}, nil
}

// Wrap returns a handler that runs next once per key. [Tx] gives next the
// transaction that it is in; there is none for requests that the middleware lets
// through as they are, of other methods or with [Optional] without a key.
func (m *TxMiddleware[T]) Wrap(next http.Handler) http.Handler {
	if next == nil {
		panic("idemhttp: Wrap(nil)")
	}
	return &handler{cfg: m.cfg, pass: next, run: m.run, next: func(w http.ResponseWriter, r *http.Request, _ *attempt) {
		next.ServeHTTP(w, r)
	}}
}

// WrapFunc is Wrap for a handler that can't do without its transaction. Requests of
// other methods get 405 Method Not Allowed, and a key is required whatever
// [Optional] says.
func (m *TxMiddleware[T]) WrapFunc(next func(w http.ResponseWriter, r *http.Request, tx T)) http.Handler {
	if next == nil {
		panic("idemhttp: WrapFunc(nil)")
	}
	return &handler{cfg: m.cfg, run: m.run, next: func(w http.ResponseWriter, r *http.Request, a *attempt) {
		next(w, r, a.tx.(T))
	}}
}

func (m *TxMiddleware[T]) run(ctx context.Context, req idem.Request, x *exchange) (idem.Result[idem.Response], error) {
	return idem.DoTx(ctx, m.ex, req, func(ctx context.Context, tx T) (idem.Response, error) {
		resp, err := x.attempt(ctx, nil, tx)
		if err == nil && resp.Status >= http.StatusBadRequest {
			return idem.Response{}, idem.Reject(resp)
		}
		return resp, err
	})
}
