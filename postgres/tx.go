package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// errEnd is what the effect's transaction answers to Commit and Rollback.
var errEnd = errors.New("postgres: the effect must not end its transaction: return nil to commit, an error to roll back")

// effectTx is the transaction an effect gets, or one nested in it. It can't be
// ended by the effect, and not be used after it.
type effectTx struct {
	pgx.Tx
	open   *atomic.Bool
	nested bool
}

var _ pgx.Tx = (*effectTx)(nil)

func (t *effectTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if !t.open.Load() {
		return nil, pgx.ErrTxClosed
	}
	tx, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &effectTx{Tx: tx, open: t.open, nested: true}, nil
}

func (t *effectTx) Commit(ctx context.Context) error   { return t.end(ctx, t.Tx.Commit) }
func (t *effectTx) Rollback(ctx context.Context) error { return t.end(ctx, t.Tx.Rollback) }

func (t *effectTx) end(ctx context.Context, f func(context.Context) error) error {
	switch {
	case !t.open.Load():
		return pgx.ErrTxClosed
	case !t.nested:
		return errEnd
	}
	return f(ctx)
}

func (t *effectTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if !t.open.Load() {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return t.Tx.Exec(ctx, sql, args...)
}

func (t *effectTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !t.open.Load() {
		return closedRows{}, pgx.ErrTxClosed
	}
	return t.Tx.Query(ctx, sql, args...)
}

func (t *effectTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if !t.open.Load() {
		return closedRows{}
	}
	return t.Tx.QueryRow(ctx, sql, args...)
}

func (t *effectTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if !t.open.Load() {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	return t.Tx.SendBatch(ctx, b)
}

func (t *effectTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if !t.open.Load() {
		return 0, pgx.ErrTxClosed
	}
	return t.Tx.CopyFrom(ctx, table, columns, src)
}

func (t *effectTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if !t.open.Load() {
		return nil, pgx.ErrTxClosed
	}
	return t.Tx.Prepare(ctx, name, sql)
}

// closedRows are the rows of a transaction that is over.
type closedRows struct{}

func (closedRows) Close()                                       {}
func (closedRows) Err() error                                   { return pgx.ErrTxClosed }
func (closedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (closedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (closedRows) Next() bool                                   { return false }
func (closedRows) Scan(...any) error                            { return pgx.ErrTxClosed }
func (closedRows) Values() ([]any, error)                       { return nil, pgx.ErrTxClosed }
func (closedRows) RawValues() [][]byte                          { return nil }
func (closedRows) Conn() *pgx.Conn                              { return nil }
func (closedRows) TypeMap() *pgtype.Map                         { return nil }
