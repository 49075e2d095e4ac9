package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// columns in the order of the table: what is small comes first, so that it can be
// read without the overflow pages of what is large.
var columns = []string{
	"tenant", "actor", "key",
	"operation", "method", "path", "fingerprint", "fingerprint_version",
	"status", "recovery_point", "locked_until", "claim_id", "token", "sequence", "attempt",
	"lease", "retention", "remember", "abandon",
	"created_at", "updated_at", "completed_at", "expires_at",
	"tombstone", "response_status", "response_header", "response_body", "state", "payload",
}

// statements are the queries on one table.
type statements struct {
	selectKey, put, del, raise, floor, due, lapsed, lock string
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
		del:   "DELETE FROM " + t + byKey,
		raise: "UPDATE " + quote(metaOf(table)) + " SET token_floor = max(token_floor, ?)",
		floor: "SELECT coalesce(max(token_floor), 0) FROM " + quote(metaOf(table)),
		due:   "SELECT tenant, actor, key FROM " + t + " WHERE expires_at <= ? ORDER BY expires_at LIMIT ?",
		lapsed: "SELECT tenant, actor, key, operation, token, attempt FROM " + t +
			" WHERE status = 'started' AND locked_until <= ? AND (tenant, actor, key) > (?, ?, ?) ORDER BY tenant, actor, key LIMIT ?",
		// Takes the write lock and touches nothing, in whatever mode the
		// transaction was begun.
		lock: "DELETE FROM " + t + " WHERE 0",
	}
}

func (s statements) all() []string {
	return []string{s.selectKey, s.put, s.del, s.raise, s.floor, s.due, s.lapsed, s.lock}
}

// load returns the record of the key, or nil.
func (s statements) load(ctx context.Context, q querier, k backend.Key) (*backend.Record, error) {
	r, err := scan(q.QueryRowContext(ctx, s.selectKey, k.Tenant, k.Actor, k.Value))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

// store makes after of the record before; nil means that there is none. What a
// deleted record's token was is remembered, since the key may come back.
func (s statements) store(ctx context.Context, q querier, before, after *backend.Record) error {
	if after != nil {
		_, err := q.ExecContext(ctx, s.put, values(after)...)
		return err
	}
	k := before.Key
	if _, err := q.ExecContext(ctx, s.del, k.Tenant, k.Actor, k.Value); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, s.raise, int64(before.Token))
	return err
}

// step runs one message of the state machine on the record of a key, within a
// write transaction. It returns the record after it.
func (s statements) step(ctx context.Context, q querier, k backend.Key, m machine.Message, now time.Time) (*backend.Record, machine.Outcome, error) {
	before, err := s.load(ctx, q, k)
	if err != nil {
		return nil, machine.Outcome{}, err
	}
	if c, ok := m.(machine.Claim); ok && before == nil {
		var floor int64
		if err := q.QueryRowContext(ctx, s.floor).Scan(&floor); err != nil {
			return nil, machine.Outcome{}, err
		}
		c.Floor = backend.Token(floor)
		m = c
	}
	after, out := machine.Step(before, m, now)
	if out.Changed {
		if err := s.store(ctx, q, before, after); err != nil {
			return nil, machine.Outcome{}, err
		}
	}
	return after, out, nil
}

// values in the order of columns. Text is bound as string and never as []byte,
// which SQLite takes for another value.
func values(r *backend.Record) []any {
	return []any{
		r.Key.Tenant, r.Key.Actor, r.Key.Value,
		r.Operation, r.Target.Method, r.Target.Path, r.Fingerprint.Sum[:], r.Fingerprint.Version,
		r.Status.String(), r.RecoveryPoint, instant(r.LockedUntil), r.ClaimID[:], int64(r.Token), int64(r.Sequence), r.Attempt,
		r.Lease.Microseconds(), r.Retention.Microseconds(), r.Remember.Microseconds(), r.Abandon.Microseconds(),
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
		r                                            backend.Record
		sum, claimID                                 []byte
		status                                       string
		locked, created, updated, completed, expires sql.NullInt64
		lease, retention, remember, abandon          int64
		token, sequence, attempts                    int64
	)
	err := row.Scan(
		&r.Key.Tenant, &r.Key.Actor, &r.Key.Value,
		&r.Operation, &r.Target.Method, &r.Target.Path, &sum, &r.Fingerprint.Version,
		&status, &r.RecoveryPoint, &locked, &claimID, &token, &sequence, &attempts,
		&lease, &retention, &remember, &abandon,
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
	r.Lease, r.Retention, r.Remember, r.Abandon = duration(lease), duration(retention), duration(remember), duration(abandon)
	r.LockedUntil, r.CreatedAt, r.UpdatedAt = timeOf(locked), timeOf(created), timeOf(updated)
	r.CompletedAt, r.ExpiresAt = timeOf(completed), timeOf(expires)
	return &r, nil
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
