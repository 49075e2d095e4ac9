package machine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// The small-scope test: two claimers of one key, every order of their messages,
// with faults, and every instant at which something is over. It visits each
// reachable state once and checks, on every step into it, what must always hold
// (check) and that nobody is locked out (unlocked).
//
// A crash is no event of its own: in every state a claimer may never be heard of
// again, and what is on its way may arrive at any time or never.

type stepFunc func(r *backend.Record, m machine.Message, now time.Time) (*backend.Record, machine.Outcome)

// scope bounds a run. Faults are counted per claimer.
type scope struct {
	plan    []kind // what a claimer sends, one after the other; or a release instead
	doubled uint8  // messages that are delivered, and once more later
	unheard uint8  // messages whose sender hears nothing and sends them again
	late    uint8  // messages whose sender goes on; they are delivered later or never
	passes  uint8  // how often time goes on to the next instant at which something is over

	remember int8 // seconds, of every claim
}

// state of a run. It is comparable, so that a set of them is a map.
type state struct {
	rec      record
	now      int16
	given    int16 // the highest token so far
	finisher uint8 // who completed the record in its present life; 0: nobody
	procs    [2]proc
	flying   [6]letter // sorted; what is on its way
	passes   uint8
}

// proc is a claimer.
type proc struct {
	sent    kind  // what it waits for the answer of; 0: it is done
	at      uint8 // where that is in its plan
	token   int16
	from    uint8 // the recovery point that it resumed at
	doubled uint8
	unheard uint8
	late    uint8
}

type kind uint8

const (
	claims kind = iota + 1
	checkpoints1
	checkpoints2
	renews
	completes
	releases
	sweeps
)

func (k kind) String() string {
	return [...]string{"", "claim", "checkpoint 1", "checkpoint 2", "renew", "complete", "release", "sweep"}[k]
}

// letter is a message on its way.
type letter struct {
	kind  kind
	by    uint8 // 1 or 2
	token int16
	from  uint8
}

// exploration is one run through all states.
type exploration struct {
	step    stepFunc
	limit   scope
	seen    map[state]struct{}
	todo    []state
	steps   int
	seenOut map[answer]int // how often each kind of answer was seen
	broken  string         // the first rule that was broken, and where
}

func explore(step stepFunc, limit scope) *exploration {
	x := &exploration{step: step, limit: limit, seen: make(map[state]struct{}), seenOut: make(map[answer]int)}
	x.visit(state{}.send(0, claims).send(1, claims))
	for len(x.todo) > 0 && x.broken == "" {
		s := x.todo[len(x.todo)-1]
		x.todo = x.todo[:len(x.todo)-1]
		x.unlocked(s)
		x.expand(s)
	}
	return x
}

func (x *exploration) visit(s state) {
	slices.SortFunc(s.flying[:], func(a, b letter) int { return b.order() - a.order() })
	if _, ok := x.seen[s]; !ok {
		x.seen[s] = struct{}{}
		x.todo = append(x.todo, s)
	}
}

func (l letter) order() int {
	return ((int(l.kind)*4+int(l.by))*4096+int(l.token))*16 + int(l.from)
}

// expand visits all states that one event leads to.
func (x *exploration) expand(s state) {
	for i, p := range s.procs {
		if p.sent != 0 && p.sent != claims && p.late < x.limit.late { // a claim can only be sent again
			n := s
			n.procs[i].late++
			x.goOn(n, i)
		}
	}
	for i, l := range s.flying {
		if l.kind == 0 || i > 0 && l == s.flying[i-1] {
			continue
		}
		n := s
		n.flying[i] = letter{}
		x.deliver(n, l, true)
		if p := s.procs[l.by-1]; p.doubled < x.limit.doubled {
			n := s
			n.procs[l.by-1].doubled++
			x.deliver(n, l, true)
		}
		if p := s.procs[l.by-1]; p.unheard < x.limit.unheard && p.sent == l.kind {
			n := s
			n.procs[l.by-1].unheard++
			x.deliver(n, l, false)
		}
	}
	n := s
	n.apply(x, machine.Sweep{}, sweeps)
	x.visit(n)
	if at := s.rec.nextInstant(s.now); at > s.now && s.passes < x.limit.passes {
		n := s
		n.now, n.passes = at, s.passes+1
		x.visit(n)
	}
}

// send puts a message on its way. When it leaves makes no difference: it may
// arrive as late as it likes.
func (s state) send(i int, k kind) state {
	p := &s.procs[i]
	p.sent = k
	l := letter{kind: k, by: uint8(i + 1), token: p.token, from: p.from}
	for j := range s.flying {
		if s.flying[j].kind == 0 {
			s.flying[j] = l
			return s
		}
	}
	panic("too many messages on their way")
}

// goOn lets the claimer send what comes next in its plan, or a release.
func (x *exploration) goOn(s state, i int) {
	p := &s.procs[i]
	if p.sent == completes || p.sent == releases {
		*p = proc{doubled: p.doubled}
		x.visit(s)
		return
	}
	p.at++
	x.visit(s.send(i, x.limit.plan[p.at]))
	x.visit(s.send(i, releases))
}

// deliver gives a message to the store and, if it is to be heard and still waited
// for, the answer to its sender.
func (x *exploration) deliver(s state, l letter, heard bool) {
	out := s.apply(x, l.message(s.given, x.limit.remember), l.kind)
	i := int(l.by - 1)
	p := &s.procs[i]
	switch {
	case !heard || p.sent != l.kind:
		x.visit(s)
	case l.kind == claims && !out.Claimed.Acquired, out.Err != nil:
		*p = proc{doubled: p.doubled}
		x.visit(s)
	default:
		if l.kind == claims {
			p.token, p.from = int16(out.Claimed.Record.Token), pointNumber(out.Claimed.Record.RecoveryPoint)
		}
		x.goOn(s, i)
	}
}

// apply is one step of the machine, checked.
func (s *state) apply(x *exploration, m machine.Message, what kind) machine.Outcome {
	before, now := s.rec.full(), instant(s.now)
	after, out := x.step(before, m, now)
	x.steps++
	x.seenOut[answer{what, out.Claimed.Acquired, out.Changed, out.Err}]++
	if rule := s.check(x.step, before, m, after, out); rule != "" && x.broken == "" {
		x.broken = fmt.Sprintf("%s: %v at %d\n before %+v\n after  %+v\n outcome %+v\n in %+v", rule, what, s.now, before, after, out, *s)
	}
	switch {
	case after == nil, before != nil && before.Status == backend.Completed && after.Status == backend.Started:
		s.finisher = 0
	case after.Status == backend.Completed && before.Status == backend.Started:
		s.finisher = after.ClaimID[0]
	}
	if out.Claimed.Acquired {
		s.given = max(s.given, int16(out.Claimed.Record.Token))
	}
	s.rec = compact(after)
	return out
}

// answer is what a message can lead to.
type answer struct {
	what              kind
	acquired, changed bool
	err               error
}

// Hard case 33.
func TestSmallScope(t *testing.T) {
	t.Parallel()
	states, answers := 0, make(map[answer]bool)
	for _, limit := range scopes {
		x := explore(machine.Step, limit)
		states += len(x.seen)
		t.Logf("%+v: %d states visited in %d steps", limit, len(x.seen), x.steps)
		if x.broken != "" {
			t.Errorf("broken: %s", x.broken)
		}
		for a := range x.seenOut {
			answers[a] = true
		}
	}
	t.Logf("%d states visited in all, %d kinds of answers seen", states, len(answers))
	// A scope that became too small would find nothing.
	if states < 50_000 || len(answers) < 20 {
		t.Errorf("%d states and %d kinds of answers, want 50000 and 20 or more", states, len(answers))
	}
}

// Each scope has much of one fault and little of the others, so that the whole
// ends in seconds.
var scopes = []scope{
	{plan: []kind{claims, checkpoints1, completes}, passes: 6},
	{plan: []kind{claims, checkpoints1, completes}, unheard: 1, passes: 3},
	{plan: []kind{claims, checkpoints1, checkpoints2, completes}, doubled: 1, passes: 2},
	{plan: []kind{claims, checkpoints1, checkpoints2, completes}, late: 1, passes: 2},
	{plan: []kind{claims, checkpoints1, renews, completes}, late: 1, passes: 2},
	{plan: []kind{claims, renews, completes}, doubled: 1, passes: 2},
	{plan: []kind{claims, completes}, doubled: 1, passes: 3},
	{plan: []kind{claims, completes}, doubled: 1, unheard: 1, passes: 2},
	{plan: []kind{claims, checkpoints1, completes}, passes: 6, remember: 3},
	{plan: []kind{claims, completes}, doubled: 1, passes: 4, remember: 3},
	{plan: []kind{claims, completes}, unheard: 1, passes: 4, remember: 3},
	{plan: []kind{claims, checkpoints1, completes}, late: 1, passes: 3, remember: 1}, // less than a lease
}
