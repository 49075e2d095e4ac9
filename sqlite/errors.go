package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/idem-go/idem/backend"
)

// codeGeneric is what SQLite answers to a missing table or column, and to much
// else.
const codeGeneric = lib.SQLITE_ERROR

// code is the extended result code of SQLite in err, 0 if there is none.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code()
	}
	return 0
}

func primary(err error) int { return code(err) & 0xff }

// isBusy reports whether somebody else holds the lock that err is about.
func isBusy(err error) bool {
	c := primary(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

// notApplied is the error of an operation whose transaction was not committed,
// or that only read.
func notApplied(op string, err error) error {
	if e, ok := errors.AsType[*backend.Error](err); ok {
		return e
	}
	out := &backend.Error{Op: op, Kind: backend.ErrUnavailable, Err: err}
	switch c := primary(err); {
	case isBusy(err), errors.Is(err, errLocked):
		out.Hint = "other write transactions on the file outlast the busy budget; make them shorter"
	case c == lib.SQLITE_TOOBIG:
		out.Kind = backend.ErrTooLarge
	case c == lib.SQLITE_READONLY:
		out.Hint = "the database file or its directory can't be written"
	case c == lib.SQLITE_CANTOPEN:
		out.Hint = "the database file can't be opened; its directory must exist and be writable"
	}
	return out
}

// commitError is the error of a COMMIT. The driver rolls back when one fails, so
// that a refusal is final; but after a failed write or sync the commit may be in
// the log, and come back when the log is recovered after a crash.
func commitError(op string, err error) error {
	switch primary(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return notApplied(op, err)
	case lib.SQLITE_CONSTRAINT:
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Err: err, Hint: "the COMMIT was refused: a deferred foreign key is violated"}
	}
	return &backend.Error{Op: op, Err: err}
}

// schemaError says how to migrate if that is what err is about.
func schemaError(ctx context.Context, q querier, table, op string, err error) error {
	v, verr := schemaVersion(ctx, q, table)
	out := &backend.Error{Op: op, Kind: backend.ErrUnavailable, Err: err}
	switch {
	case verr != nil:
	case v == 0:
		out.Hint = "the table is missing; run sqlite.Migrate or the SQL of sqlite.Schema"
	case v < Version:
		out.Hint = fmt.Sprintf("the table has schema version %d and %d is needed; run sqlite.Migrate", v, Version)
	}
	return out
}

// boundError is the error of an operation within a caller's transaction.
func boundError(ctx context.Context, q querier, table, op string, err error) error {
	switch c := code(err); {
	case c == lib.SQLITE_BUSY_SNAPSHOT:
		return &backend.Error{Op: op, Kind: backend.ErrRetryTx, Err: err, Hint: "somebody wrote since the transaction first read; make the claim its first statement, or begin it IMMEDIATE (_txlock=immediate)"}
	case errors.Is(err, sql.ErrTxDone):
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Err: err, Hint: "the transaction has ended"}
	case c == codeGeneric:
		return schemaError(ctx, q, table, op, err)
	}
	return notApplied(op, err)
}
