package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// tries bounds how often an operation is sent again because the record changed
// between two of its statements.
const tries = 10

// tooOften is the error of an operation that was tried that often, for nothing.
func tooOften(what string, last error) error {
	return &backend.Error{
		Op: op + what, Kind: backend.ErrUnavailable, Err: last,
		Hint: "others changed the record whenever it was looked at",
	}
}

// late is how long after reading its clock a claim may have inserted its record.
// Beyond that it has waited for somebody: its lease is short and its token may be
// older than one drawn meanwhile.
func late(lease time.Duration) time.Duration { return min(lease/10, 5*time.Millisecond) }

// Claim implements backend.Backend. It waits at least 50 ms for a transaction that
// holds the key: an ordinary COMMIT is seen through.
func (b *Backend) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	const what = "claim"
	if err := validate(c); err != nil {
		return backend.Claimed{}, err
	}
	var got backend.Claimed
	err := b.withConn(ctx, what, func(conn *pgxpool.Conn) error {
		limit := late(c.Lease)
		return b.repeat(ctx, what, conn, func(q db) (bool, error) {
			cl := newClaiming(q, &b.alone, c)
			r := reading{}
			err := r.scan(q.QueryRow(ctx, b.alone.claim, append(cl.args(), limit.Microseconds())...), c.Key)
			if err != nil {
				// A late one is sent again: nothing was committed, and no claim is
				// ever seen with two tokens. A server that is slow and not waiting gets
				// more time with every try.
				limit *= 2
				return false, err
			}
			var done bool
			got, done, err = cl.settle(ctx, r)
			return done, err
		})
	})
	if code(err) == lockNotAvailable {
		return hidden(c), nil
	}
	return got, err
}

func hidden(c backend.Claim) backend.Claimed {
	return backend.Claimed{Hidden: true, Record: backend.Record{Key: c.Key}}
}

// withConn runs an operation on a connection of the pool.
func (b *Backend) withConn(ctx context.Context, what string, f func(*pgxpool.Conn) error) error {
	if err := backend.ContextDone(ctx, op+what); err != nil {
		return err
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return notSent(what, err)
	}
	defer conn.Release()
	return f(conn)
}

// repeat runs statements, each a transaction of its own, until they are done.
// They are not where the record was changed by somebody else between two of them.
//
// Where transactions are serializable by default, statements about different keys
// fail for each other's sake. These need no more than read committed, and get it after
// the first such failure; asking for it always would cost everybody a round trip.
func (b *Backend) repeat(ctx context.Context, what string, conn *pgxpool.Conn, f func(q db) (done bool, err error)) error {
	var last error
	readCommitted := false
	for range tries {
		var done bool
		var err error
		if readCommitted {
			err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
				done, err = f(tx)
				return err
			})
		} else {
			done, err = f(conn)
		}
		readCommitted = readCommitted || code(err) == serializationFailure
		switch {
		case err == nil && done:
			return nil
		case err == nil || again(err):
			last = err
		default:
			return writeError(ctx, what, err)
		}
	}
	return tooOften(what, last)
}

// claiming is one claim on its way through several statements.
type claiming struct {
	q     db
	sql   *statements
	c     backend.Claim
	wait  string
	moved bool      // more than the first statement was needed
	sent  time.Time // before the latest of them, with its wait for a lock
}

func newClaiming(q db, sql *statements, c backend.Claim) *claiming {
	c.Lease, c.Retention, c.Abandon = roundUp(c.Lease), roundUp(c.Retention), roundUp(c.Abandon)
	return &claiming{q: q, sql: sql, c: c, wait: lockTimeout(c.Wait)}
}

// args are those of the claim and, up to the last ones, of the replace statement.
func (cl *claiming) args() []any {
	c := cl.c
	f := c.Fingerprints[0]
	return []any{
		cl.wait, c.Key.Tenant, c.Key.Actor, c.Key.Value, formatID(c.ID),
		c.Operation, c.Target.Method, c.Target.Path, f.Version, f.Sum[:], c.Payload,
		micros(c.Lease), micros(c.Retention), micros(c.Abandon),
	}
}

func (cl *claiming) holder(t backend.Token) []any {
	return holder(cl.wait, backend.Lease{Key: cl.c.Key, ClaimID: cl.c.ID, Token: t})
}

// holder are the arguments that all statements of a holder begin with.
func holder(wait string, l backend.Lease) []any {
	return []any{wait, l.Key.Tenant, l.Key.Actor, l.Key.Value, formatID(l.ClaimID), int64(l.Token)}
}

// settle turns what the claim statement read into an answer, with further
// statements if it takes some. It is not done if the record is not any more as it
// was read.
func (cl *claiming) settle(ctx context.Context, r reading) (got backend.Claimed, done bool, err error) {
	switch r.what {
	case nothing:
		return got, false, nil
	case inserted:
		if cl.sql.redraw == "" || r.now.Sub(r.at) <= late(cl.c.Lease) {
			return cl.acquired(nil, r.at, r.now), true, nil
		}
		// In this transaction nobody else has seen the record: it gets a new token and
		// a whole lease.
		mine := cl.acquired(nil, r.at, r.now).Record
		cl.moved, cl.sent = true, time.Now()
		var u change
		if err := u.scan(cl.q.QueryRow(ctx, cl.sql.redraw, append(cl.holder(mine.Token), micros(cl.c.Lease))...)); err != nil || !u.done {
			return got, false, err
		}
		mine.Token = max(mine.Token+1, backend.Token(u.at.UnixMicro()))
		mine.LockedUntil, mine.UpdatedAt = u.at.Add(cl.c.Lease), u.at
		mine.LeaseLeft = machine.LeaseLeft(mine, u.now)
		return backend.Claimed{Acquired: true, Record: mine}, true, nil
	}
	_, out := machine.Step(&r.record, machine.Claim{Claim: cl.c}, r.now)
	if !out.Claimed.Acquired {
		return out.Claimed, true, nil
	}
	// A plain read may say that somebody else has the key, but not that one has it
	// oneself: a write of one's own may be on its way.
	cl.moved, cl.sent = true, time.Now()
	if !out.Changed {
		err := r.scan(cl.q.QueryRow(ctx, cl.sql.lock, cl.wait, cl.c.Key.Tenant, cl.c.Key.Actor, cl.c.Key.Value), cl.c.Key)
		if err != nil || r.what == nothing {
			return got, false, err
		}
		_, out = machine.Step(&r.record, machine.Claim{Claim: cl.c}, r.now)
		return out.Claimed, !out.Changed, nil
	}
	var u change
	if err := u.scan(cl.q.QueryRow(ctx, cl.update(r.record), cl.updateArgs(r.record)...)); err != nil || !u.done {
		return got, false, err
	}
	cl.sent = cl.sent.Add(u.waited)
	return cl.acquired(&r.record, u.at, u.now), true, nil
}

// update is the statement that gives this claim a record that it may have.
func (cl *claiming) update(r backend.Record) string {
	switch {
	case r.Response.Tombstone == backend.Abandoned:
		return cl.sql.revive
	case r.Status == backend.Completed:
		return cl.sql.replace
	case r.ClaimID == cl.c.ID:
		return cl.sql.extend
	default:
		return cl.sql.takeOver
	}
}

func (cl *claiming) updateArgs(r backend.Record) []any {
	switch {
	case r.Status == backend.Completed && r.Response.Tombstone != backend.Abandoned:
		return append(cl.args(), int64(r.Token))
	case r.Status == backend.Started && r.ClaimID == cl.c.ID:
		return append(cl.holder(r.Token), micros(cl.c.Lease))
	default:
		return []any{
			cl.wait, cl.c.Key.Tenant, cl.c.Key.Actor, cl.c.Key.Value, formatID(cl.c.ID),
			micros(cl.c.Lease), micros(cl.c.Retention), micros(cl.c.Abandon),
			formatID(r.ClaimID), int64(r.Token), int64(r.Sequence),
		}
	}
}

// acquired is the answer after the store gave the key to this claim, judged by
// its clock at at.
func (cl *claiming) acquired(before *backend.Record, at, now time.Time) backend.Claimed {
	r, _ := machine.Step(before, machine.Claim{Claim: cl.c}, at)
	got := backend.Claimed{Acquired: true, Record: r.Clone()}
	got.Record.LeaseLeft = machine.LeaseLeft(got.Record, now)
	return got
}
