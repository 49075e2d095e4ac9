package bench

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/sqlite"
)

func openSQLite(b *testing.B) (*sql.DB, *idem.TxExecutor[*sql.Tx]) {
	b.Helper()
	db, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if err := sqlite.Migrate(b.Context(), db); err != nil {
		b.Fatal(err)
	}
	if _, err := db.ExecContext(b.Context(), `CREATE TABLE effects (n INTEGER);
CREATE TABLE bare (key TEXT PRIMARY KEY, status TEXT, response_status INTEGER, response_header BLOB, response_body BLOB) STRICT`); err != nil {
		b.Fatal(err)
	}
	store, err := sqlite.New(db)
	if err != nil {
		b.Fatal(err)
	}
	ex, err := idem.NewTx(store)
	if err != nil {
		b.Fatal(err)
	}
	return db, ex
}

func BenchmarkSQLite(b *testing.B) {
	db, ex := openSQLite(b)
	two := func(ctx context.Context, n int64) error {
		key := request(n).Key
		if _, err := db.ExecContext(ctx, "INSERT INTO bare (key, status) VALUES (?, 'started') ON CONFLICT DO NOTHING", key); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, "UPDATE bare SET status = 'completed', response_status = ?, response_header = ?, response_body = ? WHERE key = ?",
			answer.Status, answer.Header, answer.Body, key)
		return err
	}
	one := func(ctx context.Context, _ int64) error {
		var status int
		var header, body []byte
		return db.QueryRowContext(ctx, "SELECT response_status, response_header, response_body FROM bare WHERE key = ?", request(-1).Key).
			Scan(&status, &header, &body)
	}
	effectOnly := func(ctx context.Context, n int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", n); err != nil {
			return err
		}
		return tx.Commit()
	}
	transaction := func(ctx context.Context, n int64) error {
		_, err := idem.DoTx(ctx, ex, request(n), func(ctx context.Context, tx *sql.Tx) (idem.Response, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", n)
			return answer, err
		})
		return err
	}
	if err := two(b.Context(), -1); err != nil {
		b.Fatal(err)
	}
	for _, w := range []struct {
		name    string
		workers int
	}{{"1", 1}, {"8", 8}} {
		b.Run("leased/workers="+w.name, func(b *testing.B) { compare(b, w.workers, two, leased(ex.Executor)) })
		b.Run("replay/workers="+w.name, func(b *testing.B) { compare(b, w.workers, one, replay(b, ex.Executor)) })
		b.Run("transaction/workers="+w.name, func(b *testing.B) { compare(b, w.workers, effectOnly, transaction) })
	}
}
