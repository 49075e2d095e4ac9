package sqlite

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// maxGroup bounds the writes that share a transaction.
const maxGroup = 64

// queue orders the writers of this process, so that only one of them contends for
// the file's lock. Waiting for it there is polling, and unfair.
type queue struct {
	budget time.Duration
	slot   chan struct{} // held while writing; Go wakes blocked senders in their order

	mu       sync.Mutex
	free     time.Time // when the last writer of this process left
	moved    time.Time // when a writer, of any process, was last seen to get on
	rested   time.Time // when the file was last left alone
	pending  []*write
	flushing bool
}

func newQueue(budget time.Duration) queue {
	return queue{budget: budget, slot: make(chan struct{}, 1)}
}

// write is a message on its way to the record of a key.
type write struct {
	op    string
	key   backend.Key
	msg   machine.Message
	since time.Time

	done chan struct{} // closed when out and err are set
	out  machine.Outcome
	err  error
}

func (w *write) finish(err error) {
	if err == nil && w.out.Err != nil {
		err = &backend.Error{Op: w.op, Kind: w.out.Err}
	}
	if w.err = err; err != nil {
		w.out = machine.Outcome{}
	}
	close(w.done)
}

// patience is how much longer a writer that waits since then does so. As long as
// writers come and go nobody gives up: only one that holds the file for the whole
// budget makes the others fail.
func (q *queue) patience(since time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.moved.After(since) {
		since = q.moved
	}
	return time.Until(since.Add(q.budget))
}

// progress notes that somebody got on: a transaction began or ended, of this
// process or of another one.
func (q *queue) progress() {
	q.mu.Lock()
	q.moved = time.Now()
	q.mu.Unlock()
}

func errOutlasted(op string) error { return notApplied(op, errLocked) }

// enter waits for the slot.
func (q *queue) enter(ctx context.Context, op string, since time.Time) error {
	select {
	case q.slot <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(q.patience(since))
	defer timer.Stop()
	for {
		select {
		case q.slot <- struct{}{}:
			return nil
		case <-ctx.Done():
			return backend.ContextDone(ctx, op)
		case <-timer.C:
			left := q.patience(since)
			if left <= 0 {
				return errOutlasted(op)
			}
			timer.Reset(left)
		}
	}
}

func (q *queue) leave() {
	q.mu.Lock()
	q.free = time.Now()
	q.mu.Unlock()
	<-q.slot
}

// Writers that follow each other without a gap starve the transactions of the
// application, who can only poll. Every stretch they leave the file alone for a
// breather. What arrives meanwhile goes together afterwards, so that it costs little.
const (
	stretch  = 20 * time.Millisecond
	breather = 2 * time.Millisecond
)

// rest is called by the holder of the slot before it goes for the file.
func (q *queue) rest(ctx context.Context) {
	q.mu.Lock()
	now := time.Now()
	gap, busy := now.Sub(q.free), now.Sub(q.rested)
	if gap >= breather || busy >= stretch {
		q.rested = now
	}
	q.mu.Unlock()
	if gap >= breather || busy < stretch {
		return
	}
	t := time.NewTimer(breather - gap)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// withdraw takes a write back that no transaction has begun with.
func (q *queue) withdraw(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range q.pending {
		if p == w {
			q.pending = append(q.pending[:i], q.pending[i+1:]...)
			return true
		}
	}
	return false
}

// take returns the next writes, the oldest first; before limits them to those
// that arrived by then.
func (q *queue) take(before time.Time) []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.pending) && n < maxGroup && !q.pending[n].since.After(before) {
		n++
	}
	group := q.pending[:n:n]
	q.pending = q.pending[n:]
	return group
}

// idle reports whether nothing is left to flush, and if so ends the flushing.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushing = len(q.pending) > 0
	return !q.flushing
}

// write runs one message of the state machine on the record of a key. The first
// one goes at once; those that arrive while it is being written go together in
// the next transaction. The message's bytes have to be copies: it may be written
// after its caller's context has ended and the caller has gone.
func (b *Backend) write(ctx context.Context, op string, k backend.Key, m machine.Message) (machine.Outcome, error) {
	if err := b.enter(ctx, op); err != nil {
		return machine.Outcome{}, err
	}
	w := &write{op: op, key: k, msg: m, since: time.Now(), done: make(chan struct{})}
	q := &b.queue
	q.mu.Lock()
	q.pending = append(q.pending, w)
	if !q.flushing {
		q.flushing = true
		go b.flush()
	}
	q.mu.Unlock()
	select {
	case <-w.done:
		w.out.Claimed.Record = w.out.Claimed.Record.Clone()
		return w.out, w.err
	case <-ctx.Done():
		if q.withdraw(w) {
			return machine.Outcome{}, backend.ContextDone(ctx, op)
		}
		return machine.Outcome{}, &backend.Error{Op: op, Err: context.Cause(ctx), Hint: "the write was under way"}
	}
}

// flush writes what is pending and ends when nothing is.
func (b *Backend) flush() {
	for more := true; more; more = !b.queue.idle() {
		began := time.Now()
		t, err := b.lock(context.Background(), "sqlite: write")
		if err != nil {
			for _, w := range b.queue.take(began) {
				w.finish(withOp(err, w.op))
			}
			continue
		}
		b.run(t, b.queue.take(time.Now()))
	}
}

// run applies a group in one transaction, and if that fails each of its writes in
// one of its own, so that none suffers from another.
func (b *Backend) run(t *txn, group []*write) {
	ctx := context.Background()
	changed, err := b.apply(ctx, t, group)
	switch {
	case err == nil && changed:
		err = t.commit("sqlite: write")
	default:
		t.rollback()
	}
	if err != nil && len(group) > 1 && backend.NotApplied(err) {
		for _, w := range group {
			t, err := b.lock(ctx, w.op)
			if err != nil {
				w.finish(err)
				continue
			}
			b.run(t, []*write{w})
		}
		return
	}
	for _, w := range group {
		w.finish(withOp(err, w.op))
	}
}

// apply stores what the state machine says of each write.
func (b *Backend) apply(ctx context.Context, t *txn, group []*write) (changed bool, err error) {
	for _, w := range group {
		if _, w.out, err = b.sql.step(ctx, t, w.key, w.msg, b.now()); err != nil {
			return false, t.explain(ctx, w.op, err)
		}
		changed = changed || w.out.Changed
	}
	return changed, nil
}

// withOp is the error of a group as that of one of its writes.
func withOp(err error, op string) error {
	if e, ok := errors.AsType[*backend.Error](err); ok {
		c := *e
		c.Op = op
		return &c
	}
	return err
}
