package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/idem-go/idem/backend"
)

var historyCases = []testCase{
	rule("history/linearizable", "What many handles do to a key at once has the outcome of some order of doing it one by one.", func(e *env) {
		e.checkHistories(play{keys: 12, acts: 1, mix: everyCall})
	}),
	rule("history/lost-replies", "Where replies are lost, messages late and calls cut off, what many handles do to a key has the outcome of some order of doing it one by one, with each of those calls or without.", func(e *env) {
		e.checkHistories(play{keys: 12, acts: 1, mix: everyCall, losses: 20})
	}),
	rule("history/takeover", "Where leases lapse in between, what many handles do to a key has the outcome of some order of doing it one by one.", func(e *env) {
		e.checkHistories(play{keys: 9, acts: 3, mix: everyCall, lapses: true})
	}),
	rule("history/one-completes", "Of all claims of a key one completes, whatever lapses or is lost, and everybody sees its response.", historyOneCompletes),
}

// The size of a history. A checker's time grows with the calls that overlap and,
// much faster, with those that may be applied at any later time.
const (
	players      = 6  // handles at work at once
	together     = 3  // keys they have in common
	longest      = 60 // calls of a key
	lostPerKey   = 8
	checkerBound = 20 * time.Second
)

// play is how histories are made. There is one for each key.
type play struct {
	keys   int
	acts   int // at the end of each all leases lapse
	mix    mix
	losses int  // percent of the calls
	lapses bool // leases are short
}

// checkHistories makes histories and looks for one that no order explains.
func (e *env) checkHistories(p play) {
	all := e.perform(p)
	m := model{lapses: p.lapses}.porcupine()
	for i, h := range all {
		if why := h.refuted(m, checkerBound); why != "" {
			e.Fatalf("history %d of IDEM_TEST_SEED=%d, of a key: %s:\n%s", i, h.seed, why, h)
		}
	}
	e.tried("%d histories", len(all))
}

// refuted says what speaks against a history; nothing does if it is empty.
func (h *history) refuted(m porcupine.Model, bound time.Duration) string {
	switch porcupine.CheckOperationsTimeout(m, h.calls, bound) {
	case porcupine.Ok:
		return ""
	case porcupine.Illegal:
		return "no order of the calls explains what they returned"
	default:
		return fmt.Sprintf("the checker came to no end within %v, so that nothing is known", bound)
	}
}

// historyOneCompletes asks no model, only who claims to have completed.
func historyOneCompletes(e *env) {
	all := e.perform(play{keys: 9, acts: 3, mix: towardsTheEnd, lapses: true, losses: 10})
	for i, h := range all {
		by, answers := make(map[backend.ClaimID]bool), make(map[string]bool)
		for _, op := range h.calls {
			in, out := op.Input.(call), op.Output.(reply)
			if l := leaseOf(in); in.name == "Complete" && !out.lost && out.err == nil {
				by[l.ClaimID] = true
			}
			if out.record.status == backend.Completed {
				by[out.record.id], answers[out.record.body] = true, true
			}
		}
		if len(by) > 1 || len(answers) > 1 {
			e.Fatalf("history %d of IDEM_TEST_SEED=%d, of a key: %d claims completed, with %d responses, want 1:\n%s", i, h.seed, len(by), len(answers), h)
		}
	}
	e.tried("%d histories", len(all))
}

// perform lets all players work on the keys, a few keys at a time.
func (e *env) perform(p play) []*history {
	d := e.describe().Capabilities
	seed := e.seed()
	lease := time.Hour
	if p.lapses {
		lease = max(30*time.Millisecond, d.MinLease)
	}
	start := time.Now()
	all := make([]*history, p.keys)
	for i := range all {
		c := request(fmt.Sprintf("key-%d", i))
		c.Lease = lease
		all[i] = &history{env: e, play: p, request: c, start: start, seed: seed}
	}
	cast := make([]*player, players)
	for i := range cast {
		cast[i] = &player{number: i, b: e.open(), rand: rand.New(rand.NewPCG(seed, uint64(i))), blind: !d.FreshReads}
	}
	for act := range p.acts {
		for few := range slices.Chunk(all, together) {
			race(players, func(i int) struct{} {
				cast[i].act(few, longest*together/players/p.acts*4/5)
				return struct{}{}
			})
		}
		if act < p.acts-1 {
			e.advance(lease)
			for _, h := range all {
				e.until("leases lapse", func() bool {
					r, is := e.find(h.request.Key)
					return !is || r.LeaseLeft == 0
				})
			}
		}
	}
	answered := 0
	for _, h := range all {
		h.curtain(cast[0])
		answered += len(h.calls) - h.lost
	}
	if most := len(all) * longest / 3; answered < most {
		e.Fatalf("%d calls were answered, want %d at least: too few to tell anything", answered, most)
	}
	return all
}

// String lists the calls as they began, with the microseconds of call and return.
func (h *history) String() string {
	var b strings.Builder
	ops := slices.Clone(h.calls)
	slices.SortFunc(ops, func(x, y porcupine.Operation) int { return int(x.Call - y.Call) })
	for _, op := range ops {
		end := "…"
		if op.Return != math.MaxInt64 {
			end = strconv.FormatInt(op.Return/1000, 10)
		}
		fmt.Fprintf(&b, "%8d-%-8s handle %d  %v = %v\n", op.Call/1000, end, op.ClientId, op.Input, op.Output)
	}
	return b.String()
}
