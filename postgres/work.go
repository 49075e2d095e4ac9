package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
)

// savepoint is where the effect of a transaction begins.
const savepoint = "idem_effect"

// rollbackWait bounds the ROLLBACK of a transaction. Without its answer the
// connection is closed, which rolls back too.
const rollbackWait = time.Second

// work is a transaction of this package's own. Its first statement and its last
// travel with BEGIN and COMMIT.
type work struct {
	what string
	conn *pgxpool.Conn
	tx   pgx.Tx
	open atomic.Bool // for the effect
	sent time.Time   // before the statement that made the record ours
}

// begin sends BEGIN, a statement that reads the record and a savepoint in one
// round trip. After an error the caller still has to end the work.
func (b *Backend) begin(ctx context.Context, what string, k backend.Key, sql string, args []any) (*work, reading, error) {
	var r reading
	if err := backend.ContextDone(ctx, op+what); err != nil {
		return nil, r, err
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return nil, r, notSent(what, err)
	}
	w := &work{what: what, conn: conn, sent: time.Now()}
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{IsoLevel: b.cfg.isolation})
	batch.Queue(sql, args...)
	batch.Queue("savepoint " + savepoint)
	br := conn.SendBatch(ctx, &batch)
	w.tx = br.Tx()
	if _, err = br.Exec(); err == nil {
		if err = r.scan(br.QueryRow(), k); err == nil {
			_, err = br.Exec()
		}
	}
	if closed := br.Close(); err == nil {
		err = closed
	}
	return w, r, err
}

// end rolls the transaction back if it is still there, and gives the connection
// back. It is safe on nil and after commit.
func (w *work) end(ctx context.Context) {
	if w == nil {
		return
	}
	w.open.Store(false)
	defer w.conn.Release() // closes a connection that is not idle
	if !w.usable() || w.status() == noTx {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackWait)
	defer cancel()
	_, _ = w.conn.Exec(ctx, "rollback")
}

// The states of a transaction, as the server reports them.
const (
	noTx   = 'I' // there is none
	failed = 'E'
)

func (w *work) status() byte { return w.conn.Conn().PgConn().TxStatus() }

// usable is false when the connection is closed, or the effect left the result of a
// query unread.
func (w *work) usable() bool {
	pg := w.conn.Conn().PgConn()
	return !pg.IsClosed() && !pg.IsBusy()
}

// mark sets the savepoint again, after statements that belong before it.
func (w *work) mark(ctx context.Context) error {
	_, err := w.tx.Exec(ctx, "savepoint "+savepoint)
	return err
}

// run calls the effect, under a context that ends with the lease: until then the
// server holds the record for it.
func (w *work) run(ctx context.Context, lease time.Duration, effect func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithDeadlineCause(ctx, w.sent.Add(lease), backend.ErrLeaseLost)
	defer cancel()
	defer w.open.Store(false)
	w.open.Store(true)
	err := effect(ctx, &effectTx{Tx: w.tx, open: &w.open})
	if c := code(err); w.usable() && w.status() == failed && (c == serializationFailure || c == deadlockDetected) {
		return &backend.Error{Op: op + w.what, Kind: backend.ErrRetryTx, Err: err}
	}
	return err
}

// ended reports whether the effect has ended the transaction behind our back.
func (w *work) ended() bool { return w.usable() && w.status() == noTx }

// errEnded is what the caller of such an effect is told.
func (w *work) errEnded(errs ...error) error {
	return &backend.Error{
		Op: op + w.what, Kind: backend.ErrInvalid, Err: errors.Join(errs...),
		Hint: "the effect ended the transaction; its writes may be committed and will not be run again",
	}
}

// commit sends the guarded update and COMMIT in one round trip, with undo after a
// rollback to the savepoint. The update raises if the fence does not match. An
// error whose Kind is nil means that the COMMIT may have happened.
func (w *work) commit(ctx context.Context, lease time.Duration, undo bool, sql string, args []any) (change, error) {
	var u change
	if err := w.ready(ctx, undo); err != nil {
		return u, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWait(lease))
	defer cancel()
	if w.status() == failed {
		// A statement that is new to the connection could not be prepared.
		if _, err := w.tx.Exec(ctx, "rollback to savepoint "+savepoint); err != nil {
			return u, readError(ctx, w.what, err)
		}
		undo = false
	}
	var batch pgx.Batch
	if undo {
		batch.Queue("rollback to savepoint " + savepoint)
	}
	batch.Queue(sql, args...)
	batch.Queue("commit")
	br := w.conn.SendBatch(ctx, &batch)
	defer func() { _ = br.Close() }() // what matters has been read
	var err error
	if undo {
		_, err = br.Exec()
	}
	if err == nil {
		err = u.scan(br.QueryRow())
	}
	if code(err) == divisionByZero {
		return u, &backend.Error{Op: op + w.what, Kind: backend.ErrLeaseLost}
	}
	if err != nil {
		return u, writeError(ctx, w.what, err)
	}
	tag, err := br.Exec()
	if err == nil && tag.String() != "COMMIT" {
		return u, &backend.Error{Op: op + w.what, Kind: backend.ErrUnavailable, Hint: "the server rolled back"}
	}
	return u, writeError(ctx, w.what, err)
}

// ready reports why there is nothing that could be committed.
func (w *work) ready(ctx context.Context, undo bool) error {
	switch {
	case w.conn.Conn().IsClosed():
		return &backend.Error{Op: op + w.what, Kind: backend.ErrUnavailable, Err: context.Cause(ctx), Hint: "the connection was lost before COMMIT"}
	case !w.usable():
		return invalid(w.what, "the effect did not close the rows of a query")
	case w.status() == failed && !undo:
		return invalid(w.what, "the effect returned no error, but a statement of its transaction failed")
	}
	return nil
}

// commitWait bounds a COMMIT. It doesn't end with the caller's context: what the
// effect has done is not lost to a caller that has gone, and an end on the way would
// make the outcome unknown.
func commitWait(lease time.Duration) time.Duration {
	return min(max(lease/4, time.Second), 10*time.Second)
}
