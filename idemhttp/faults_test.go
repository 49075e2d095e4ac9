package idemhttp

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/memory"
)

var errDown = errors.New("connection refused")

// shaky is a store that a test can take down.
type shaky struct {
	backend.Backend
	claims    atomic.Pointer[error] // what every claim ends with
	completes atomic.Pointer[error]
	gets      atomic.Pointer[error]
	applies   bool // completions are done, and then their answer is lost
}

func newShaky() *shaky { return &shaky{Backend: memory.New()} }

func fail(at *atomic.Pointer[error], err error) { at.Store(&err) }

func failure(at *atomic.Pointer[error]) error {
	if err := at.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *shaky) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	if err := failure(&s.claims); err != nil {
		return backend.Claimed{}, err
	}
	return s.Backend.Claim(ctx, c)
}

func (s *shaky) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	err := failure(&s.completes)
	if err == nil || s.applies {
		if applied := s.Backend.Complete(ctx, l, c); err == nil {
			return applied
		}
	}
	return err
}

func (s *shaky) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	if err := failure(&s.gets); err != nil {
		return backend.Record{}, err
	}
	return s.Backend.Get(ctx, k)
}

// transactor is a store with transactions that a test can interfere with.
type transactor struct {
	backend.Transactor[*sql.Tx]
	transact func(inner func(effect) (backend.Claimed, error), e effect) (backend.Claimed, error)
}

type effect = func(context.Context, *sql.Tx, backend.Claimed) (backend.Effect, error)

func (b *transactor) Transact(ctx context.Context, c backend.Claim, e effect) (backend.Claimed, error) {
	return b.transact(func(e effect) (backend.Claimed, error) { return b.Transactor.Transact(ctx, c, e) }, e)
}

// interfere makes a setup whose transactions go through f.
func interfere(f func(inner func(effect) (backend.Claimed, error), e effect) (backend.Claimed, error)) func(backend.Transactor[*sql.Tx]) backend.Transactor[*sql.Tx] {
	return func(b backend.Transactor[*sql.Tx]) backend.Transactor[*sql.Tx] {
		return &transactor{Transactor: b, transact: f}
	}
}

func unavailableError() error {
	return &backend.Error{Op: "test", Kind: backend.ErrUnavailable, Err: errDown}
}

func maybeError() error { return &backend.Error{Op: "test", Err: errDown} }

// field report 21: the store is down, so the handler does not run.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]error{"unavailable": unavailableError(), "no answer": maybeError()} {
		t.Run("leased/"+name, func(t *testing.T) {
			t.Parallel()
			b := newShaky()
			fail(&b.claims, down)
			h, ran := runs(created)
			s := leased(t, setup{backend: b}, h)
			r := send(t, s, withKey(key1))
			checkProblem(t, "request", r, unavailable)
			if n := ran.Load(); n != 0 {
				t.Errorf("the handler ran %d times, want 0", n)
			}
			if errs := s.failures(); len(errs) != 1 || !errors.Is(errs[0], errDown) {
				t.Errorf("errors = %v, want the driver's", errs)
			}
			b.claims.Store(nil)
			if r := send(t, s, withKey(key1)); r.status != http.StatusCreated {
				t.Errorf("retry when the store is back = %d, want 201", r.status)
			}
		})
		t.Run("transaction/"+name, func(t *testing.T) {
			t.Parallel()
			h, ran := runs(created)
			s := transacted(t, setup{tx: interfere(func(func(effect) (backend.Claimed, error), effect) (backend.Claimed, error) {
				return backend.Claimed{}, down
			})}, h)
			checkProblem(t, "request", send(t, s, withKey(key1)), unavailable)
			if n := ran.Load(); n != 0 {
				t.Errorf("the handler ran %d times, want 0", n)
			}
		})
	}
}

// field report 21: the store goes down after the effect. The client learns that
// the outcome is unknown, and a retry finds it out.
func TestStoreDownAfterTheEffect(t *testing.T) {
	t.Parallel()
	const lease = 200 * time.Millisecond
	for name, applies := range map[string]bool{"completed, answer lost": true, "not completed": false} {
		t.Run("leased/"+name, func(t *testing.T) {
			t.Parallel()
			b := newShaky()
			b.applies = applies
			fail(&b.completes, maybeError())
			fail(&b.gets, unavailableError())
			h, ran := runs(created)
			s := leased(t, setup{backend: b, executor: []idem.Option{idem.WithLease(lease)}}, h)
			checkProblem(t, "request", send(t, s, withKey(key1)), unknownOutcome)

			b.completes.Store(nil)
			b.gets.Store(nil)
			var r reply
			for r = send(t, s, withKey(key1)); r.status == http.StatusConflict; r = send(t, s, withKey(key1)) {
				checkProblem(t, "retry before the lease is over", r, inProgress)
			}
			if r.status != http.StatusCreated || r.body != "order 1" {
				t.Errorf("retry = %d %q, want 201", r.status, r.body)
			}
			// At least once on this path: what was not stored runs again.
			want := map[bool]int32{true: 1, false: 2}[applies]
			if n := ran.Load(); n != want {
				t.Errorf("the handler ran %d times, want %d", n, want)
			}
		})
	}

	t.Run("transaction/committed, answer lost", func(t *testing.T) {
		t.Parallel()
		var lost, healed atomic.Bool
		h, ran := runs(created)
		s := transacted(t, setup{
			executor: []idem.Option{idem.WithLease(lease)},
			tx: interfere(func(inner func(effect) (backend.Claimed, error), e effect) (backend.Claimed, error) {
				switch {
				case healed.Load():
					return inner(e)
				case lost.Load():
					return backend.Claimed{}, unavailableError()
				}
				lost.Store(true)
				_, _ = inner(e)
				return backend.Claimed{}, maybeError()
			}),
		}, h)
		checkProblem(t, "request", send(t, s, withKey(key1)), unknownOutcome)
		healed.Store(true)
		r := send(t, s, withKey(key1))
		if r.status != http.StatusCreated || r.header.Get(replayedHeader) != "true" {
			t.Errorf("retry = %d %q, want the replay of 201", r.status, r.head)
		}
		if n := ran.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want 1", n)
		}
	})

	t.Run("transaction/committed, answer lost, found out at once", func(t *testing.T) {
		t.Parallel()
		var lost atomic.Bool
		h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			created(w, r)
		})
		s := transacted(t, setup{tx: interfere(func(inner func(effect) (backend.Claimed, error), e effect) (backend.Claimed, error) {
			got, err := inner(e)
			if !lost.Swap(true) {
				return backend.Claimed{}, maybeError()
			}
			return got, err
		})}, h)
		r := send(t, s, withKey(key1))
		if r.status != http.StatusCreated || r.header.Get(replayedHeader) != "" || r.header.Get("Set-Cookie") == "" {
			t.Errorf("request = %d %q, want the first answer, with its cookie", r.status, r.head)
		}
		if n := ran.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want 1", n)
		}
	})
}

// hard case 10: the handler runs again after a proven rollback, with its whole
// body and an answer of its own.
func TestTransactionRunAgain(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]struct {
		handle http.HandlerFunc
		again  error // what the first Transact ends with
	}{
		"at the commit": {handle: created, again: &backend.Error{Op: "test", Kind: backend.ErrRetryTx}},
		"said by the handler": {handle: func(w http.ResponseWriter, r *http.Request) {
			if w.Header().Get("X-Try") == "1" {
				Transient(r.Context(), backend.ErrRetryTx)
				http.Error(w, "try again", http.StatusInternalServerError)
				return
			}
			created(w, r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tries++
				tx, ok := Tx[*sql.Tx](r.Context())
				if !ok {
					t.Error("Tx() = none, want the transaction")
					return
				}
				if _, err := tx.ExecContext(r.Context(), "INSERT INTO effects VALUES ('order')"); err != nil {
					t.Error(err)
				}
				if body := readAll(t, r); body != "hello" {
					t.Errorf("body of try %d = %q, want all of it", tries, body)
				}
				if tries == 1 {
					w.Header().Set("X-Try", "1")
				}
				run.handle(w, r)
			})
			var refused atomic.Bool
			db := openDB(t)
			s := transactedOn(t, db, setup{tx: interfere(func(inner func(effect) (backend.Claimed, error), e effect) (backend.Claimed, error) {
				if run.again == nil || refused.Swap(true) {
					return inner(e)
				}
				_, err := inner(func(ctx context.Context, tx *sql.Tx, c backend.Claimed) (backend.Effect, error) {
					_, _ = e(ctx, tx, c)
					return backend.Effect{}, run.again // the savepoint of a rollback
				})
				return backend.Claimed{}, err
			})}, h)
			q := withKey(key1)
			q.body = "hello"
			r := send(t, s, q)
			if r.status != http.StatusCreated || r.header.Get("X-Try") != "" {
				t.Errorf("request = %d %q, want the answer of the second try alone", r.status, r.head)
			}
			if n := count(t, db); tries != 2 || n != 1 {
				t.Errorf("%d tries left %d effects, want 2 and 1", tries, n)
			}
		})
	}
}

// hard case 30, field report 20: on the transaction path, what is not stored is rolled
// back, a stored refusal undoes its writes, and every other answer commits them.
func TestTransactionEffects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle  http.HandlerFunc
		effects int // after two requests
		runs    int32
	}{
		"201":     {created, 1, 1},
		"303":     {status(http.StatusSeeOther), 1, 1},
		"402":     {status(http.StatusPaymentRequired), 0, 1},
		"409":     {status(http.StatusConflict), 0, 1},
		"429":     {status(http.StatusTooManyRequests), 0, 2},
		"503":     {status(http.StatusServiceUnavailable), 0, 2},
		"panic":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, 2},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, 1, 1},
		"final 500": {func(w http.ResponseWriter, r *http.Request) {
			Final(r.Context())
			w.WriteHeader(http.StatusInternalServerError)
		}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDB(t)
			h, ran := runs(func(w http.ResponseWriter, r *http.Request) {
				tx, _ := Tx[*sql.Tx](r.Context())
				if _, err := tx.ExecContext(r.Context(), "INSERT INTO effects VALUES ('order')"); err != nil {
					t.Error(err)
				}
				c.handle(w, r)
			})
			s := transactedOn(t, db, setup{}, h)
			first, retry := send(t, s, withKey(key1)), send(t, s, withKey(key1))
			if first.status != retry.status {
				t.Errorf("answers = %d and %d, want the same", first.status, retry.status)
			}
			if n, e := ran.Load(), count(t, db); n != c.runs || e != c.effects {
				t.Errorf("%d runs left %d effects, want %d and %d", n, e, c.runs, c.effects)
			}
		})
	}
}
