package sqlite

import (
	"context"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// sweepGroup bounds the records that one transaction of a sweep looks at, and so
// the time it holds up claims.
const sweepGroup = 50

// Sweep implements [backend.Backend], in short transactions. Afterwards it moves
// the log into the database, so that the log's file stays small. An error can
// come with the number of records that were changed before it.
func (b *Backend) Sweep(ctx context.Context, limit int) (int, error) {
	const op = "sqlite: sweep"
	if err := backend.ValidateSweep(limit); err != nil {
		return 0, err
	}
	if err := b.enter(ctx, op); err != nil {
		return 0, err
	}
	n := 0
	for n < limit {
		due, err := b.dueRecords(ctx, op, reader{b}, 1) // without the lock
		if err != nil {
			return n, err
		}
		if len(due) == 0 {
			break
		}
		changed, err := b.sweepSome(ctx, op, min(limit-n, sweepGroup))
		n += changed
		if err != nil || changed == 0 {
			return n, err
		}
	}
	if n > 0 {
		b.checkpointLog(ctx)
	}
	return n, nil
}

// sweepSome looks at the records again under the lock, where none can be claimed
// meanwhile.
func (b *Backend) sweepSome(ctx context.Context, op string, limit int) (int, error) {
	t, err := b.lock(ctx, op)
	if err != nil {
		return 0, err
	}
	defer t.rollback()
	ctx = context.WithoutCancel(ctx)
	due, err := b.dueRecords(ctx, op, t, limit)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, k := range due {
		_, out, err := b.sql.step(ctx, t, k, machine.Sweep{}, b.now())
		if err != nil {
			return 0, t.explain(ctx, op, err)
		}
		if out.Changed {
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	if err := t.commit(op); err != nil {
		return 0, err
	}
	return n, nil
}

func (b *Backend) dueRecords(ctx context.Context, op string, q querier, limit int) ([]backend.Key, error) {
	rows, err := q.QueryContext(ctx, b.sql.due, b.now().UnixMicro(), limit)
	if err != nil {
		if code(err) == codeGeneric {
			return nil, schemaError(ctx, q, b.cfg.table, op, err)
		}
		return nil, notApplied(op, err)
	}
	defer rows.Close()
	var keys []backend.Key
	for rows.Next() {
		var k backend.Key
		if err := rows.Scan(&k.Tenant, &k.Actor, &k.Value); err != nil {
			return nil, notApplied(op, err)
		}
		keys = append(keys, k)
	}
	if err := rows.Err(); err != nil {
		return nil, notApplied(op, err)
	}
	return keys, nil
}

const (
	largeLog     = 4000 // pages of the log that are worth cutting off its file
	truncateWait = 100 * time.Millisecond
)

// checkpointLog is best effort: a reader can keep the log, and the next sweep
// tries again. PASSIVE waits for nobody. TRUNCATE waits for readers while it
// keeps writers out, so it happens only when the log is large, and not for long.
func (b *Backend) checkpointLog(ctx context.Context) {
	var busy, pages, moved int
	err := b.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &moved)
	if err != nil || busy != 0 || pages < largeLog || moved < pages {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, truncateWait)
	defer cancel()
	_ = b.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
}
