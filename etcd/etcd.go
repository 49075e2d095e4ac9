package etcd

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/idem-go/idem/backend"
)

// DefaultMaxValue is the most bytes a response or a state can have where
// [WithMaxValue] says nothing else: a megabyte and its headers. A request to etcd has
// at most 1.5 MiB (--max-request-bytes), and a record is written as a whole.
const DefaultMaxValue = 1<<20 + 64<<10

// Backend keeps records in etcd. It is safe for concurrent use and owns nothing:
// the client is the caller's to close.
type Backend struct {
	client *clientv3.Client
	cfg    config
	recent recent
	leases retention
}

var _ backend.Backend = (*Backend)(nil)

type config struct {
	prefix   string
	maxValue int64
	timeout  time.Duration
}

// Option changes how a Backend works.
type Option func(*config)

// WithPrefix sets what all keys in etcd begin with, "idem/" by default. Backends with
// one prefix share their records.
func WithPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithMaxValue sets the most bytes that a response or a state can have, 1 KiB to
// 64 MiB. Beyond [DefaultMaxValue] the server's --max-request-bytes and the client's
// Config.MaxCallSendMsgSize have to be larger by 256 KiB.
func WithMaxValue(bytes int) Option { return func(c *config) { c.maxValue = int64(bytes) } }

// WithTimeout bounds every operation, 10 s by default, also where its context has no
// deadline: without one a call waits for as long as no server answers.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// New returns a backend on the client. It does not talk to the server; see
// [Backend.Describe]. A nil client and options out of their range are
// [backend.ErrInvalid].
func New(client *clientv3.Client, opts ...Option) (*Backend, error) {
	cfg := config{prefix: "idem/", maxValue: DefaultMaxValue, timeout: 10 * time.Second}
	for _, o := range opts {
		o(&cfg)
	}
	switch {
	case client == nil:
		return nil, invalid("the client is nil")
	case cfg.prefix == "" || len(cfg.prefix) > 255 || strings.ContainsRune(cfg.prefix, 0):
		return nil, invalid("a prefix has 1 to 255 bytes and no NUL")
	case cfg.maxValue < 1<<10 || cfg.maxValue > 64<<20:
		return nil, invalid("the largest value is between 1 KiB and 64 MiB")
	case cfg.timeout < backend.MinDuration || cfg.timeout > backend.MaxDuration:
		return nil, invalid("the timeout is between 1ms and ten years")
	}
	return &Backend{client: client, cfg: cfg, leases: newRetention()}, nil
}

// begin is the start of every operation: it bounds its time.
func (b *Backend) begin(ctx context.Context, op string) (context.Context, context.CancelFunc, error) {
	if err := backend.ContextDone(ctx, op); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.timeout)
	return ctx, cancel, nil
}

// attempts bounds how often an operation decides again because another one came
// first. Each time that other one got on.
const attempts = 16

// clock gives the times in records, which are for people only: nothing is decided
// by them.
func clock() time.Time { return time.UnixMicro(time.Now().UnixMicro()).UTC() }

// Get implements [backend.Backend]. It takes one round trip, and another one for what
// is left of a lease.
func (b *Backend) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	const op = "etcd: get"
	if err := k.Validate(); err != nil {
		return backend.Record{}, err
	}
	ctx, cancel, err := b.begin(ctx, op)
	if err != nil {
		return backend.Record{}, err
	}
	defer cancel()
	s, err := b.read(ctx, op, b.keysOf(k))
	switch {
	case err != nil:
		return backend.Record{}, err
	case s.record == nil:
		return backend.Record{}, &backend.Error{Op: op, Kind: backend.ErrNotFound}
	}
	r := *s.record
	r.LeaseLeft, _, err = b.left(ctx, op, s)
	return r, err
}
