package sqlite

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// What a DSN has to say. Pragmas hold for one connection, so that executing them
// on a pool reaches one of its connections and leaves the others as they are;
// the driver applies those of the DSN to each connection that it opens.
const dsnOptions = "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"

// maxIdle keeps connections that a burst of readers opened: opening one costs
// more than many reads.
const maxIdle = 32

// Open returns a pool over the database file at path, which the first use
// creates. The pool waits for locks, writes ahead (WAL), syncs every commit
// (FULL) and begins its transactions IMMEDIATE. An in-memory database is refused
// with [backend.ErrInvalid]: every connection of the pool would have one of its
// own.
//
// A pool opened otherwise will do for [New], as long as its DSN says
//
//	_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate
func Open(path string) (*sql.DB, error) {
	if path == "" || path == ":memory:" || strings.HasPrefix(path, "file:") || strings.ContainsRune(path, 0) {
		return nil, &backend.Error{Op: "sqlite: open", Kind: backend.ErrInvalid, Hint: "give the path of a file, not a URI and no in-memory database"}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &backend.Error{Op: "sqlite: open", Kind: backend.ErrUnavailable, Err: err}
	}
	p := filepath.ToSlash(abs)
	if !strings.HasPrefix(p, "/") { // a drive letter
		p = "/" + p
	}
	// A URI, because the driver cuts a plain name at its first '?'.
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: p, RawQuery: dsnOptions}).String())
	if err != nil {
		return nil, &backend.Error{Op: "sqlite: open", Kind: backend.ErrUnavailable, Err: err}
	}
	db.SetMaxIdleConns(maxIdle)
	return db, nil
}

// settings are what a connection says of itself and its file.
type settings struct {
	file        string // empty for a database in memory
	journal     string
	synchronous int
	busyTimeout int // milliseconds
}

func readSettings(ctx context.Context, q querier) (settings, error) {
	var s settings
	err := q.QueryRowContext(ctx, `SELECT d.file, j.journal_mode, s.synchronous, b.timeout
		FROM pragma_database_list d, pragma_journal_mode j, pragma_synchronous s, pragma_busy_timeout b
		WHERE d.name = 'main'`).Scan(&s.file, &s.journal, &s.synchronous, &s.busyTimeout)
	return s, err
}

const syncFull, syncNormal = 2, 1

// check refuses a pool on which the promises don't hold.
func (s settings) check(normal bool) error {
	least := syncFull
	if normal {
		least = syncNormal
	}
	var hint string
	switch {
	case s.file == "":
		hint = "every connection to :memory: has a database of its own; use a file, sqlite.Open(path)"
	case s.busyTimeout <= 0:
		hint = "put _pragma=busy_timeout(5000) into the DSN, or use sqlite.Open(path)"
	case s.journal != "wal":
		hint = "put _pragma=journal_mode(WAL) into the DSN, or use sqlite.Open(path)"
	case s.synchronous < least:
		hint = "put _pragma=synchronous(FULL) into the DSN, or use sqlite.Open(path)"
	default:
		return nil
	}
	return &backend.Error{Op: "sqlite: new", Kind: backend.ErrInvalid, Hint: hint}
}

// inspect checks the pool on one of its connections and returns the path of its
// file.
func inspect(db *sql.DB, normal bool) (path string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", &backend.Error{Op: "sqlite: new", Kind: backend.ErrUnavailable, Err: err}
	}
	defer conn.Close()
	if err := conn.Raw(func(dc any) error {
		if hooksOf(dc) == nil {
			return &backend.Error{Op: "sqlite: new", Kind: backend.ErrInvalid, Hint: "the pool must be one of modernc.org/sqlite; a driver wrapped around it needs Unwrap() driver.Conn on its connections"}
		}
		return nil
	}); err != nil {
		return "", err
	}
	s, err := readSettings(ctx, conn)
	if err != nil {
		return "", &backend.Error{Op: "sqlite: new", Kind: backend.ErrUnavailable, Err: err}
	}
	return s.file, s.check(normal)
}
