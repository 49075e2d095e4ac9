package idem

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idem-go/idem/backend"
)

// renewers is how many renewals one executor sends at once.
const renewers = 16

// heartbeat keeps the leases of all runs of an executor alive with one timer. A
// run whose lease it can't confirm in time is cut off: its context ends before
// the store may give the key to somebody else.
type heartbeat struct {
	b backend.Backend

	mu      sync.Mutex
	queue   beats // by what is due next
	timer   *time.Timer
	due     []*beat // renewals nobody has taken yet
	workers int
}

// beat is one run's lease as this process knows it. All times are of the
// monotonic clock, counted from before the request that got them was sent.
type beat struct {
	call  *call // loses it, at most once
	lease backend.Lease
	ttl   time.Duration

	end      time.Time // the lease's, at the earliest
	renewAt  time.Time
	renewing bool
	held     bool               // a transaction has the record: no renewal could get through
	cancel   context.CancelFunc // of the renewal under way; nil: none
	index    int                // in the queue; -1 if it left
}

// cutoff is when the run has to end, an eighth of a lease before the store may give
// its key to somebody else.
func (b *beat) cutoff() time.Time { return b.end.Add(-b.ttl / 8) }

func (b *beat) next() time.Time {
	if b.renewing || b.held || b.cutoff().Before(b.renewAt) {
		return b.cutoff()
	}
	return b.renewAt
}

func (b *beat) confirm(sent time.Time, left time.Duration) {
	b.end = sent.Add(left)
	// A third of the lease, and less for some: runs that began together part.
	b.renewAt = sent.Add(left/3 - rand.N(left/12+1))
}

func newHeartbeat(b backend.Backend) *heartbeat { return &heartbeat{b: b} }

// start watches over a call's lease that the store granted for left, answering a
// request sent at sent.
func (h *heartbeat) start(cl *call, sent time.Time, left time.Duration) {
	b := &cl.beat
	b.call, b.lease, b.ttl = cl, cl.run.lease, cl.run.claim.Lease
	b.confirm(sent, left)
	h.mu.Lock()
	defer h.mu.Unlock()
	heap.Push(&h.queue, b)
	h.arm()
}

// stop ends the watch, also a renewal under way, and says when the lease ends at
// the earliest.
func (h *heartbeat) stop(b *beat) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(b)
	if b.cancel != nil {
		b.cancel()
	}
	h.arm()
	return b.end
}

// hold sends no renewals of a lease while a transaction has its record, and says when
// the run has to end. A renewal under way goes on.
func (h *heartbeat) hold(b *beat) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	b.held = true
	h.fix(b)
	return b.cutoff()
}

// resume ends a hold. The next renewal is due at once if it was meanwhile.
func (h *heartbeat) resume(b *beat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b.held = false
	h.fix(b)
}

// fix puts a beat where it belongs. Called with h.mu held.
func (h *heartbeat) fix(b *beat) {
	if b.index >= 0 {
		heap.Fix(&h.queue, b.index)
		h.arm()
	}
}

// cutoff is when the run of a beat has to end.
func (h *heartbeat) cutoff(b *beat) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return b.cutoff()
}

func (h *heartbeat) remove(b *beat) bool {
	if b.index < 0 {
		return false
	}
	heap.Remove(&h.queue, b.index)
	return true
}

// arm sets the timer for what is due next. Called with h.mu held.
func (h *heartbeat) arm() {
	switch {
	case len(h.queue) == 0:
		if h.timer != nil {
			h.timer.Stop()
		}
	case h.timer == nil:
		h.timer = time.AfterFunc(time.Until(h.queue[0].next()), h.tick)
	default:
		h.timer.Reset(time.Until(h.queue[0].next()))
	}
}

func (h *heartbeat) tick() {
	var lost []*beat
	h.mu.Lock()
	for now := time.Now(); len(h.queue) > 0; {
		b := h.queue[0]
		if b.next().After(now) {
			break
		}
		if !b.cutoff().After(now) {
			h.remove(b)
			lost = append(lost, b)
			continue
		}
		b.renewing = true
		heap.Fix(&h.queue, b.index)
		h.due = append(h.due, b)
		if h.workers < renewers {
			h.workers++
			go h.work()
		}
	}
	h.arm()
	h.mu.Unlock()
	for _, b := range lost {
		b.call.lose()
	}
}

// work renews what is due and ends when nothing is.
func (h *heartbeat) work() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.due) > 0 {
		b := h.due[0]
		h.due = h.due[1:]
		switch {
		case b.index < 0:
		case b.held:
			b.renewing = false
		default:
			h.renew(b)
		}
	}
	h.due = nil
	h.workers--
}

// renew sends one renewal. It takes a sixth of the lease at most, so that there is
// time for another on a connection that works. Called with h.mu held, which it
// lets go of while it waits.
func (h *heartbeat) renew(b *beat) {
	sent := time.Now()
	until := b.cutoff()
	if soon := sent.Add(b.ttl / 6); soon.Before(until) {
		until = soon
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	b.cancel = cancel
	h.mu.Unlock()

	err := h.b.Renew(ctx, b.lease, b.ttl)
	cancel()
	if errors.Is(err, backend.ErrLeaseLost) {
		h.lose(b)
	}

	h.mu.Lock()
	b.cancel = nil
	if b.index < 0 {
		return
	}
	b.renewing = false
	if err == nil {
		b.confirm(sent, b.ttl)
	} else {
		b.renewAt = time.Now().Add(b.ttl/20 + rand.N(b.ttl/20+1))
	}
	heap.Fix(&h.queue, b.index)
	h.arm()
}

// lose takes a beat out and tells its run, unless it ended by itself.
func (h *heartbeat) lose(b *beat) {
	h.mu.Lock()
	watched := h.remove(b)
	h.arm()
	h.mu.Unlock()
	if watched {
		b.call.lose()
	}
}

// beats is a heap of leases, what is due next first.
type beats []*beat

func (q beats) Len() int           { return len(q) }
func (q beats) Less(i, j int) bool { return q[i].next().Before(q[j].next()) }
func (q beats) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *beats) Push(x any) {
	b := x.(*beat)
	b.index = len(*q)
	*q = append(*q, b)
}

func (q *beats) Pop() any {
	old := *q
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	b.index = -1
	return b
}
