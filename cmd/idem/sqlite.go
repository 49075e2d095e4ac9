package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/conformance"
	"github.com/idem-go/idem/sqlite"
)

type sqlitePlace struct {
	path string // absolute
	opts []sqlite.Option
}

func locateSQLite(path string, o options) (place, error) {
	switch {
	case path == "", path == ":memory:", strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return nil, errors.New("the DSN names no file: write sqlite:path/to/file or sqlite:/path/to/file")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	p := sqlitePlace{path: abs}
	if o.table != "" {
		p.opts = append(p.opts, sqlite.WithTable(o.table))
	}
	return p, nil
}

func (p sqlitePlace) String() string { return p.path }

// open changes nothing about the file: sqlite.Open would create a missing one, and
// turn another journal mode into WAL.
func (p sqlitePlace) open(context.Context) (backend.Backend, func(), error) {
	if _, err := os.Stat(p.path); err != nil {
		return nil, nil, fmt.Errorf("there is no database to look at: %w; the service makes it with sqlite.Open and sqlite.Migrate", err)
	}
	path := filepath.ToSlash(p.path)
	if !strings.HasPrefix(path, "/") { // a drive letter
		path = "/" + path
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_txlock=immediate"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, nil, err
	}
	done := func() { db.Close() }
	b, err := sqlite.New(db, p.opts...)
	if err != nil {
		done()
		return nil, nil, err
	}
	return b, done, nil
}

// sqliteLab is a directory beside the file: on the same disk, and without a lock
// on a file that others work with. Every case has a file in it.
type sqliteLab struct {
	dir   string
	cases atomic.Int64
}

func (p sqlitePlace) lab(context.Context) (*lab, error) {
	dir, err := os.MkdirTemp(filepath.Dir(p.path), ".idem-conformance-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the cases beside the file: %w", err)
	}
	l := &sqliteLab{dir: dir}
	return &lab{
		name:    "directory " + dir,
		remove:  func(context.Context) error { return os.RemoveAll(dir) },
		store:   l.store,
		checkTx: func(s suite) *conformance.Report { return checkTx(s, l.txStore) },
	}, nil
}

func (l *sqliteLab) file() string {
	return filepath.Join(l.dir, fmt.Sprintf("case_%d.db", l.cases.Add(1)))
}

// handle opens the file anew, as another process would.
func (l *sqliteLab) handle(t conformance.T, path string) (*sqlite.Backend, *sql.DB) {
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	if err := sqlite.Migrate(t.Context(), db); err != nil {
		t.Fatalf("make the table: %v", err)
	}
	b, err := sqlite.New(db)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return b, db
}

func (l *sqliteLab) store(conformance.T) conformance.Store {
	path := l.file()
	return conformance.Store{Open: func(t conformance.T) backend.Backend {
		b, _ := l.handle(t, path)
		return b
	}}
}

func (l *sqliteLab) txStore(t conformance.T) conformance.TxStore[*sql.Tx] {
	path := l.file()
	_, harness := l.handle(t, path)
	if _, err := harness.ExecContext(t.Context(), "CREATE TABLE effects (name TEXT NOT NULL)"); err != nil {
		t.Fatalf("make a table for the effects: %v", err)
	}
	return conformance.TxStore[*sql.Tx]{
		Open: func(t conformance.T) conformance.TxHandle[*sql.Tx] {
			b, db := l.handle(t, path)
			return conformance.TxHandle[*sql.Tx]{
				Transactor: b,
				InTx:       func(ctx context.Context, f func(tx *sql.Tx) error) error { return inTx(ctx, db, f) },
			}
		},
		Put: func(ctx context.Context, tx *sql.Tx, name string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
			return err
		},
		Count: func(ctx context.Context, name string) (n int, err error) {
			err = harness.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE name = ?", name).Scan(&n)
			return n, err
		},
	}
}

func inTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // a case that fails ends its goroutine
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
