package testenv

import (
	"bytes"
	"strings"
	"sync"
)

// Direction says which way bytes travel.
type Direction int

// The two directions of a connection.
const (
	ToServer Direction = iota + 1
	ToClient
)

// Action is what a rule does with a unit that it matches.
type Action int

// The actions. Hold and BlackHole fire when the unit arrives, the cuts once the
// connection is closed.
const (
	// CutBefore closes the connection on both sides, without the unit.
	CutBefore Action = iota + 1

	// CutAfter passes the unit on and then closes. Towards the server it lets the
	// rest of the batch follow, waits until the server has answered all of it,
	// and closes without passing the answer on: what was asked is done, and the
	// client can't know.
	CutAfter

	// Hold keeps the unit, and all that follows it in its direction, until
	// [Armed.Release]. A client that leaves meanwhile is not noticed: the unit
	// still reaches the server, like a packet stuck in the network.
	Hold

	// BlackHole swallows the unit and everything after it, both ways, and leaves
	// the connection open.
	BlackHole
)

// Rule says what to do with which units.
type Rule struct {
	On    Direction
	Match Match // nil matches every unit
	Do    Action

	Skip   int  // let that many matches pass first
	Sticky bool // stay after the first match
}

// Unit is what a rule is asked about.
type Unit struct {
	// Type is the type byte of a PostgreSQL message: 0 for the messages without
	// one that open a connection, and in a proxy that knows no protocol.
	Type byte

	// SQL is the statement that a Query or Parse carries, or that a Bind,
	// Describe or Execute is about, also where it was prepared long before.
	SQL string

	// Data is the unit as it travels. Not to be kept.
	Data []byte

	begins  bool // begins a round trip
	ends    bool // the last unit of the server's answer
	cancels bool
}

func (u Unit) runs() bool { return u.Type == 'Q' || u.Type == 'E' }

// Match chooses units.
type Match func(Unit) bool

// Contains matches units with these bytes anywhere in them, whatever the case of
// ASCII letters.
func Contains(text string) Match {
	want := bytes.ToLower([]byte(text))
	return func(u Unit) bool { return bytes.Contains(bytes.ToLower(u.Data), want) }
}

// Runs matches the PostgreSQL message that makes the server execute a statement
// that contains text, whatever the case of letters: a Query, or an Execute of
// something prepared.
func Runs(text string) Match {
	want := strings.ToLower(text)
	return func(u Unit) bool { return u.runs() && strings.Contains(strings.ToLower(u.SQL), want) }
}

// Type matches PostgreSQL messages of a type, 'C' for CommandComplete, say.
func Type(b byte) Match {
	return func(u Unit) bool { return u.Type == b }
}

// Cancels matches PostgreSQL's CancelRequest, which comes on a connection of its
// own: pgx sends one when a context ends, and it gets past a rule that holds or
// swallows the statement.
func Cancels() Match {
	return func(u Unit) bool { return u.cancels }
}

// All matches what every one of them matches.
func All(matches ...Match) Match {
	return func(u Unit) bool {
		for _, m := range matches {
			if !m(u) {
				return false
			}
		}
		return true
	}
}

// Armed is a rule in force.
type Armed struct {
	proxy    *Proxy
	rule     Rule
	fired    chan struct{}
	released chan struct{}
	cut      chan struct{}

	mu      sync.Mutex
	matched int // also those skipped; guarded by proxy.mu
	count   int
	open    bool
	severed bool
}

// Add puts a rule in force until it has matched once, for ever if it is sticky.
func (p *Proxy) Add(r Rule) *Armed {
	a := &Armed{proxy: p, rule: r, fired: make(chan struct{}), released: make(chan struct{}), cut: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, a)
	return a
}

// Fired is closed when the rule has acted for the first time.
func (a *Armed) Fired() <-chan struct{} { return a.fired }

// Count returns how often the rule has acted.
func (a *Armed) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// Release lets go what a Hold holds, now and from now on, and takes the rule out
// of force. Twice is fine.
func (a *Armed) Release() {
	a.Remove()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.open {
		a.open = true
		close(a.released)
	}
}

// Cut closes the connections that a Hold holds, and takes the rule out of force.
func (a *Armed) Cut() {
	a.Remove()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.severed {
		a.severed = true
		close(a.cut)
	}
}

// Remove takes the rule out of force. What it has done stays.
func (a *Armed) Remove() {
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	a.proxy.drop(a)
}

func (a *Armed) fire() {
	if a.tally() {
		close(a.fired)
	}
}

// tally counts, and tells whether it was the first time.
func (a *Armed) tally() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	return a.count == 1
}

// drop wants p.mu held.
func (p *Proxy) drop(a *Armed) {
	for i, other := range p.rules {
		if other == a {
			p.rules = append(p.rules[:i:i], p.rules[i+1:]...)
			return
		}
	}
}

func (p *Proxy) match(dir Direction, u Unit) *Armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.rules {
		if a.rule.On != dir || a.rule.Match != nil && !a.rule.Match(u) {
			continue
		}
		a.matched++
		if a.matched <= a.rule.Skip {
			continue
		}
		if !a.rule.Sticky {
			p.drop(a)
		}
		return a
	}
	return nil
}
