package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/idem-go/idem/backend"
)

// txn is a write transaction that holds the file's lock. It ends with commit or
// rollback; rollback after either is a no-op.
type txn struct {
	*sql.Tx
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
	t, err := b.begin(ctx, op, since)
	if err != nil {
		b.queue.leave()
		return nil, err
	}
	return t, nil
}

func (b *Backend) begin(ctx context.Context, op string, since time.Time) (*txn, error) {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return nil, notApplied(op, err)
	}
	t := &txn{b: b, conn: conn}
	if err := b.checkSync(ctx, conn, op); err != nil {
		conn.Close()
		return nil, err
	}
	for {
		err := t.try(ctx, b.queue.patience(since))
		if err == nil {
			return t, nil
		}
		if isBusy(err) && b.queue.patience(since) > 0 && pause(ctx) {
			continue
		}
		switch {
		case ctx.Err() != nil:
			err = backend.ContextDone(ctx, op)
		case code(err) == codeGeneric:
			err = schemaError(ctx, conn, b.cfg.table, op, err)
		default:
			err = notApplied(op, err)
		}
		conn.Close()
		return nil, err
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

// errBudget ends the wait of a BEGIN.
var errBudget = errors.New("the file stayed locked for the whole busy budget")

// try begins the transaction once. database/sql rolls back when the context of
// BeginTx ends, which must not happen to a transaction that is under way: so it
// begins with a context that follows the caller's during the wait only.
func (t *txn) try(ctx context.Context, wait time.Duration) error {
	tctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t.cancel = func() { cancel(nil) }
	unfollow := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	timer := time.AfterFunc(wait, func() { cancel(errBudget) })
	tx, err := t.conn.BeginTx(tctx, nil)
	if err == nil {
		t.Tx = tx
		_, err = tx.ExecContext(tctx, t.b.sql.lock)
	}
	// Once both are stopped nothing but t.cancel ends the transaction's context.
	followed, timed := unfollow(), timer.Stop()
	if (!followed || !timed) && (err == nil || errors.Is(err, context.Canceled)) {
		err = context.Cause(tctx)
	}
	if err != nil {
		if tx != nil {
			tx.Rollback()
		}
		cancel(nil)
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
