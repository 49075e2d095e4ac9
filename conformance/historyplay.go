package conformance

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// history is what was done to one key.
type history struct {
	*env
	play
	request backend.Claim
	start   time.Time
	seed    uint64

	mu     sync.Mutex
	calls  []porcupine.Operation
	begun  int
	lost   int // calls whose outcome the history doesn't know
	claims []backend.Claim
	held   []*holding
}

// holding is a lease that was granted, perhaps long ago. Whoever comes upon it
// uses it: a holder may be doubled, and its messages late.
type holding struct {
	backend.Lease
	sequence backend.Sequence // the highest tried
}

// mix is how often a call is made, in percent. The rest are Gets.
type mix struct {
	claim, again, other, renew, checkpoint, complete, release int
	last                                                      bool // a completion has the highest sequence
}

var (
	everyCall     = mix{claim: 20, again: 8, other: 4, renew: 8, checkpoint: 17, complete: 6, release: 9}
	towardsTheEnd = mix{claim: 30, again: 8, renew: 4, checkpoint: 12, complete: 26, release: 5, last: true}
)

// player makes calls on a handle of its own.
type player struct {
	number int
	b      backend.Backend
	rand   *rand.Rand
	blind  bool     // its Gets may show what was
	late   []func() // messages on their way
}

// act makes n calls on a few keys.
func (p *player) act(few []*history, n int) {
	for i := range n {
		h := few[p.rand.IntN(len(few))]
		if p.number == 0 && i == n/2 && h.lapses {
			h.advance(h.request.Lease)
		}
		p.arrive(len(p.late) - p.rand.IntN(3))
		if c, ok := h.choose(p); ok {
			h.make(p, c, h.misfortune(p))
		}
	}
	p.arrive(len(p.late))
}

// arrive lets the oldest n late messages arrive.
func (p *player) arrive(n int) {
	for ; n > 0; n-- {
		p.late[0]()
		p.late = p.late[1:]
	}
}

// choose picks the next call of a history, unless it is long enough.
func (h *history) choose(p *player) (call, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun++; h.begun > longest {
		return call{}, false
	}
	n := p.rand.IntN(100)
	below := func(percent int) bool { n -= percent; return n < 0 }
	m := h.mix
	switch {
	case below(m.claim) || h.claims == nil:
		return h.claim("Claim", newID()), true
	case below(m.again):
		return h.claim("Claim again", h.claims[recent(p, len(h.claims))].ID), true
	case below(m.other):
		c := h.claim("Claim for another request", newID())
		msg := c.message.(machine.Claim)
		msg.Fingerprints = []backend.Fingerprint{fingerprint("v1", "another")}
		c.message = msg
		return c, true
	}
	if h.held == nil {
		return call{name: "Get"}, !p.blind
	}
	l := h.held[recent(p, len(h.held))]
	switch {
	case below(m.renew):
		return call{"Renew", machine.Renew{Lease: l.Lease, TTL: h.request.Lease}}, true
	case below(m.checkpoint):
		seq := l.next(p)
		return call{"Checkpoint", machine.Checkpoint{Lease: l.Lease, Checkpoint: point(seq, fmt.Sprint("p", seq), fmt.Sprint("s", p.rand.IntN(2)))}}, true
	case below(m.complete):
		seq := backend.Sequence(longest)
		if !m.last {
			seq = l.next(p)
		}
		return call{"Complete", machine.Complete{Lease: l.Lease, Completion: answer(seq, fmt.Sprint("r", p.rand.IntN(2)))}}, true
	case below(m.release):
		return call{"Release", machine.Release{Lease: l.Lease}}, true
	}
	return call{name: "Get"}, !p.blind
}

func (h *history) claim(name string, id backend.ClaimID) call {
	c := h.request
	c.ID = id
	h.claims = append(h.claims, c)
	return call{name, machine.Claim{Claim: c}}
}

// recent is one of n, mostly the last.
func recent(p *player, n int) int {
	if p.rand.IntN(4) == 0 {
		return p.rand.IntN(n)
	}
	return n - 1
}

// next is the sequence of a write: mostly a higher one, at times one used before.
func (l *holding) next(p *player) backend.Sequence {
	if l.sequence > 0 && p.rand.IntN(3) == 0 {
		return max(1, l.sequence-backend.Sequence(p.rand.IntN(2)))
	}
	l.sequence++
	return l.sequence
}

// fate is what becomes of a call.
type fate int

const (
	answered fate = iota
	replyLost
	messageLate // its caller has given up, and it arrives all the same
	cutOff      // the caller's context ends while it is under way
)

func (h *history) misfortune(p *player) fate {
	if p.rand.IntN(100) >= h.losses {
		return answered
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost >= lostPerKey {
		return answered
	}
	h.lost++
	return 1 + fate(p.rand.IntN(3))
}

// make makes a call, or sends it on its way.
func (h *history) make(p *player, c call, f fate) {
	sent := h.now()
	do := func() {
		ctx, cancel := h.Context(), context.CancelFunc(func() {})
		if f == cutOff {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(p.rand.IntN(1500))*time.Microsecond)
		}
		defer cancel()
		got, err := h.deliver(ctx, p.b, c)
		h.note(p, c, f, sent, got, err)
	}
	if f == messageLate {
		p.late = append(p.late, do)
		return
	}
	do()
}

func (h *history) now() int64 { return int64(time.Since(h.start)) }

func (h *history) deliver(ctx context.Context, b backend.Backend, c call) (got backend.Claimed, err error) {
	switch m := c.message.(type) {
	case machine.Claim:
		return b.Claim(ctx, m.Claim)
	case machine.Renew:
		err = b.Renew(ctx, m.Lease, m.TTL)
	case machine.Checkpoint:
		err = b.Checkpoint(ctx, m.Lease, m.Checkpoint)
	case machine.Complete:
		err = b.Complete(ctx, m.Lease, m.Completion)
	case machine.Release:
		err = b.Release(ctx, m.Lease)
	default:
		got.Record, err = b.Get(ctx, h.request.Key)
	}
	return got, err
}

// note adds a call to the history.
func (h *history) note(p *player, c call, f fate, sent int64, got backend.Claimed, err error) {
	op := porcupine.Operation{ClientId: p.number, Input: c, Call: sent, Return: h.now()}
	out, told := model{lapses: h.lapses}.replied(got, err)
	if !told {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case out.lost:
		op.Return = math.MaxInt64 // it may still arrive
		if f == answered {
			h.lost++
		}
	case f == replyLost, f == messageLate:
		out = reply{lost: true}
	case out.acquired:
		h.held = append(h.held, &holding{Lease: got.Record.Holder()})
	}
	op.Output = out
	h.calls = append(h.calls, op)
}

// curtain looks at what is left in the end, and claims it.
func (h *history) curtain(p *player) {
	for _, c := range []call{{name: "Get"}, h.claim("Claim", newID()), {name: "Get"}} {
		if c.message != nil || !p.blind {
			h.make(p, c, answered)
		}
	}
}
