package backend

import (
	"context"
	"time"
)

// Backend is a store of idempotency records. See the package comment for what
// every method owes its caller.
type Backend interface {
	// Claim is the one atomic step that creates a record or takes a lapsed one
	// over. It compares the request with the record before anything else; a
	// claim that does not match changes nothing. Claiming again with the same
	// claim id is answered as the first time, so that a lost reply never locks a
	// caller out of its own record.
	//
	// Claim waits for a transaction of somebody else that holds the key for at
	// most c.Wait and then reports it (Claimed.Hidden).
	Claim(ctx context.Context, c Claim) (Claimed, error)

	// Renew extends the lease to ttl from now, by the store's clock. It never
	// shortens one. On a record that its own claim has completed it does nothing.
	Renew(ctx context.Context, l Lease, ttl time.Duration) error

	// Checkpoint stores a recovery point and the state that belongs to it. A
	// write with a lower sequence than the record's is a late one and changes
	// nothing; an equal one is a retry: nil if the content is equal, else
	// ErrConflict.
	Checkpoint(ctx context.Context, l Lease, c Checkpoint) error

	// Complete stores the response and ends the run. The retention given with the
	// claim counts from here. Completing again with the same response is a no-op,
	// with another one ErrConflict. Where a sweep has taken the response there is none
	// to compare with, and any is a no-op.
	Complete(ctx context.Context, l Lease, c Completion) error

	// Release gives the claim up after a failure. Before the first recovery point
	// the record goes away; after it the record stays and its lease ends at once.
	// Releasing what is completed, released or gone is a no-op.
	Release(ctx context.Context, l Lease) error

	// Get returns the record as it is stored, or ErrNotFound. A completed record
	// whose retention is over may still be returned, and with its response, until a
	// sweep comes by (Record.ExpiresAt) or the store takes it. What a claim finds does
	// not depend on that.
	Get(ctx context.Context, k Key) (Record, error)

	// Sweep removes records whose time is over and the responses of those that are only
	// remembered, at most limit of them, and returns how many it changed. Less than limit means there is nothing left to
	// do. Any number of processes may sweep at once, also during claims: a record
	// that is alive is never removed. What the store deletes by itself is not
	// counted.
	Sweep(ctx context.Context, limit int) (int, error)

	// Describe asks the server what it is and what it can promise.
	Describe(ctx context.Context) (Description, error)
}

// Waiter is implemented by backends whose store tells of changes by itself, so that
// a duplicate need not ask again and again whether the first run has ended.
type Waiter interface {
	Backend

	// Await returns nil when the key may be held no more: its record was completed or
	// released, its lease ended, or it has none. What happened before the call counts,
	// so that nothing is missed between a claim and the wait for its key. It may return
	// for no reason; a claim decides what is so. No write is needed to end it but the
	// one that it tells of, and it changes nothing.
	//
	// An error says that the store can't tell, now or any more: the caller asks with
	// claims, at a pace of its own. It bounds the wait with ctx, since a store that is
	// cut off tells nothing. Many may wait for one key at once, and for many keys.
	Await(ctx context.Context, k Key) error
}

// Transactor is implemented by backends that can commit a record and the
// caller's own writes together. T is the driver's transaction, pgx.Tx or
// *sql.Tx.
type Transactor[T any] interface {
	Backend

	// Transact claims, runs the effect and completes in one transaction. If the
	// claim is not acquired the effect is not called and the record returned as
	// it stands. If the effect fails, everything is rolled back, the claim too,
	// and its error returned as it is.
	//
	// ErrRetryTx says that the transaction is surely rolled back and may be run
	// again as a whole, the effect included. After any error that is not
	// NotApplied the COMMIT may have happened: the caller finds out by another
	// Transact with the same claim id, which waits for the first and then either
	// returns the record it completed (same claim id) or runs the effect.
	//
	// The effect runs under a context that ends when the store could no longer
	// hold the record for it. It must not end the transaction itself.
	Transact(ctx context.Context, c Claim, effect func(ctx context.Context, tx T, held Claimed) (Effect, error)) (Claimed, error)

	// InLease runs one step of a claimed record as a transaction: it locks the
	// record, compares claim id, token and sequence, runs the step and commits its
	// writes together with the recovery point or the response that it returns.
	// If a step with this sequence is already stored, the step is not run again
	// and the record returned as it is. A holder that lost its lease gets
	// ErrLeaseLost before the step runs. Errors are those of Transact; an unknown
	// outcome is resolved by calling InLease again with the same sequence.
	InLease(ctx context.Context, l Lease, seq Sequence, step func(ctx context.Context, tx T) (Step, error)) (Record, error)

	// Bind gives the operations that a transaction of the caller's own can
	// contain.
	Bind(tx T) TxView
}

// TxView is a record's side of a transaction that the caller owns: it begins
// and ends it, and nothing done here is true before its COMMIT. A TxView is not
// for concurrent use. It never renews, commits or rolls back the transaction.
//
// After ErrLeaseLost or ErrConflict the caller has to roll back: what it did on the
// strength of the lease must not be committed. PostgreSQL sees to that, SQLite has
// no means to.
type TxView interface {
	// Claim is Backend.Claim within the transaction. Acquired, it sets a savepoint
	// that Undo returns to. ErrRetryTx: the transaction must be run again.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	Get(ctx context.Context, k Key) (Record, error)
	Checkpoint(ctx context.Context, l Lease, c Checkpoint) error
	Complete(ctx context.Context, l Lease, c Completion) error
	// Undo takes back what the transaction did after the last Claim that was
	// acquired, and keeps that claim.
	Undo(ctx context.Context) error
}
