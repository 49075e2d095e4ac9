package conformance

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
)

// TxStore is an empty store whose transactions hold records and the effects of
// a caller together, and what the harness can do to it.
type TxStore[Tx any] struct {
	// Open returns a handle on the store, as Store.Open does.
	Open func(t T) TxHandle[Tx]

	// Put writes one row of an effect called name, within the transaction. It must
	// not end it, and returns the driver's error as it is.
	Put func(ctx context.Context, tx Tx, name string) error

	// Count returns the number of committed rows of the effect called name.
	Count func(ctx context.Context, name string) (int, error)

	// Advance moves the store's clock, as Store.Advance does. Optional.
	Advance func(d time.Duration)
}

// TxHandle is a backend and transactions of its own caller on the same pool.
type TxHandle[Tx any] struct {
	backend.Transactor[Tx]

	// InTx begins a transaction, calls f and commits. If f returns an error it
	// rolls back and returns that error as it is.
	InTx func(ctx context.Context, f func(tx Tx) error) error
}

// RunTx runs the cases for transactions as subtests of t. They come on top of
// those of [Run], and what is said there of newStore and of cases that are not
// run holds here too.
func RunTx[Tx any](t *testing.T, newStore func(t *testing.T) TxStore[Tx], opts ...Option) {
	runCases(t, txCases[Tx](), newStore, opts)
}

// CheckTx runs the cases for transactions without package testing, as [Check]
// does with the others.
func CheckTx[Tx any](ctx context.Context, newStore func(t T) TxStore[Tx], opts ...Option) *Report {
	return checkCases(ctx, txCases[Tx](), newStore, opts)
}

type txCase[Tx any] struct {
	scenario
	f func(e *txEnv[Tx])
}

func (c txCase[Tx]) start(r *recorder, s TxStore[Tx]) {
	plain := Store{Advance: s.Advance, Open: func(t T) backend.Backend { return s.Open(t) }}
	r.lacking(c.scenario, plain.powers())
	h := s.Open(r)
	c.f(&txEnv[Tx]{env: &env{T: r, rec: r, b: h, Store: plain}, tx: h, store: s})
}

func txRule[Tx any](id, text string, f func(e *txEnv[Tx])) txCase[Tx] {
	return txCase[Tx]{scenario{id: id, rule: text, bound: time.Minute}, f}
}

func txCases[Tx any]() []txCase[Tx] {
	return slices.Concat(transactCases[Tx](), inLeaseCases[Tx](), bindCases[Tx]())
}
