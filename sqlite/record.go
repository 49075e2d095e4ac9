package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
)

// querier is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// columns in the order of the table: what is small comes first, so that it can be
// read without the overflow pages of what is large.
var columns = []string{
	"tenant", "actor", "key",
	"operation", "method", "path", "fingerprint", "fingerprint_version",
	"status", "recovery_point", "locked_until", "claim_id", "token", "sequence", "attempt",
	"lease", "retention", "abandon",
	"created_at", "updated_at", "completed_at", "expires_at",
	"tombstone", "response_status", "response_header", "response_body", "state", "payload",
}

// statements are the queries on one table.
type statements struct {
	selectKey, put, del, due, lock string
}

func statementsFor(table string) statements {
	t := quote(table)
	all := strings.Join(columns, ", ")
	set := make([]string, 0, len(columns))
	for _, c := range columns[3:] {
		set = append(set, c+" = excluded."+c)
	}
	const byKey = " WHERE tenant = ? AND actor = ? AND key = ?"
	return statements{
		selectKey: "SELECT " + all + " FROM " + t + byKey,
		put: "INSERT INTO " + t + " (" + all + ") VALUES (?" + strings.Repeat(", ?", len(columns)-1) + ")" +
			" ON CONFLICT (tenant, actor, key) DO UPDATE SET " + strings.Join(set, ", "),
		del: "DELETE FROM " + t + byKey,
		due: "SELECT tenant, actor, key FROM " + t + " WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
		// Takes the write lock and touches nothing, in whatever mode the
		// transaction was begun.
		lock: "DELETE FROM " + t + " WHERE 0",
	}
}

// load returns the record of the key, or nil.
func (s statements) load(ctx context.Context, q querier, k backend.Key) (*backend.Record, error) {
	r, err := scan(q.QueryRowContext(ctx, s.selectKey, k.Tenant, k.Actor, k.Value))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

// store makes after the record of the key; nil deletes it.
func (s statements) store(ctx context.Context, q querier, k backend.Key, after *backend.Record) error {
	var err error
	if after == nil {
		_, err = q.ExecContext(ctx, s.del, k.Tenant, k.Actor, k.Value)
	} else {
		_, err = q.ExecContext(ctx, s.put, values(after)...)
	}
	return err
}

// values in the order of columns. Text is bound as string and never as []byte,
// which SQLite takes for another value.
func values(r *backend.Record) []any {
	return []any{
		r.Key.Tenant, r.Key.Actor, r.Key.Value,
		r.Operation, r.Target.Method, r.Target.Path, r.Fingerprint.Sum[:], r.Fingerprint.Version,
		r.Status.String(), r.RecoveryPoint, instant(r.LockedUntil), r.ClaimID[:], int64(r.Token), int64(r.Sequence), r.Attempt,
		r.Lease.Microseconds(), r.Retention.Microseconds(), r.Abandon.Microseconds(),
		instant(r.CreatedAt), instant(r.UpdatedAt), instant(r.CompletedAt), instant(r.ExpiresAt),
		string(r.Response.Tombstone), r.Response.Status, r.Response.Header, r.Response.Body, r.State, r.Payload,
	}
}

// instant stores a time as microseconds since 1970, and the zero time as NULL.
func instant(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}

func timeOf(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}

// scan reads what values wrote.
func scan(row interface{ Scan(...any) error }) (*backend.Record, error) {
	var (
		r                                                    backend.Record
		sum, claimID                                         []byte
		status                                               string
		locked, created, updated, completed, expires         sql.NullInt64
		lease, retention, abandon, token, sequence, attempts int64
	)
	err := row.Scan(
		&r.Key.Tenant, &r.Key.Actor, &r.Key.Value,
		&r.Operation, &r.Target.Method, &r.Target.Path, &sum, &r.Fingerprint.Version,
		&status, &r.RecoveryPoint, &locked, &claimID, &token, &sequence, &attempts,
		&lease, &retention, &abandon,
		&created, &updated, &completed, &expires,
		&r.Response.Tombstone, &r.Response.Status, &r.Response.Header, &r.Response.Body, &r.State, &r.Payload,
	)
	if err != nil {
		return nil, err
	}
	switch status {
	case backend.Started.String():
		r.Status = backend.Started
	case backend.Completed.String():
		r.Status = backend.Completed
	default:
		return nil, fmt.Errorf("the record has an unknown status")
	}
	if copy(r.Fingerprint.Sum[:], sum) != len(r.Fingerprint.Sum) || copy(r.ClaimID[:], claimID) != len(r.ClaimID) {
		return nil, fmt.Errorf("the record has a fingerprint or claim id of the wrong length")
	}
	r.Token, r.Sequence, r.Attempt = backend.Token(token), backend.Sequence(sequence), int(attempts)
	r.Lease, r.Retention, r.Abandon = duration(lease), duration(retention), duration(abandon)
	r.LockedUntil, r.CreatedAt, r.UpdatedAt = timeOf(locked), timeOf(created), timeOf(updated)
	r.CompletedAt, r.ExpiresAt = timeOf(completed), timeOf(expires)
	return &r, nil
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
