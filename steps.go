package idem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/internal/bound"
)

// steps is how far a run is through its effect.
type steps struct {
	mu      sync.Mutex
	inside  bool  // a step is under way
	at      int   // how many steps of the journal the code has come by
	open    bool  // something that this run began has an outcome that is not known
	err     error // why the run can't go on
	journal journal
}

// enter begins the step with this name and gives what the journal has of it: the
// zero step if it is the next after all that are stored.
func (r *Run) enter(name string) (step, error) {
	p := &r.steps
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.e.cfg.versions == nil:
		return step{}, invalid("the executor of a run with steps needs WithPhases")
	case p.inside:
		return step{}, invalid("a step began inside of another, or beside it")
	case p.err != nil:
		return step{}, p.err
	case r.stored.Load() != nil:
		return step{}, invalid("the record is completed, there can be no further step")
	}
	if err := (backend.Checkpoint{Sequence: 1, Point: step{Name: name, Status: stepNotSent}.point()}).Validate(r.lease, 0); name == "" || err != nil {
		return step{}, r.fails(invalid("the name of a step is empty, too long or has control characters"))
	}
	for _, s := range p.journal.Steps[:p.at] {
		if s.Name == name {
			return step{}, r.fails(recoveryPoint(fmt.Sprintf("two steps are called %q", name)))
		}
	}
	var s step
	if p.at < len(p.journal.Steps) {
		s = p.journal.Steps[p.at]
		if s.Name != name {
			return step{}, r.fails(recoveryPoint(fmt.Sprintf("the record's step %d is %q, the code's is %q", p.at+1, s.Name, name)))
		}
	}
	p.inside = true
	return s, nil
}

func (r *Run) leave() {
	r.steps.mu.Lock()
	defer r.steps.mu.Unlock()
	r.steps.inside = false
}

// stuck notes that the run can't go on: nothing runs after an error that is not an
// answer of the step's own, and nothing is stored over it.
func (r *Run) stuck(err error) error {
	r.steps.mu.Lock()
	defer r.steps.mu.Unlock()
	return r.fails(err)
}

// fails is stuck with the lock held.
func (r *Run) fails(err error) error {
	if r.steps.err == nil {
		r.steps.err = err
	}
	return err
}

// open notes whether something that this run began has an outcome that is not known.
func (r *Run) open(is bool) {
	r.steps.mu.Lock()
	defer r.steps.mu.Unlock()
	r.steps.open = is
}

// finished reports whether the effect may end here.
func (r *Run) finished() error {
	p := &r.steps
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil:
		return p.err
	case p.inside:
		return r.fails(invalid("the effect ended while one of its steps is under way"))
	case p.at < len(p.journal.Steps):
		return r.fails(recoveryPoint(fmt.Sprintf("the effect ended without its step %q, which an earlier run had reached", p.journal.Steps[p.at].Name)))
	}
	return nil
}

// last begins the step that ends the effect. Whoever ends it calls leave.
func (r *Run) last() error {
	if err := r.finished(); err != nil {
		return err
	}
	if r.stored.Load() != nil {
		return invalid("the record is completed already")
	}
	r.steps.mu.Lock()
	defer r.steps.mu.Unlock()
	r.steps.inside = true
	return nil
}

// keeps reports whether a run that ends with this error leaves its lease to run out:
// what it did may not be through.
func (r *Run) keeps(err error) bool {
	r.steps.mu.Lock()
	defer r.steps.mu.Unlock()
	person := errors.Is(r.steps.err, ErrNeedsResolution) // who need not wait for a lease
	return r.stays && !person || maybeDone(err) || (r.steps.open || r.steps.inside) && !notDone(err)
}

// resume takes up the journal of a record with a recovery point: one that this code
// knows, or any.
func (r *Run) resume(state []byte, whatever bool) error {
	if r.e.cfg.versions == nil && !whatever {
		return recoveryPoint("its effect had steps when the record was left; the executor needs WithPhases")
	}
	j, err := readJournal(state)
	if err != nil {
		return err
	}
	if !whatever && !slices.Contains(r.e.cfg.versions, j.Version) {
		return recoveryPoint(fmt.Sprintf("the record was begun by version %q of the code; accept it with WithPhases", j.Version))
	}
	r.steps.journal = j.withoutUnsent()
	return nil
}

// stepRoom is what a step may have of a result at least.
const stepRoom = 32

// room reports whether a step with this name can be noted at all.
func (r *Run) room(name string) error {
	_, state, err := r.note(step{Name: name, Status: stepNotSent})
	if size := len(state) + stepRoom; err == nil && size > r.e.cfg.maxState {
		return r.tooLarge(size)
	}
	return err
}

// wrote notes the journal that is stored.
func (r *Run) wrote(j journal) {
	r.steps.mu.Lock()
	defer r.steps.mu.Unlock()
	r.steps.journal = j
}

func (r *Run) tooLarge(size int) error {
	return &backend.Error{Op: "idem: phase", Kind: ErrTooLarge, Hint: fmt.Sprintf("the results of the steps have %d bytes, the limit is %d (WithMaxState)", size, r.e.cfg.maxState)}
}

// holds reports whether the run has its lease, by the clock and not by a timer that
// may be late: a process that was stopped finds out here.
func (r *Run) holds(ctx context.Context) error {
	switch {
	case errors.Is(context.Cause(ctx), ErrLeaseLost), !time.Now().Before(r.e.beat.cutoff(r.beat)):
		return &backend.Error{Op: "idem: phase", Kind: ErrLeaseLost}
	case ctx.Err() != nil:
		return unavailable("phase", context.Cause(ctx))
	}
	return nil
}

// note gives the journal with the step that the run is at, and what is stored of it.
func (r *Run) note(s step) (j journal, state []byte, err error) {
	j = r.steps.journal.with(r.steps.at, s)
	if j.Version == "" {
		j.Version = r.e.cfg.version()
	}
	if state, err = j.bytes(); err == nil && len(state) > r.e.cfg.maxState {
		err = r.tooLarge(len(state))
	}
	return j, state, err
}

// record stores the step that the run is at. It has as long as the lease lasts that
// the run has now, and some time even if that is over, as a completion has: whatever
// becomes of the caller, what was done is not lost to one who goes away.
func (r *Run) record(ctx context.Context, s step) error {
	j, state, err := r.note(s)
	if err != nil {
		return err
	}
	c := backend.Checkpoint{Sequence: r.next(), Point: s.point(), State: state}
	end := someTime(r.e.beat.cutoff(r.beat), r.claim.Lease)
	for try := 1; ; try++ {
		err := r.checkpoint(ctx, c, end)
		if try == 1 {
			end = someTime(end, r.claim.Lease)
		}
		switch {
		case err == nil:
			r.wrote(j)
			return nil
		case backend.NotApplied(err) && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrRetryTx):
			return err
		}
		time.Sleep(min(backoff(try), max(0, time.Until(end))))
		if !time.Now().Before(end) {
			r.open(true)
			return unknown("phase", err)
		}
	}
}

// checkpoint takes a third of the time that is left, as a completion does.
func (r *Run) checkpoint(ctx context.Context, c backend.Checkpoint, end time.Time) error {
	once := bound.Detached(ctx, time.Now().Add(max(time.Until(end)/3, 10*time.Millisecond)))
	defer once.Cancel(nil)
	return r.e.b.Checkpoint(once, r.lease, c)
}

// encode gives the step that is done with the value.
func (r *Run) encode(name string, v any) (s step, err error) {
	s = step{Name: name, Status: stepDone}
	b, err := r.e.cfg.codec.Encode(v)
	if _, readable := r.e.cfg.codec.(jsonCodec); err == nil && !readable {
		b, err = json.Marshal(b)
	}
	if err != nil {
		return s, invalidValue("of a step does not encode", unquoted{err})
	}
	s.Result = b
	return s, nil
}

func decodeStep[V any](r *Run, s step) (v V, err error) {
	b := []byte(s.Result)
	if _, readable := r.e.cfg.codec.(jsonCodec); !readable {
		err = json.Unmarshal(s.Result, &b)
	}
	if err == nil {
		err = r.e.cfg.codec.Decode(b, &v)
	}
	if err != nil {
		return v, invalidValue("of a step does not decode into this type", unquoted{err})
	}
	return v, nil
}

// jsonCodec is the default. What it makes stands in the journal as it is.
type jsonCodec struct{}

func (jsonCodec) Encode(v any) ([]byte, error)    { return json.Marshal(v) }
func (jsonCodec) Decode(data []byte, v any) error { return json.Unmarshal(data, v) }
