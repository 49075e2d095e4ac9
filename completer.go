package idem

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
)

// Completer finds runs that died and whose clients never came back, and drives them to
// their end. Several processes may have one each: of two that find a record only one
// runs it. What it runs is what a client's retry would: steps that are done are not
// run again, and a client that does come back gets the answer.
//
// Register a handler for each operation with [Handle], then call Run.
type Completer struct {
	e        *Executor
	list     backend.Lister
	cfg      completerConfig
	handlers map[string]handler

	mu    sync.Mutex // of a pass
	seen  map[backend.Key]sighting
	given map[backend.Key]backend.Token // up, and told so

	waiting sync.Map // key to token: waits for a person, and is as it was when that was found out
}

// handler runs an operation for a record with this payload. It reports an error
// without running anything where the payload is not the operation's.
type handler func(payload []byte) (program, error)

// program is what a handler makes of a payload.
type program = func(context.Context, *Run) (Response, error)

// sighting is since when a record is known to be lapsed after this claim.
type sighting struct {
	token backend.Token
	since time.Time
	wait  time.Duration
}

type completerConfig struct {
	concurrency int
	attempts    int
	base, most  time.Duration
	failed      func(ctx context.Context, operation string, attempt int, err error)
}

// Defaults of a completer's options.
const (
	DefaultConcurrency = 4
	DefaultAttempts    = 20
	DefaultBackoff     = time.Second
	DefaultMaxBackoff  = 15 * time.Minute
)

// CompleterOption changes how a completer works.
type CompleterOption func(*completerConfig)

// WithConcurrency sets how many records a completer runs at once, 4 by default.
func WithConcurrency(n int) CompleterOption { return func(c *completerConfig) { c.concurrency = n } }

// WithAttempts sets after how many attempts of a request, its client's included, a
// completer gives it up, 20 by default. Its record stays for its client, and for a
// person: the event [GivenUp] and [Passed] tell of it. Attempts that only find that a
// record waits for a person count, too: one that is resolved after the last of them is
// not taken up again, but by its client.
func WithAttempts(n int) CompleterOption { return func(c *completerConfig) { c.attempts = n } }

// WithBackoff sets how long a record has to have been lapsed before a completer takes
// it: base after the first attempt, doubled with each further one, at most the
// ceiling; 1 s and 15 min by default. The time counts from when this process first saw it.
func WithBackoff(base, ceiling time.Duration) CompleterOption {
	return func(c *completerConfig) { c.base, c.most = base, ceiling }
}

// WithFailures has f called with the error of each run that did not end its record, of
// each payload that does not decode, and of each record that waits for a person. attempt
// counts the attempts before this one. It is called from several goroutines.
func WithFailures(f func(ctx context.Context, operation string, attempt int, err error)) CompleterOption {
	return func(c *completerConfig) { c.failed = f }
}

// NewCompleter returns a completer for the records of the executor's backend. ErrInvalid:
// the backend can't list them ([backend.Lister]), or an option is out of range.
func NewCompleter(e *Executor, opts ...CompleterOption) (*Completer, error) {
	if e == nil {
		return nil, invalid("the executor is nil")
	}
	list, ok := e.b.(backend.Lister)
	if !ok {
		return nil, invalid("the backend can't list what nobody goes on with: it is no backend.Lister")
	}
	c := &Completer{
		e: e, list: list, handlers: make(map[string]handler), given: make(map[backend.Key]backend.Token),
		cfg: completerConfig{
			DefaultConcurrency, DefaultAttempts, DefaultBackoff, DefaultMaxBackoff,
			func(context.Context, string, int, error) {},
		},
	}
	for _, o := range opts {
		if o == nil {
			return nil, invalid("an option is nil")
		}
		o(&c.cfg)
	}
	if cfg := c.cfg; cfg.concurrency < 1 || cfg.attempts < 1 || cfg.base < 0 || cfg.most < cfg.base || cfg.failed == nil {
		return nil, invalid("the completer's concurrency or attempts are below 1, its backoff is negative or above its ceiling, or a function is nil")
	}
	return c, nil
}

// Handle registers the effect of an operation. payload is what [Request].Payload was, read
// by the executor's codec (JSON by default); a P of []byte gets it as it is. Handlers are
// registered before the first pass. ErrInvalid: there is one already.
//
// The effect is the one that requests of the operation run, with its steps, and V their
// result. Its error leaves the record for a later pass, when its lease is over.
func Handle[P, V any](c *Completer, operation string, effect func(ctx context.Context, run *Run, payload P) (V, error)) error {
	switch {
	case c == nil || effect == nil:
		return invalid("the completer or the effect is nil")
	case c.handlers[operation] != nil:
		return invalid("the operation has a handler already")
	}
	c.handlers[operation] = func(payload []byte) (program, error) {
		var p P
		if raw, ok := any(&p).(*[]byte); ok {
			*raw = payload
		} else if err := c.e.cfg.codec.Decode(payload, &p); err != nil {
			return nil, invalidValue("stored as the payload does not decode into the handler's type", unquoted{err})
		}
		return func(ctx context.Context, run *Run) (Response, error) {
			return recovering(func() (Response, error) {
				v, _, err := settle(effect(ctx, run, p))
				if err != nil {
					return Response{}, err
				}
				resp, err := encode(v)
				if err != nil {
					return Response{Tombstone: backend.NotStored}, nil //nolint:nilerr // as Do does
				}
				return resp, nil
			})
		}, nil
	}
	return nil
}

// recovering makes an error of a panic of the handler or its types: nobody is there to see it, and one request must
// not end the process again and again.
func recovering[V any](f func() (V, error)) (v V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return f()
}

// Passed counts what one pass found.
type Passed struct {
	Completed int // driven to the end
	Failed    int // tried and not ended; a later pass tries again
	Waiting   int // not due yet, or taken by somebody else meanwhile
	Unhandled int // of operations without a handler
	Unread    int // whose payload does not decode
	Resolve   int // that wait for a person
	GivenUp   int // that had all their attempts
}

// Pass goes through all lapsed records once, and runs those that are due. It returns when
// their runs have ended. Passes of one completer wait for each other. The error is the
// store's, or the context's.
func (c *Completer) Pass(ctx context.Context) (p Passed, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, given := c.seen, c.given
	c.seen, c.given = make(map[backend.Key]sighting), make(map[backend.Key]backend.Token)
	var mu sync.Mutex
	var runs sync.WaitGroup
	slots := make(chan struct{}, c.cfg.concurrency)
	err = c.list.Lapsed(ctx, func(l backend.Lapse) bool {
		h := c.handlers[l.Operation]
		token, waits := c.waiting.Load(l.Key)
		switch {
		case h == nil:
			p.Unhandled++
			return true
		case waits && token == l.Token:
			c.seen[l.Key] = before[l.Key]
			count(&mu, &p.Resolve)
			return true
		case l.Attempt >= c.cfg.attempts:
			p.GivenUp++
			c.giveUp(ctx, l, given)
			return true
		case !c.due(l, before):
			count(&mu, &p.Waiting)
			return true
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		runs.Go(func() {
			as := failed // also if the handler ends the goroutine
			defer func() {
				count(&mu, as.of(&p))
				<-slots
			}()
			as = c.complete(ctx, l, h)
		})
		return true
	})
	runs.Wait()
	c.waiting.Range(func(k, _ any) bool {
		if _, still := c.seen[k.(backend.Key)]; !still && err == nil {
			c.waiting.Delete(k)
		}
		return true
	})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p, err
}

func count(mu *sync.Mutex, n *int) {
	mu.Lock()
	defer mu.Unlock()
	*n++
}

// Run makes a pass about every interval until ctx ends, and returns its cause. A pass
// that fails is tried again after the next interval. Run it in a goroutine of its own.
func (c *Completer) Run(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return invalid("the completer's interval is %v", interval)
	}
	for {
		if err := sleep(ctx, interval*9/10+rand.N(interval/5+1)); err != nil {
			return err
		}
		if _, err := c.Pass(ctx); err != nil && ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// due notes a lapsed record and reports whether its time has come.
func (c *Completer) due(l backend.Lapse, before map[backend.Key]sighting) bool {
	s, known := before[l.Key]
	if !known || s.token != l.Token {
		s = sighting{l.Token, time.Now(), c.backoff(l.Attempt)}
	}
	c.seen[l.Key] = s
	return time.Since(s.since) >= s.wait
}

func (c *Completer) backoff(attempt int) time.Duration {
	d := c.cfg.base
	for i := 1; i < attempt && d < c.cfg.most; i++ {
		d *= 2
	}
	return jitter(min(d, c.cfg.most))
}

// giveUp tells of a record once.
func (c *Completer) giveUp(ctx context.Context, l backend.Lapse, before map[backend.Key]backend.Token) {
	c.given[l.Key] = l.Token
	if before[l.Key] == l.Token {
		return
	}
	c.e.cfg.observe(ctx, Event{Kind: GivenUp, Operation: l.Operation, Attempt: l.Attempt})
}

// end is how the run of one record ended.
type end int

const (
	ended end = iota
	failed
	taken
	unread
	waits
)

// of is the count that an end belongs to.
func (e end) of(p *Passed) *int {
	return []*int{&p.Completed, &p.Failed, &p.Waiting, &p.Unread, &p.Resolve}[e]
}

// complete runs one record, if nobody else has it.
func (c *Completer) complete(ctx context.Context, l backend.Lapse, h handler) end {
	e := c.e
	if err := e.enter(); err != nil {
		return c.report(ctx, l, failed, err)
	}
	defer e.running.Done()
	r, err := e.b.Get(ctx, l.Key)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && r.Token != l.Token:
		return taken
	case err != nil:
		return c.report(ctx, l, failed, err)
	}
	effect, err := recovering(func() (program, error) { return h(r.Payload) })
	if err != nil {
		return c.report(ctx, l, unread, err)
	}
	cl := &call{Context: ctx, e: e, stays: true}
	cl.flight.claim = e.claimAgain(r)
	cl.flight.claim.RefuseTakeover = e.cfg.refuseTakeover(r.Operation)
	if _, leads := e.flights.join(&cl.flight); !leads {
		return taken
	}
	_, err = e.fly(cl, time.Now(), func(cl *call, wait time.Time) (outcome, error) {
		got, sent, err := e.acquire(cl, cl.flight.claim, wait)
		switch {
		case err != nil:
			return outcome{}, err
		case !got.Acquired:
			return outcome{}, errTaken
		case got.Record.Attempt == 1: // a new record: somebody else has ended what was found
			_ = e.release(cl, cl.flight.claim, got.Record.Holder()) // if it fails the lease ends by itself
			return outcome{}, errTaken
		}
		return e.lead(cl, got, sent, effect)
	})
	switch {
	case err == nil:
		return ended
	case errors.Is(err, errTaken), errors.Is(err, ErrInProgress):
		return taken
	case errors.Is(err, ErrNeedsResolution):
		token := l.Token // refused
		if cl.run.lease.Token != 0 {
			token = cl.run.lease.Token
		}
		c.waiting.Store(l.Key, token)
		return c.report(ctx, l, waits, err)
	}
	return c.report(ctx, l, failed, err)
}

func (c *Completer) report(ctx context.Context, l backend.Lapse, as end, err error) end {
	c.cfg.failed(ctx, l.Operation, l.Attempt, err)
	return as
}

// errTaken: the record was ended by somebody else.
var errTaken = errors.New("idem: somebody else has ended it")
