package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idem-go/idem/backend"
)

// The SQLSTATEs that mean something to this package (manual, appendix A).
const (
	divisionByZero       = "22012"
	uniqueViolation      = "23505"
	readOnlyTransaction  = "25006"
	failedTransaction    = "25P02"
	idleInTransaction    = "25P03"
	noPreparedStatement  = "26000"
	invalidSchemaName    = "3F000"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	noPrivilege          = "42501"
	undefinedColumn      = "42703"
	undefinedTable       = "42P01"
	duplicateStatement   = "42P05"
	limitExceeded        = "54000"
	lockNotAvailable     = "55P03"
	queryCanceled        = "57014"
)

const op = "postgres: "

func invalid(what, hint string) error {
	return &backend.Error{Op: op + what, Kind: backend.ErrInvalid, Hint: hint}
}

// code is the SQLSTATE of an error, or empty.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// refused reports whether err proves that the server executed none of the
// statement or the transaction. Only an ERROR of its own does: after a FATAL, or what
// a pooler says when it lost its server (class 08), a COMMIT may have happened.
// pgconn.SafeToRetry is no help here: it is true for a COMMIT whose reply was lost.
func refused(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code[:2] == "08" {
		return false
	}
	severity := pg.SeverityUnlocalized
	if severity == "" {
		severity = pg.Severity
	}
	return severity == "ERROR" || pg.Code == idleInTransaction
}

// writeError gives the error of a statement or transaction that may have been
// sent. nil stays nil, and so does what is an Error already.
func writeError(ctx context.Context, what string, err error) error {
	var e *backend.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	e = &backend.Error{Op: op + what, Err: err}
	if refused(err) {
		e.Hint, e.Kind = meaning(code(err))
		if e.Hint == "" && ctx.Err() != nil {
			// The server says 57014, or whatever else the end of the context led to.
			e.Err = errors.Join(context.Cause(ctx), err)
		}
	}
	return e
}

// readError gives the error of what changes nothing.
func readError(ctx context.Context, what string, err error) error {
	err = writeError(ctx, what, err)
	var e *backend.Error
	if errors.As(err, &e) && e.Kind == nil {
		e.Kind = backend.ErrUnavailable
	}
	return err
}

// notSent gives the error of what did not reach the server.
func notSent(what string, err error) error {
	e := &backend.Error{Op: op + what, Kind: backend.ErrUnavailable, Err: err}
	if code(err) != "" {
		e.Hint, _ = meaning(code(err))
	}
	return e
}

// meaning translates the SQLSTATE of a refusal.
func meaning(code string) (hint string, kind error) {
	switch code {
	case serializationFailure, deadlockDetected:
		return "", backend.ErrRetryTx
	case undefinedTable, invalidSchemaName:
		return "the table does not exist: run postgres.Migrate or apply the SQL of postgres.Schema, with the same WithTable", backend.ErrUnavailable
	case undefinedColumn:
		return "the table is older than this version of idem: run postgres.Migrate or apply the SQL of postgres.Schema", backend.ErrUnavailable
	case noPrivilege:
		return "the role needs SELECT, INSERT, UPDATE and DELETE on the table and USAGE on its schema", backend.ErrUnavailable
	case readOnlyTransaction:
		return "the server or the session is read-only: connect to the primary, target_session_attrs=read-write", backend.ErrUnavailable
	case duplicateStatement, noPreparedStatement:
		return "a pooler mixes up prepared statements: set default_query_exec_mode=exec in the connection string", backend.ErrUnavailable
	case lockNotAvailable:
		return "a transaction that has not ended holds the record", backend.ErrUnavailable
	case failedTransaction:
		return "the transaction has failed before: roll it back", backend.ErrInvalid
	case limitExceeded:
		return "", backend.ErrTooLarge
	}
	switch code[:2] {
	case "22", "23", "P0":
		return "", backend.ErrInvalid // a deferred constraint or trigger of the caller's, at COMMIT
	default:
		return "", backend.ErrUnavailable
	}
}

// again reports whether a statement of its own transaction met another one and
// can simply be sent once more. A unique violation, in spite of ON CONFLICT DO
// NOTHING, is one of those: manual, INSERT, on indexes that are built concurrently.
// So is the division by zero that a late claim raises.
func again(err error) bool {
	switch code(err) {
	case divisionByZero, uniqueViolation, serializationFailure, deadlockDetected:
		return refused(err)
	}
	return false
}

// validate reports whether the claim keeps the contract and asks for no more than this
// store can do. To ignore Remember would free a key that the caller takes for remembered.
func validate(c backend.Claim) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Remember > 0 {
		return &backend.Error{Op: op + "claim", Kind: backend.ErrInvalid, Hint: "this store forgets a completed record when its retention is over: leave out idem.WithRemember, or use a store that remembers"}
	}
	return nil
}
