package idem

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/idem-go/idem/backend"
)

// Defaults of the options.
const (
	DefaultLease       = 30 * time.Second
	DefaultRetention   = 72 * time.Hour
	DefaultAbandon     = 7 * 24 * time.Hour
	DefaultTxWait      = 5 * time.Second
	DefaultRetryAfter  = 2 * time.Second
	DefaultMaxResponse = 1 << 20
	DefaultMaxState    = 1 << 20
	DefaultMinKey      = 8
	DefaultMaxKey      = 255
)

// Option changes how an executor works.
type Option func(*config)

type config struct {
	lease, retention, remember, abandon time.Duration

	wait                  *time.Duration
	retryAfter            time.Duration
	maxResponse, maxState int
	minKey, maxKey        int
	fingerprinters        []*Fingerprinter
	refuseTakeover        func(operation string) bool
	observe               func(context.Context, Event)
	versions              []string // of code with steps, this one's first; nil: none
	codec                 Codec

	sealer          Sealer // nil: none
	seals, unsealed bool
}

// version of the code, where it has steps.
func (c *config) version() string {
	if len(c.versions) == 0 {
		return ""
	}
	return c.versions[0]
}

// WithLease sets how long a run holds its key without a sign of life, 30 s by
// default. Running effects renew it, so it need not cover the longest of them: it
// is how long a retry has to wait after a crash. On the transaction path it bounds
// the effect.
func WithLease(d time.Duration) Option { return func(c *config) { c.lease = d } }

// WithRetention sets how long a completed record answers retries, counted from
// its completion, 72 h by default. It must exceed the time after which no client
// retries any more: then the key is free again, and a later retry is a second run, unless
// the record is remembered ([WithRemember]).
func WithRetention(d time.Duration) Option { return func(c *config) { c.retention = d } }

// WithRemember sets how long after its retention a completed record is remembered
// without its answer, 0 by default. A retry that comes so late gets a TombstoneError
// with the reason [backend.Expired], and one of another request ErrMismatch; the effect
// does not run. It costs a row without a body, so that it can be much longer than the
// retention. Bodies go with the first sweep after the retention. Packages memory and sqlite
// do it; the other stores refuse each request of an executor with this option with ErrInvalid,
// and its effect does not run. It holds for what is claimed from now on by programs that know it: processes
// of an older version free a key when the retention is over.
func WithRemember(d time.Duration) Option { return func(c *config) { c.remember = d } }

// WithAbandonAfter sets how long an unfinished record is kept after its last
// activity, a week by default and never less than the retention.
func WithAbandonAfter(d time.Duration) Option { return func(c *config) { c.abandon = d } }

// WithWait lets a duplicate wait up to d for the first run to end, and then get
// its answer. By default Do does not wait and DoTx waits 5 s. In one process
// duplicates wait in memory and hold no connection. For a run of another process
// under a lease they ask the store again and again, up to a second apart; Do listens
// instead where the store is a [backend.Waiter], as etcd is.
func WithWait(d time.Duration) Option { return func(c *config) { c.wait = &d } }

// WithRetryAfter sets the ceiling of InProgressError.RetryAfter, 2 s by default.
func WithRetryAfter(ceiling time.Duration) Option {
	return func(c *config) { c.retryAfter = ceiling }
}

// WithMaxResponse sets how many bytes of an answer (header and body) are stored,
// 1 MiB by default. A larger one is given to its first caller and leaves a
// tombstone: retries get a TombstoneError.
func WithMaxResponse(bytes int) Option { return func(c *config) { c.maxResponse = bytes } }

// WithPhases says that effects have steps ([Phase], [PhaseTx], [Call]), and gives the
// version of their code a name. A record that was begun by another version is
// refused with ErrRecoveryPoint before its effect runs, unless that version is among
// those accepted: the code can ask [Run.Version] and go on with it as it was begun.
// Without this option every record with a recovery point is refused: code that knows
// no steps would do again what they have done.
func WithPhases(version string, accepted ...string) Option {
	return func(c *config) { c.versions = append([]string{version}, accepted...) }
}

// WithMaxState sets how many bytes the results of all steps of a request may have
// together, with some 50 bytes for each step, 1 MiB by default.
func WithMaxState(bytes int) Option { return func(c *config) { c.maxState = bytes } }

// Codec makes bytes of the results of steps, and results of the bytes. What it wrote it
// must read as long as records are kept. It is used from many goroutines.
type Codec interface {
	Encode(v any) ([]byte, error)
	Decode(data []byte, v any) error // v is a pointer
}

// WithCodec sets how results of steps are stored, instead of encoding/json.
func WithCodec(codec Codec) Option { return func(c *config) { c.codec = codec } }

// WithKeyLength sets how many bytes a key may have, 8 to 255 by default.
func WithKeyLength(shortest, longest int) Option {
	return func(c *config) { c.minKey, c.maxKey = shortest, longest }
}

// WithFingerprinter sets how requests are compared. A deploy that changes it
// names the former ones as accepted, so that retries of older requests are still
// compared with what was stored for them; a record of a version that is neither
// is answered with ErrUnavailable.
func WithFingerprinter(current *Fingerprinter, accepted ...*Fingerprinter) Option {
	return func(c *config) {
		c.fingerprinters = append([]*Fingerprinter{current}, accepted...)
	}
}

// WithTakeover decides per operation whether a retry may run the effect again
// after a run died without reaching a recovery point. Yes for all by default (at
// least once). Where it may not, the retry gets ErrNeedsResolution.
func WithTakeover(allowed func(operation string) bool) Option {
	return func(c *config) {
		c.refuseTakeover = nil // newConfig refuses it
		if allowed != nil {
			c.refuseTakeover = func(op string) bool { return !allowed(op) }
		}
	}
}

// WithObserver has f called with one event per outcome, synchronously and from
// many goroutines. It must return quickly and not call the executor.
func WithObserver(f func(context.Context, Event)) Option {
	return func(c *config) { c.observe = f }
}

func newConfig(opts []Option) (config, error) {
	plain, err := NewFingerprinter()
	if err != nil {
		return config{}, err
	}
	c := config{
		lease: DefaultLease, retention: DefaultRetention,
		retryAfter: DefaultRetryAfter, maxResponse: DefaultMaxResponse, maxState: DefaultMaxState,
		codec:  jsonCodec{},
		minKey: DefaultMinKey, maxKey: DefaultMaxKey,
		fingerprinters: []*Fingerprinter{plain},
		refuseTakeover: func(string) bool { return false },
		observe:        func(context.Context, Event) {},
	}
	for _, o := range opts {
		if o == nil {
			return config{}, invalid("an option is nil")
		}
		o(&c)
	}
	if c.abandon == 0 {
		c.abandon = max(DefaultAbandon, c.retention)
	}
	return c, c.validate()
}

func (c config) validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"lease", c.lease}, {"retention", c.retention}, {"abandon after", c.abandon}, {"retry after", c.retryAfter}} {
		if d.d < backend.MinDuration || d.d > backend.MaxDuration {
			return invalid("%s is %v, it must be between %v and %v", d.name, d.d, backend.MinDuration, backend.MaxDuration)
		}
	}
	switch {
	case c.remember < 0 || c.remember > backend.MaxDuration:
		return invalid("remember is %v, it must be between 0 and %v", c.remember, backend.MaxDuration)
	case c.lease > c.retention:
		return invalid("the lease (%v) is longer than the retention (%v)", c.lease, c.retention)
	case c.abandon < c.retention:
		return invalid("abandon after (%v) is shorter than the retention (%v)", c.abandon, c.retention)
	case c.wait != nil && *c.wait < 0:
		return invalid("wait is negative")
	case c.maxResponse < 0:
		return invalid("the largest response is negative")
	case c.maxState < 1:
		return invalid("the largest state is %d bytes", c.maxState)
	case c.codec == nil:
		return invalid("the codec is nil")
	case c.minKey < 1, c.maxKey < c.minKey, c.maxKey > backend.MaxKeyPart:
		return invalid("keys of %d to %d bytes; 1 to %d are possible", c.minKey, c.maxKey, backend.MaxKeyPart)
	case len(c.fingerprinters) > backend.MaxVersions:
		return invalid("%d fingerprinters, the limit is %d", len(c.fingerprinters), backend.MaxVersions)
	case c.observe == nil, c.refuseTakeover == nil, c.seals && c.sealer == nil:
		return invalid("an option was given nil")
	}
	for _, v := range c.versions {
		if v == "" || len(v) > backend.MaxVersion || !utf8.ValidString(v) {
			return invalid("a version of WithPhases has %d bytes or is not UTF-8; 1 to %d bytes are possible", len(v), backend.MaxVersion)
		}
	}
	for _, f := range c.fingerprinters {
		if f == nil {
			return invalid("a fingerprinter is nil")
		}
	}
	return nil
}

// waitOr is how long a duplicate waits, given the request's own wait and the default of
// its path.
func (c config) waitOr(own *time.Duration, d time.Duration) time.Duration {
	switch {
	case own != nil:
		return *own
	case c.wait != nil:
		return *c.wait
	}
	return d
}
