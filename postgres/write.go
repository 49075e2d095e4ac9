package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// holderWait bounds how long a holder's write waits for a transaction that has
// locked the record, in the server: a connection that broke must not leave a
// statement waiting there.
const holderWait = 5 * time.Second

// Renew implements backend.Backend.
func (b *Backend) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	if err := l.ValidateRenewal(ttl); err != nil {
		return err
	}
	ttl = roundUp(ttl)
	return b.write(ctx, "renew", l.Key, machine.Renew{Lease: l, TTL: ttl},
		b.alone.renew, append(holder(wait(ctx), l), micros(ttl)))
}

// Checkpoint implements backend.Backend.
func (b *Backend) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	if err := c.Validate(l, MaxValue); err != nil {
		return err
	}
	return b.write(ctx, "checkpoint", l.Key, machine.Checkpoint{Lease: l, Checkpoint: c},
		b.alone.checkpoint, checkpointArgs(wait(ctx), l, c))
}

func checkpointArgs(wait string, l backend.Lease, c backend.Checkpoint) []any {
	return append(holder(wait, l), int64(c.Sequence), c.Point, c.State)
}

// Complete implements backend.Backend.
func (b *Backend) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if err := c.Validate(l, MaxValue); err != nil {
		return err
	}
	return b.write(ctx, "complete", l.Key, machine.Complete{Lease: l, Completion: c},
		b.alone.complete, completeArgs(wait(ctx), l, c))
}

func completeArgs(wait string, l backend.Lease, c backend.Completion) []any {
	return append(holder(wait, l), int64(c.Sequence), string(c.Response.Tombstone), c.Response.Status, c.Response.Header, c.Response.Body)
}

// Release implements backend.Backend.
func (b *Backend) Release(ctx context.Context, l backend.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return b.write(ctx, "release", l.Key, machine.Release{Lease: l}, b.alone.release, holder(wait(ctx), l))
}

// wait is holderWait, or less if the caller has less time.
func wait(ctx context.Context) string {
	if end, ok := ctx.Deadline(); ok {
		return lockTimeout(min(holderWait, time.Until(end)))
	}
	return lockTimeout(holderWait)
}

// write sends a holder's update. If it changed nothing, the record tells why, by the
// rules of the state machine.
func (b *Backend) write(ctx context.Context, what string, k backend.Key, m machine.Message, sql string, args []any) error {
	var verdict error
	err := b.withConn(ctx, what, func(conn *pgxpool.Conn) error {
		return b.repeat(ctx, what, conn, func(q db) (done bool, err error) {
			done, verdict, err = b.tryWrite(ctx, q, what, k, m, sql, args)
			return done, err
		})
	})
	if err != nil {
		return err
	}
	return verdict
}

// tryWrite is done when the update was applied or the record says why it will not
// be: verdict is nil if that is as good as done.
func (b *Backend) tryWrite(ctx context.Context, q db, what string, k backend.Key, m machine.Message, sql string, args []any) (done bool, verdict, err error) {
	var u change
	if err := u.scan(q.QueryRow(ctx, sql, args...)); err != nil || u.done {
		return u.done, nil, err
	}
	var r reading
	before, err := b.read(ctx, q, k, &r)
	if err != nil {
		return false, nil, err
	}
	_, out := machine.Step(before, m, r.now)
	if out.Err != nil {
		verdict = &backend.Error{Op: op + what, Kind: out.Err}
	}
	return !out.Changed, verdict, nil
}
