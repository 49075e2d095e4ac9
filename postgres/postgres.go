package postgres

import (
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idem-go/idem/backend"
)

// MaxValue is the most bytes a response or a state can have. PostgreSQL takes up
// to 1 GB; what is stored is also held in memory several times on its way.
const MaxValue = 64 << 20

// Backend keeps records in one table. It is safe for concurrent use and owns
// nothing: the pool is the caller's to close.
type Backend struct {
	pool   *pgxpool.Pool
	cfg    config
	alone  statements
	within statements
}

var _ backend.Transactor[pgx.Tx] = (*Backend)(nil)

type config struct {
	table     table
	isolation pgx.TxIsoLevel
}

// Option changes how a Backend works. New and Migrate take the same options.
type Option func(*config)

// WithTable names the table. An empty schema leaves it to the search_path, also to
// one that an effect sets: name the schema where effects do. The default is the table
// idem_keys.
func WithTable(schema, name string) Option {
	return func(c *config) { c.table = table{schema: schema, name: name} }
}

// WithIsolation sets the isolation level of Transact and InLease. The default
// is the database's. At repeatable read and above more transactions end with
// ErrRetryTx.
func WithIsolation(level pgx.TxIsoLevel) Option {
	return func(c *config) { c.isolation = level }
}

// New returns a backend on the pool. It does not talk to the server. A nil pool
// and names that no table can have are ErrInvalid.
func New(pool *pgxpool.Pool, opts ...Option) (*Backend, error) {
	if pool == nil {
		return nil, invalid("new", "the pool is nil")
	}
	cfg, err := configure(opts)
	if err != nil {
		return nil, err
	}
	name := cfg.table.String()
	return &Backend{pool: pool, cfg: cfg, alone: alone(name), within: within(name)}, nil
}

func configure(opts []Option) (config, error) {
	c := config{table: table{name: "idem_keys"}}
	for _, o := range opts {
		o(&c)
	}
	switch c.isolation {
	case "", pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		return c, invalid("new", "the isolation level is none that PostgreSQL has")
	}
	return c, c.table.validate()
}

// table is the name of a table, as the caller wrote it.
type table struct{ schema, name string }

// maxIdentifier is NAMEDATALEN-1: PostgreSQL cuts longer names silently.
const maxIdentifier = 63

func (t table) validate() error {
	if t.name == "" {
		return invalid("new", "the table has no name")
	}
	for _, s := range []string{t.schema, t.name} {
		if len(s) > maxIdentifier || !utf8.ValidString(s) {
			return invalid("new", "a name of a schema or table has at most 63 bytes of UTF-8")
		}
		for _, r := range s {
			if r == 0 {
				return invalid("new", "a name of a schema or table contains a NUL")
			}
		}
	}
	return nil
}

// String quotes the name for SQL.
func (t table) String() string {
	if t.schema == "" {
		return pgx.Identifier{t.name}.Sanitize()
	}
	return pgx.Identifier{t.schema, t.name}.Sanitize()
}

// micros is the resolution of the server's clock. Durations are rounded up to it,
// so that nothing is granted for shorter than asked.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func roundUp(d time.Duration) time.Duration { return time.Duration(micros(d)) * time.Microsecond }

// timeOf is the instant of a column read as microseconds since 1970; 0 stands for
// NULL.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
