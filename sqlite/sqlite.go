package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// maxValue is the limit of a response or a state. SQLite takes rows of up to a
// gigabyte, but a row is read, written and logged as a whole, under the file's
// one write lock.
const maxValue = 16 << 20

// Backend keeps records in a table of a SQLite database. It is safe for
// concurrent use, and so is the file by several processes of one host.
type Backend struct {
	db    *sql.DB
	cfg   config
	sql   statements
	stmts prepared
	queue queue
	mine  flights
	turn  turnstile
	log   logFile
	now   func() time.Time
}

var (
	_ backend.Backend             = (*Backend)(nil)
	_ backend.Transactor[*sql.Tx] = (*Backend)(nil)
)

type config struct {
	table  string
	budget time.Duration
	normal bool
}

// Option changes how a Backend works.
type Option func(*config)

// WithTable names the table of the records, "idem_keys" by default. Its
// schema version is kept in a second one, whose name has "_meta" appended.
func WithTable(name string) Option { return func(c *config) { c.table = name } }

// WithBusyBudget sets how long a write waits for transactions of others before it
// ends with [backend.ErrUnavailable], and how long an effect may hold the file,
// 5 s by default. Use one value in all processes of a file.
func WithBusyBudget(d time.Duration) Option { return func(c *config) { c.budget = d } }

// AllowNormalSync accepts connections with synchronous=NORMAL, several times as
// fast: what was acknowledged survives the kill of the process, but after a loss
// of power the last commits may be gone, and effects that were answered can run
// again.
func AllowNormalSync() Option { return func(c *config) { c.normal = true } }

func configure(op string, opts []Option) (config, error) {
	c := config{table: "idem_keys", budget: 5 * time.Second}
	for _, o := range opts {
		o(&c)
	}
	if err := checkTable(c.table); err != nil {
		return c, &backend.Error{Op: op, Kind: backend.ErrInvalid, Err: err}
	}
	if c.budget < backend.MinDuration || c.budget > backend.MaxDuration {
		return c, &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "the busy budget must be between 1ms and ten years"}
	}
	return c, nil
}

// New returns a backend over a pool of modernc.org/sqlite; [Open] makes one. It
// looks at one connection and refuses, with [backend.ErrInvalid], an in-memory
// database and missing pragmas, saying what to put into the DSN. The setting
// that durability hangs on is read again on each connection before it writes.
// Closing the pool is the caller's.
func New(db *sql.DB, opts ...Option) (*Backend, error) {
	cfg, err := configure("sqlite: new", opts)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, &backend.Error{Op: "sqlite: new", Kind: backend.ErrInvalid, Hint: "the pool is nil; make one with sqlite.Open"}
	}
	path, err := inspect(db, cfg.normal)
	if err != nil {
		return nil, err
	}
	return &Backend{
		db: db, cfg: cfg, sql: statementsFor(cfg.table),
		queue: newQueue(cfg.budget), turn: newTurnstile(path, cfg.budget), log: logFile(path + "-wal"), now: hostClock,
	}, nil
}

// hostClock has the resolution of the table's columns, so that a record judged
// in memory and one read back are the same.
func hostClock() time.Time { return time.UnixMicro(time.Now().UnixMicro()).UTC() }

// micros rounds up: a lease or a retention is at least what was asked for.
func micros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

func roundClaim(c backend.Claim) backend.Claim {
	c.Lease, c.Retention, c.Remember, c.Abandon = micros(c.Lease), micros(c.Retention), micros(c.Remember), micros(c.Abandon)
	return c
}

// nested is the key of a context value that marks the context of an effect.
type nested struct{ b *Backend }

// enter is the start of every method that uses the table.
func (b *Backend) enter(ctx context.Context, op string) error {
	if err := b.permit(ctx, op); err != nil {
		return err
	}
	return b.prepare(ctx, op)
}

// permit refuses calls that would wait for the transaction they come from.
func (b *Backend) permit(ctx context.Context, op string) error {
	if ctx.Value(nested{b}) != nil {
		return &backend.Error{Op: op, Kind: backend.ErrInvalid, Hint: "called from an effect, it would wait for the effect's own transaction; use Bind with the transaction given to the effect"}
	}
	return backend.ContextDone(ctx, op)
}

// Claim implements [backend.Backend]. It reads without a lock first and answers
// from there if the key is completed or somebody else's; everything else is
// decided again under the write lock. c.Wait bounds the wait for a Transact of
// the same key in this process. Transactions of other processes are waited for
// up to the busy budget, since nobody can tell which key they hold.
func (b *Backend) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	const op = "sqlite: claim"
	if err := c.Validate(); err != nil {
		return backend.Claimed{}, err
	}
	if err := b.enter(ctx, op); err != nil {
		return backend.Claimed{}, err
	}
	c = roundClaim(c)
	if hidden, err := b.mine.wait(ctx, op, c.Key, c.Wait); hidden || err != nil {
		return backend.Claimed{Hidden: hidden, Record: backend.Record{Key: c.Key}}, err
	}
	if found, ok, err := b.peek(ctx, op, c); ok || err != nil {
		return found, err
	}
	c.Payload = slices.Clone(c.Payload)
	out, err := b.write(ctx, op, c.Key, machine.Claim{Claim: c})
	return out.Claimed, err
}

// peek answers a claim without a lock, where that is possible: an acquisition
// and anything about the claim's own record has to be judged under the lock.
func (b *Backend) peek(ctx context.Context, op string, c backend.Claim) (backend.Claimed, bool, error) {
	r, err := b.read(ctx, op, c.Key)
	if err != nil || r == nil || r.ClaimID == c.ID {
		return backend.Claimed{}, false, err
	}
	_, out := machine.Step(r, machine.Claim{Claim: c}, b.now())
	return out.Claimed, !out.Claimed.Acquired, nil
}

// Renew implements [backend.Backend].
func (b *Backend) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	if err := l.ValidateRenewal(ttl); err != nil {
		return err
	}
	_, err := b.write(ctx, "sqlite: renew", l.Key, machine.Renew{Lease: l, TTL: micros(ttl)})
	return err
}

// Checkpoint implements [backend.Backend].
func (b *Backend) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	if err := c.Validate(l, maxValue); err != nil {
		return err
	}
	c.State = slices.Clone(c.State)
	_, err := b.write(ctx, "sqlite: checkpoint", l.Key, machine.Checkpoint{Lease: l, Checkpoint: c})
	return err
}

// Complete implements [backend.Backend].
func (b *Backend) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if err := c.Validate(l, maxValue); err != nil {
		return err
	}
	c.Response.Header, c.Response.Body = slices.Clone(c.Response.Header), slices.Clone(c.Response.Body)
	_, err := b.write(ctx, "sqlite: complete", l.Key, machine.Complete{Lease: l, Completion: c})
	return err
}

// Release implements [backend.Backend].
func (b *Backend) Release(ctx context.Context, l backend.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	_, err := b.write(ctx, "sqlite: release", l.Key, machine.Release{Lease: l})
	return err
}

// Get implements [backend.Backend].
func (b *Backend) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	const op = "sqlite: get"
	if err := k.Validate(); err != nil {
		return backend.Record{}, err
	}
	if err := b.enter(ctx, op); err != nil {
		return backend.Record{}, err
	}
	r, err := b.read(ctx, op, k)
	if err != nil {
		return backend.Record{}, err
	}
	return found(op, r, b.now())
}

func found(op string, r *backend.Record, now time.Time) (backend.Record, error) {
	if r == nil {
		return backend.Record{}, &backend.Error{Op: op, Kind: backend.ErrNotFound}
	}
	r.LeaseLeft = machine.LeaseLeft(*r, now)
	return *r, nil
}

// read loads a record without a lock.
func (b *Backend) read(ctx context.Context, op string, k backend.Key) (*backend.Record, error) {
	var r *backend.Record
	err := b.patiently(ctx, func() (err error) {
		r, err = b.sql.load(ctx, reader{b}, k)
		return err
	})
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return nil, backend.ContextDone(ctx, op)
	case code(err) == codeGeneric:
		return nil, schemaError(ctx, b.db, b.cfg.table, op, err)
	}
	return nil, notApplied(op, err)
}

// patiently repeats a read that finds the file locked. Readers hardly ever do in
// WAL mode, but the first one after a crash recovers the log, alone.
func (b *Backend) patiently(ctx context.Context, read func() error) error {
	for start := time.Now(); ; {
		err := read()
		if !isBusy(err) || time.Since(start) > b.cfg.budget || !pause(ctx) {
			return err
		}
	}
}
