package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/idem-go/idem/backend"
)

// txn is a write transaction that holds the file's lock. It ends with commit or
// rollback; rollback after either is a no-op.
type txn struct {
	Tx     *sql.Tx
	b      *Backend
	conn   *sql.Conn
	cancel context.CancelFunc
	ended  bool
}

// lock waits for the writers before it, in this process and in others, and
// begins a transaction. Errors say that nothing was done.
func (b *Backend) lock(ctx context.Context, op string) (*txn, error) {
	since := time.Now()
	if err := b.queue.enter(ctx, op, since); err != nil {
		return nil, err
	}
	b.queue.rest(ctx)
	leave := b.turn.pass(ctx)
	t, err := b.begin(ctx, op, since)
	leave()
	if err != nil {
		b.queue.leave()
		return nil, err
	}
	b.queue.progress()
	return t, nil
}

// begin tries until the transaction has begun. It gives up when the file was not
// written for the whole budget.
func (b *Backend) begin(ctx context.Context, op string, since time.Time) (*txn, error) {
	before := b.log.state()
	for poll := minPoll; ; poll = min(2*poll, maxPoll) {
		t, err := b.try(ctx, op, poll)
		if err == nil {
			return t, nil
		}
		if isBusy(err) || errors.Is(err, errLocked) {
			if now := b.log.state(); now != before {
				before = now
				b.queue.progress()
			}
			if b.queue.patience(since) > 0 && pause(ctx) {
				continue
			}
		}
		if ctx.Err() != nil {
			return nil, backend.ContextDone(ctx, op)
		}
		return nil, notApplied(op, err)
	}
}

// checkSync reads the pragma that durability hangs on; each connection has its
// own, and it can't change within a transaction.
func (b *Backend) checkSync(ctx context.Context, conn *sql.Conn, op string) error {
	var level int
	if err := conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return notApplied(op, err)
	}
	if level < syncNormal || level < syncFull && !b.cfg.normal {
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "a connection of the pool has synchronous below FULL; put _pragma=synchronous(FULL) into the DSN and don't change it afterwards"}
	}
	return nil
}

// How long one try of a BEGIN may take. SQLite's wait for a lock polls it, with
// pauses that grow to 100 ms; a process that writes again and again would not be
// caught between two of its transactions. Begun anew it polls every 1 or 2 ms. On a
// machine that is busy a BEGIN takes longer even where nobody holds the lock.
const minPoll, maxPoll = 4 * time.Millisecond, 64 * time.Millisecond

// errLocked ends a try, and in the end the whole wait.
var errLocked = errors.New("the file stayed locked by another write transaction")

// try begins the transaction once.
func (b *Backend) try(ctx context.Context, op string, poll time.Duration) (*txn, error) {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &txn{b: b, conn: conn}
	if err = b.checkSync(ctx, conn, op); err == nil {
		err = t.begin(ctx, poll)
	}
	if err == nil {
		return t, nil
	}
	if code(err) == codeGeneric {
		err = schemaError(ctx, conn, b.cfg.table, op, err)
	}
	conn.Close() // after the rollback, if there was something to roll back
	return nil, err
}

// begin waits for poll at most. database/sql rolls back when the context of
// BeginTx ends, which must not happen to a transaction that is under way: so it
// begins with a context that follows the caller's during the wait only.
func (t *txn) begin(ctx context.Context, poll time.Duration) error {
	tctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.cancel = cancel
	unfollow := context.AfterFunc(ctx, cancel)
	var over atomic.Bool // the wait, one way or the other
	timer := time.AfterFunc(poll, func() {
		if over.CompareAndSwap(false, true) {
			cancel()
		}
	})
	tx, err := t.conn.BeginTx(tctx, nil)
	if err == nil {
		t.Tx = tx
		_, err = t.ExecContext(tctx, t.b.sql.lock)
	}
	// From here on nothing but t.cancel ends the transaction's context. What has
	// started may end it at any time.
	followed, timed := unfollow(), over.CompareAndSwap(false, true)
	timer.Stop()
	// What database/sql says of a transaction that it rolls back depends on where it
	// was. SQLite's own errors mean what they say.
	if c := primary(err); c == 0 || c == lib.SQLITE_INTERRUPT {
		switch {
		case !followed:
			err = context.Cause(ctx)
		case !timed:
			err = errLocked
		}
	}
	if err != nil {
		cancel()
		if tx != nil {
			_ = tx.Rollback() // database/sql may have been faster
		}
	}
	return err
}

// commit ends the transaction for good.
func (t *txn) commit(op string) error {
	err := t.Tx.Commit()
	t.end()
	if err != nil {
		return commitError(op, err)
	}
	return nil
}

func (t *txn) rollback() {
	if t.ended {
		return
	}
	if err := t.Tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		// Whatever state the connection is in, nobody shall get it.
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	t.end()
}

func (t *txn) end() {
	t.ended = true
	t.cancel()
	t.conn.Close()
	t.b.queue.progress()
	t.b.queue.leave()
}

// explain is the error of a statement within a transaction that will be rolled
// back.
func (t *txn) explain(ctx context.Context, op string, err error) error {
	if code(err) == codeGeneric {
		return schemaError(ctx, t.Tx, t.b.cfg.table, op, err)
	}
	return notApplied(op, err)
}

// pause is a short sleep before the file's lock is tried again. It returns false
// if the context ended instead.
func pause(ctx context.Context) bool {
	t := time.NewTimer(200*time.Microsecond + rand.N(time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// savepoint runs one of SQLite's savepoint commands.
func savepoint(ctx context.Context, q querier, command string) error {
	if _, err := q.ExecContext(ctx, command); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}
