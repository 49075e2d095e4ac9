package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
)

// querier is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// prepared holds the statements on the table by their text. Parsing one takes
// longer than running it. database/sql prepares them anew on each connection that
// comes to use them, and closes them with the pool.
type prepared struct {
	ready  atomic.Bool
	mu     sync.Mutex
	byText map[string]*sql.Stmt // not written any more once ready
}

// prepare needs the table, and so happens at the first use and not in New. It
// must not wait for a connection while a transaction is held.
func (b *Backend) prepare(ctx context.Context, op string) error {
	p := &b.stmts
	if p.ready.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byText == nil {
		p.byText = make(map[string]*sql.Stmt)
	}
	for _, text := range b.sql.all() {
		if p.byText[text] != nil {
			continue
		}
		var s *sql.Stmt
		err := b.patiently(ctx, func() (err error) {
			s, err = b.db.PrepareContext(ctx, text) //nolint:sqlclosecheck // closed with the pool
			return err
		})
		if err != nil {
			if ctx.Err() == nil && code(err) == codeGeneric {
				return schemaError(ctx, b.db, b.cfg.table, op, err)
			}
			return notApplied(op, err)
		}
		p.byText[text] = s
	}
	p.ready.Store(true)
	return nil
}

// reader runs the prepared statements on any connection of the pool.
type reader struct{ b *Backend }

func (r reader) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := r.b.stmts.byText[query]; s != nil {
		return s.ExecContext(ctx, args...)
	}
	return r.b.db.ExecContext(ctx, query, args...)
}

func (r reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := r.b.stmts.byText[query]; s != nil {
		return s.QueryContext(ctx, args...)
	}
	return r.b.db.QueryContext(ctx, query, args...)
}

func (r reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := r.b.stmts.byText[query]; s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return r.b.db.QueryRowContext(ctx, query, args...)
}

// A txn runs them on its own.

func (t *txn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := t.b.stmts.byText[query]; s != nil {
		return t.Tx.StmtContext(ctx, s).ExecContext(ctx, args...) //nolint:sqlclosecheck // closed with the transaction
	}
	return t.Tx.ExecContext(ctx, query, args...)
}

func (t *txn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := t.b.stmts.byText[query]; s != nil {
		return t.Tx.StmtContext(ctx, s).QueryContext(ctx, args...) //nolint:sqlclosecheck // closed with the transaction
	}
	return t.Tx.QueryContext(ctx, query, args...)
}

func (t *txn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := t.b.stmts.byText[query]; s != nil {
		return t.Tx.StmtContext(ctx, s).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // closed with the transaction
	}
	return t.Tx.QueryRowContext(ctx, query, args...)
}
