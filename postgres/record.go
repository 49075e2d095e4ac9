package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idem-go/idem/backend"
)

// db is what statements run on: a connection or a transaction.
type db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// reading is what a statement says about a record.
type reading struct {
	what   string // inserted, seen or nothing
	at     time.Time
	now    time.Time // when it answered, after any wait; at is from before
	record backend.Record
}

// What a reading found.
const (
	nothing  = ""
	seen     = "seen"
	inserted = "inserted"
)

// scan reads the row of a get, claim or lock statement.
func (r *reading) scan(from pgx.Row, k backend.Key) error {
	var (
		rec                                          = &r.record
		settings, status, id                         string
		at, now, lease, retention, abandon           int64
		locked, created, updated, completed, expires int64
		sum                                          []byte
	)
	err := from.Scan(&r.what, &settings, &at, &now,
		&rec.Operation, &rec.Target.Method, &rec.Target.Path, &rec.Fingerprint.Version, &sum,
		&status, &id, &rec.Token, &rec.Sequence, &rec.Attempt,
		&rec.RecoveryPoint, &rec.State, &rec.Payload,
		&rec.Response.Tombstone, &rec.Response.Status, &rec.Response.Header, &rec.Response.Body,
		&lease, &retention, &abandon, &locked, &created, &updated, &completed, &expires)
	if errors.Is(err, pgx.ErrNoRows) {
		r.what = nothing
		return nil
	}
	if err != nil {
		return err
	}
	r.at, r.now = timeOf(at), timeOf(now)
	if r.what != seen {
		return nil
	}
	rec.Key = k
	copy(rec.Fingerprint.Sum[:], sum)
	rec.Status = backend.Started
	if status == "completed" {
		rec.Status = backend.Completed
	}
	if rec.ClaimID, err = parseID(id); err != nil {
		return err
	}
	rec.Lease, rec.Retention, rec.Abandon = duration(lease), duration(retention), duration(abandon)
	rec.LockedUntil, rec.CreatedAt, rec.UpdatedAt = timeOf(locked), timeOf(created), timeOf(updated)
	rec.CompletedAt, rec.ExpiresAt = timeOf(completed), timeOf(expires)
	return nil
}

// change is what a guarded update says.
type change struct {
	done    bool
	waited  time.Duration // for the lock, before at; only within a transaction
	at, now time.Time
}

func (c *change) scan(from pgx.Row) error {
	var settings string
	var waited, at, now int64
	err := from.Scan(&c.done, &settings, &waited, &at, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		c.done = false
		return nil
	}
	if err != nil {
		return err
	}
	c.waited, c.at, c.now = duration(waited), timeOf(at), timeOf(now)
	return nil
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// formatID writes a claim id for uuid, which takes it without hyphens; the zero one, which belongs to nobody, as
// nothing.
func formatID(id backend.ClaimID) string {
	if id == (backend.ClaimID{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}

func parseID(s string) (id backend.ClaimID, err error) {
	if s != "" {
		_, err = hex.Decode(id[:], []byte(strings.ReplaceAll(s, "-", "")))
	}
	return id, err
}
