package redis

import (
	"context"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// MaxValue is the most bytes a response or a state can have. Redis takes 512 MB; while a
// script stores a value nobody else is served.
const MaxValue = 16 << 20

// MaxPrefix is the most bytes a prefix can have.
const MaxPrefix = 64

// Backend keeps each record in a hash. It is safe for concurrent use and owns
// nothing: the client is the caller's to close.
type Backend struct {
	client goredis.UniversalClient
	cfg    config
	do     scripts
}

var _ backend.Backend = (*Backend)(nil)

type config struct {
	prefix   string
	replicas int
	timeout  time.Duration
}

// Option changes how a Backend works.
type Option func(*config)

// WithPrefix sets what the names of all keys begin with, 1 to [MaxPrefix] bytes. The
// default is "idem:". Backends with different prefixes share nothing.
func WithPrefix(prefix string) Option {
	return func(c *config) { c.prefix = prefix }
}

// WithReplicas lets every call wait (WAIT) until n replicas have confirmed what it
// wrote or was told, at most for timeout, 1 ms or more. Fewer confirmations are
// an error whose outcome is unknown: the write stands and may be lost. It takes one
// more round trip, and does not make a failover safe: the replica that is
// promoted may be another. It needs a *Client or a *ClusterClient of go-redis.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(c *config) { c.replicas, c.timeout = n, timeout }
}

// New returns a backend on the client. It does not talk to the server. A
// goredis.Ring is ErrInvalid: when one of its shards is down it takes another for
// the same key, so that a key has two owners.
func New(client goredis.UniversalClient, opts ...Option) (*Backend, error) {
	c := config{prefix: "idem:"}
	for _, o := range opts {
		o(&c)
	}
	switch client.(type) {
	case nil:
		return nil, invalid("the client is nil")
	case *goredis.Ring:
		return nil, invalid("a Ring has two owners for a key when a shard is down: use a Client, a failover client or a ClusterClient")
	case *goredis.Client, *goredis.ClusterClient:
	default:
		if c.replicas != 0 {
			return nil, invalid("WithReplicas needs a *Client or a *ClusterClient")
		}
	}
	switch {
	case c.prefix == "" || len(c.prefix) > MaxPrefix:
		return nil, invalid("the prefix has " + strconv.Itoa(len(c.prefix)) + " bytes, it must be 1 to " + strconv.Itoa(MaxPrefix))
	case c.replicas < 0 || c.replicas > 0 && c.timeout < time.Millisecond:
		return nil, invalid("WithReplicas needs a number of replicas and at least 1ms")
	}
	return &Backend{client: client, cfg: c, do: shipped}, nil
}

// Claim implements [backend.Backend].
func (b *Backend) Claim(ctx context.Context, c backend.Claim) (backend.Claimed, error) {
	if err := validate(c); err != nil {
		return backend.Claimed{}, err
	}
	args := []string{
		hexID(c.ID), c.Operation, c.Target.Method, c.Target.Path, string(c.Payload),
		micros(c.Lease), micros(c.Retention), micros(c.Abandon), flag(c.RefuseTakeover), flag(c.Revive),
	}
	for _, f := range c.Fingerprints {
		args = append(args, f.Version, hexSum(f.Sum))
	}
	reply, err := b.run(ctx, "claim", b.do.claim, c.Key, args...)
	if goredis.IsOOMError(err) {
		return b.claimFull(ctx, c, err)
	}
	if err != nil {
		return backend.Claimed{}, err
	}
	return readClaimed(c.Key, reply)
}

// claimFull answers a claim on a server that takes no more: what needs no write
// can be told all the same.
func (b *Backend) claimFull(ctx context.Context, c backend.Claim, full error) (backend.Claimed, error) {
	r, now, err := b.get(ctx, "claim", c.Key)
	if err != nil || r == nil {
		return backend.Claimed{}, full
	}
	if _, out := machine.Step(r, machine.Claim{Claim: c}, now); !out.Changed {
		return out.Claimed, nil
	}
	return backend.Claimed{}, full
}

// Renew implements [backend.Backend].
func (b *Backend) Renew(ctx context.Context, l backend.Lease, ttl time.Duration) error {
	if err := l.ValidateRenewal(ttl); err != nil {
		return err
	}
	return b.write(ctx, "renew", b.do.renew, l, micros(ttl))
}

// Checkpoint implements [backend.Backend].
func (b *Backend) Checkpoint(ctx context.Context, l backend.Lease, c backend.Checkpoint) error {
	if err := c.Validate(l, MaxValue); err != nil {
		return err
	}
	return b.write(ctx, "checkpoint", b.do.checkpoint, l, decimal(c.Sequence), c.Point, string(c.State))
}

// Complete implements [backend.Backend].
func (b *Backend) Complete(ctx context.Context, l backend.Lease, c backend.Completion) error {
	if err := c.Validate(l, MaxValue); err != nil {
		return err
	}
	r := c.Response
	return b.write(ctx, "complete", b.do.complete, l, decimal(c.Sequence),
		string(r.Tombstone), strconv.Itoa(r.Status), string(r.Header), string(r.Body))
}

// Release implements [backend.Backend].
func (b *Backend) Release(ctx context.Context, l backend.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return b.write(ctx, "release", b.do.release, l)
}

// write runs the script of a holder, which answers with a word.
func (b *Backend) write(ctx context.Context, what string, s *script, l backend.Lease, args ...string) error {
	reply, err := b.run(ctx, what, s, l.Key, append([]string{hexID(l.ClaimID), decimal(l.Token)}, args...)...)
	if err != nil {
		return err
	}
	switch reply {
	case "done":
		return nil
	case "lost":
		return &backend.Error{Op: op + what, Kind: backend.ErrLeaseLost}
	case "conflict":
		return &backend.Error{Op: op + what, Kind: backend.ErrConflict}
	}
	return unreadable(what)
}

// Get implements [backend.Backend].
func (b *Backend) Get(ctx context.Context, k backend.Key) (backend.Record, error) {
	if err := k.Validate(); err != nil {
		return backend.Record{}, err
	}
	r, _, err := b.get(ctx, "get", k)
	switch {
	case err != nil:
		return backend.Record{}, err
	case r == nil:
		return backend.Record{}, &backend.Error{Op: op + "get", Kind: backend.ErrNotFound}
	}
	return *r, nil
}

// get returns the record, nil if there is none, and the server's time.
func (b *Backend) get(ctx context.Context, what string, k backend.Key) (*backend.Record, time.Time, error) {
	reply, err := b.run(ctx, what, b.do.get, k)
	if err != nil {
		return nil, time.Time{}, changesNothing(err)
	}
	return readRecord(what, k, reply)
}
