package postgres

import (
	"context"
	"time"

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

// late is how long after reading its clock a claim may answer. Beyond that it has
// waited for somebody: its lease is short and its token may be older than one
// drawn meanwhile.
func late(lease time.Duration) time.Duration { return min(lease/10, 5*time.Millisecond) }

// Claim implements backend.Backend. It waits at least 50 ms for a transaction that
// holds the key: an ordinary COMMIT is seen through.
func (b *Backend) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	const what = "claim"
	if err := c.Validate(); err != nil {
		return backend.Claimed{}, err
	}
	var got backend.Claimed
	err := b.withConn(ctx, what, func(conn *pgxpool.Conn) error {
		cl := newClaiming(conn, &b.alone, c)
		return b.repeat(ctx, what, func() (bool, error) {
			r := reading{}
			if err := r.scan(conn.QueryRow(ctx, b.alone.claim, cl.args()...), c.Key); err != nil {
				return false, err
			}
			var done bool
			var err error
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
func (b *Backend) repeat(ctx context.Context, what string, f func() (done bool, err error)) error {
	var last error
	for range tries {
		done, err := f()
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
	sent  time.Time // before the latest of them
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
		return cl.acquired(ctx, nil, r.at, r.now)
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
	return cl.acquired(ctx, &r.record, u.at, u.now)
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
// its clock at at. A lease granted after a wait would be a short one: it is granted
// again, with a new token unless the record was this claim's own before.
func (cl *claiming) acquired(ctx context.Context, before *backend.Record, at, now time.Time) (got backend.Claimed, done bool, err error) {
	r, _ := machine.Step(before, machine.Claim{Claim: cl.c}, at)
	if now.Sub(at) > late(cl.c.Lease) {
		cl.moved, cl.sent = true, time.Now()
		own := before != nil && before.Status == backend.Started && before.ClaimID == cl.c.ID
		again := cl.sql.redraw
		if own {
			again = cl.sql.renew
		}
		var u change
		err := u.scan(cl.q.QueryRow(ctx, again, append(cl.holder(r.Token), micros(cl.c.Lease))...))
		if err != nil || !u.done {
			return got, false, err
		}
		if !own {
			r.Token = max(r.Token+1, backend.Token(u.at.UnixMicro()))
		}
		r.LockedUntil, r.UpdatedAt = u.at.Add(cl.c.Lease), u.at
		now = u.now
	}
	got = backend.Claimed{Acquired: true, Record: r.Clone()}
	got.Record.LeaseLeft = machine.LeaseLeft(got.Record, now)
	return got, true, nil
}
