// Package idem makes retries safe: exactly-once effects over at-least-once
// networks.
//
// An idempotency key names one intent of a user. The first request with it runs,
// every retry gets the same answer, of two at once only one ever completes, and
// a crash in the middle is taken over when the lease of the dead run is over.
//
// # Two paths
//
// [DoTx] is the path to aim at. One database transaction holds the claim of the
// key, the effect and the response; they commit together or not at all, so the
// effect happens exactly once whatever crashes. It needs a backend that is a
// [backend.Transactor]: postgres or sqlite. [DoIn] is the same inside a
// transaction that the caller owns.
//
// [Do] is for effects outside of the database. A lease holds the key while the
// effect runs and is renewed until it ends; the response is stored after it. A
// process that dies between the two leaves a record whose lease lapses, and the
// next retry runs the effect again: at least once. There is no undo on this path.
//
// # Steps
//
// An effect under a lease can be made of steps ([Phase], [PhaseTx], [Call]) whose
// results are stored as they are done. The next run goes on behind the last of them,
// so that what is run again after a crash is one step and not all.
//
//	step                            crash in the middle of it
//	Phase                           runs again: at least once
//	PhaseTx, CompleteTx             exactly once: it commits with its recovery point
//	Call                            sent again under the same downstream key: once, if
//	                                the far side knows keys
//	Call with Inquire               the far side is asked: once
//	Call, Once without Inquire      a person is asked: at most once
//
// A [Completer] runs what died and whose client never came back.
//
// # What a caller gets
//
//	record                            result
//	none, or remembered no more       the effect runs; its value, Replayed false
//	completed, same request           the stored value, Replayed true
//	held by a run that is alive       [InProgressError], with RetryAfter
//	of another request                [MismatchError], which says what differs
//	held by a run that died           the effect runs again, behind its last recovery
//	                                  point; Attempt counts
//	left by code with other steps     [ErrRecoveryPoint]; nothing ran
//	completed without an answer       [TombstoneError]; it never runs again
//	retention over, remembered        [TombstoneError] with the reason [backend.Expired];
//	                                  it does not run again
//	completed, can't be opened here   [ErrSealed]; it never runs again ([WithSealer])
//	waits for a person                [ErrNeedsResolution]
//	the store can't be asked          [ErrUnavailable]; the effect did not run, or its
//	                                  transaction was rolled back
//	the effect ran, not stored        [ErrUnknownOutcome]; retry with the same key
//
// A completed record is remembered for the retention ([WithRetention]), with its answer, and
// then without it ([WithRemember], 0 by default). After that the key is free.
//
// # Scope
//
// A key belongs to a tenant and an actor, always: they are part of its identity,
// and a request without them is refused. A key of one user never finds a record
// of another.
//
// # The machine
//
// What a record becomes when a message arrives is one pure function in package
// backend/machine. What its answers mean for a caller is in outcome.go.
package idem

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/idem-go/idem/backend"
)

// Executor runs effects under a lease, on any backend. It is safe for concurrent
// use; a process needs one per backend and set of options.
type Executor struct {
	b       backend.Backend
	cfg     config
	flights flights
	beat    *heartbeat

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // calls, and what they left to do
}

// New returns an executor on b. It does no I/O: ask Check whether the server
// keeps what the backend promises. Options that contradict each other and a nil
// backend are ErrInvalid.
func New(b backend.Backend, opts ...Option) (*Executor, error) {
	if isNil(b) {
		return nil, invalid("the backend is nil")
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return &Executor{b: b, cfg: cfg, beat: newHeartbeat(b)}, nil
}

// isNil also finds the nil pointer of a backend whose constructor's error was not
// looked at.
func isNil(b backend.Backend) bool {
	if b == nil {
		return true
	}
	v := reflect.ValueOf(b)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// TxExecutor runs effects in the transaction that completes their record. It is
// an Executor as well, for the effects that can't be.
type TxExecutor[T any] struct {
	*Executor
	tx backend.Transactor[T]
}

// NewTx is New for a backend with transactions. T is inferred from it.
func NewTx[T any](b backend.Transactor[T], opts ...Option) (*TxExecutor[T], error) {
	ex, err := New(b, opts...)
	if err != nil {
		return nil, err
	}
	return &TxExecutor[T]{Executor: ex, tx: b}, nil
}

// Check asks the server to describe itself and returns a [FindingsError] if it
// breaks a promise that the library makes: a schema that is missing or too old, a
// setting that loses acknowledged writes. Call it once at start.
func (e *Executor) Check(ctx context.Context) error {
	d, err := e.b.Describe(ctx)
	if err != nil {
		return err
	}
	var unsafe []backend.Finding
	for _, f := range d.Findings {
		if f.Severity == backend.Unsafe {
			unsafe = append(unsafe, f)
		}
	}
	if len(unsafe) > 0 {
		return &FindingsError{Findings: unsafe}
	}
	return nil
}

// Close refuses new calls with ErrUnavailable and waits for the running ones, at
// most until ctx ends. The backend stays open; it is the caller's. Closing twice
// is allowed.
func (e *Executor) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		e.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("idem: close: calls are still running: %w", context.Cause(ctx))
	}
}

// enter counts a call as running until e.running.Done is called.
func (e *Executor) enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return &backend.Error{Op: "idem", Kind: ErrUnavailable, Err: errors.New("the executor is closed")}
	}
	e.running.Add(1)
	return nil
}
