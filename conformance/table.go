package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// row is one line of the table of the state machine: each of the messages
// arrives at a record in each of the states, with this outcome, and leaves this.
type row struct {
	id      string
	before  []state
	message []message
	outcome outcome
	after   after
}

// state is what a record is when the message arrives. It is brought about in two
// parts, so that many keys can wait together.
type state struct {
	name  string
	claim func(key string) backend.Claim
	make  func(e *env, c backend.Claim) backend.Lease // gives the lease of the last holder
	wait  func(e *env, c backend.Claim)               // may be nil
}

// message is what arrives at the record of a claim and its lease.
type message struct {
	name string
	part backend.Part // in which a claim differs from the record
	make func(c backend.Claim, l backend.Lease) machine.Message
}

type outcome struct {
	name     string
	acquired bool
	err      error
}

// after gives the record that is wanted after m. Of what the store's clock says
// it takes what was got. LeaseLeft is the most that may be left of the lease.
type after struct {
	name string
	want func(was *backend.Record, m machine.Message, got backend.Record) *backend.Record
}

var (
	acquired   = outcome{name: "acquired", acquired: true}
	asItStands = outcome{name: "the record as it stands"}
	done       = outcome{name: "done"}
	leaseLost  = outcome{name: "ErrLeaseLost", err: backend.ErrLeaseLost}
	conflict   = outcome{name: "ErrConflict", err: backend.ErrConflict}
)

// The table. Its states, messages and what they leave are in files of their own.
var table = []row{
	// Hard case 18: a new record has all that the claim said. Hard case 3: what is over
	// is as if it were not there.
	{"new", in(none, undone), claims(fresh, newer), acquired, begun},
	{"retention-over", in(over), claims(fresh, otherMethod, otherPath, otherContent), acquired, begun},
	// Hard cases 4, 27 and 28, field reports 11 and 13: compared before anything else, in
	// every state, in the version of the record; the operation is not.
	{"mismatch", in(running, atPoint, lapsed, lapsedAtPoint, released, completed), claims(otherMethod, otherPath, otherContent, unknownVersion), asItStands, untouched},
	{"mismatch-same-id", in(running, lapsed, completed), claims(sameID.and(otherContent)), asItStands, untouched},
	{"replay", in(completed), claims(fresh, sameID, renamed, newer), asItStands, untouched},
	// Hard case 1, field report 8: a claim knows itself.
	{"same-id-alive", in(running, atPoint), claims(sameID), acquired, untouched},
	{"in-progress", in(running, atPoint), claims(fresh, refusing), asItStands, untouched},
	{"same-id-lapsed", in(lapsed, lapsedAtPoint), claims(sameID, sameID.and(refusing)), acquired, freshLease},
	// Field report 1: a lapsed record is had at once. Field report 17: past a recovery point it
	// resumes there. Hard case 29: a claim can refuse to take over.
	{"takeover", in(lapsed, lapsedAtPoint), claims(fresh, renamed, newer), acquired, resumed},
	{"takeover-released", in(released), claims(fresh, sameID, refusing), acquired, resumed},
	{"takeover-at-point", in(lapsedAtPoint), claims(refusing), acquired, resumed},
	{"takeover-refused", in(lapsed), claims(refusing), asItStands, untouched},

	// Hard cases 2 and 20: a renewal only ever extends, and a late write rolls nothing back.
	{"renew", in(running, atPoint, lapsed), by(holder, renewing(time.Hour)), done, extended},
	{"renew-shorter", in(running, atPoint), by(holder, renewing(time.Millisecond)), done, untouched},
	{"checkpoint", in(running, atPoint, lapsed), by(holder, checkpointing(9)), done, moved},
	{"checkpoint-lower", in(atPoint), by(holder, checkpointing(1)), done, untouched},
	{"checkpoint-equal", in(atPoint), by(holder, checkpointAgain), done, untouched},
	{"checkpoint-equal-other", in(atPoint), by(holder, checkpointing(2), otherPoint, otherState), conflict, untouched},
	{"complete", in(running, atPoint, lapsed, lapsedAtPoint), by(holder, completing(9)), done, ended},
	{"complete-lower", in(atPoint), by(holder, completing(1)), done, untouched},
	{"complete-equal", in(atPoint), by(holder, completing(2)), conflict, untouched},
	{"release", in(running, lapsed), by(holder, releasing), done, gone},
	{"release-at-point", in(atPoint, lapsedAtPoint), by(holder, releasing), done, given},

	// Field report 4: nobody but the holder writes. Hard case 1: what the others get.
	{"other-claim-id", in(running, atPoint, lapsed), by(otherID, everyWrite...), leaseLost, untouched},
	{"lower-token", in(running, atPoint, lapsed), by(lowerToken, everyWrite...), leaseLost, untouched},
	{"higher-token", in(running, atPoint, lapsed), by(higherToken, everyWrite...), leaseLost, untouched},
	{"taken-over", in(takenOver, takenOverAtPoint, takenOverCompleted), by(holder, everyWrite...), leaseLost, untouched},
	{"released", in(released), by(holder, renewing(time.Hour), checkpointing(9), completing(9)), leaseLost, untouched},
	{"released-again", in(released), by(holder, releasing), done, untouched},

	{"completed-again", in(completed), by(holder, completing(3), completing(9)), done, untouched},
	{"completed-other", in(completed), by(holder, otherResponses...), conflict, untouched},
	{"completed-lower", in(completed), by(holder, completing(2)), done, untouched},
	{"completed-writes", in(completed), by(holder, renewing(time.Hour), checkpointing(2), checkpointing(9), releasing), done, untouched},
	{"completed-other-id", in(completed), by(otherID, everyWrite...), leaseLost, untouched},
	{"completed-other-token", in(completed), by(lowerToken, everyWrite...), leaseLost, untouched},

	{"none", in(none, undone), by(holder, renewing(time.Hour), checkpointing(9), completing(9)), leaseLost, untouched},
	{"none-release", in(none, undone), by(holder, releasing), done, untouched},
}

func tableCases() []testCase {
	var out []testCase
	for _, r := range table {
		out = append(out, rule("table/"+r.id, r.String(), r.run))
	}
	return out
}

// String is the row as it stands in the design.
func (r row) String() string {
	var states, messages []string
	for _, s := range r.before {
		states = append(states, s.name)
	}
	for _, m := range r.message {
		messages = append(messages, m.name)
	}
	return fmt.Sprintf("Record: %s. Arrives: %s. Outcome: %s. Record after: %s.",
		strings.Join(states, "; "), strings.Join(messages, "; "), r.outcome.name, r.after.name)
}

// run sends every message to every state, each to a key of its own.
func (r row) run(e *env) {
	type arrival struct {
		state   state
		message message
		claim   backend.Claim
		lease   backend.Lease
	}
	var all []arrival
	for _, s := range r.before {
		for _, m := range r.message {
			c := s.claim(fmt.Sprintf("key-%d", len(all)))
			all = append(all, arrival{s, m, c, s.make(e, c)})
		}
	}
	for _, a := range all {
		if a.state.wait != nil {
			a.state.wait(e, a.claim)
		}
	}
	for _, a := range all {
		r.check(e, a.message.name+" ("+a.state.name+")", a.claim.Key, a.message.part, a.message.make(a.claim, a.lease))
	}
}

func (r row) check(e *env, call string, k backend.Key, part backend.Part, m machine.Message) {
	e.Helper()
	var was *backend.Record
	if before, ok := e.find(k); ok {
		was = &before
	}
	got, err := deliver(e, m)
	if !errors.Is(err, r.outcome.err) {
		e.Errorf("%s = %v, want %v", call, err, r.outcome.err)
		return
	}
	if got.Acquired != r.outcome.acquired || got.Hidden {
		e.Errorf("%s: acquired = %v, hidden = %v, want %v, false", call, got.Acquired, got.Hidden, r.outcome.acquired)
	}
	rec, ok := e.find(k)
	want := r.after.want(was, m, rec)
	if ok != (want != nil) {
		e.Errorf("%s: record exists after = %v, want %v", call, ok, want != nil)
		return
	}
	if want == nil {
		return
	}
	e.same(call+": record after", rec, *want)
	e.left(call+": rest of the lease after", rec.LeaseLeft, want.LeaseLeft)
	if c, ok := m.(machine.Claim); ok {
		e.same(call+": record returned", got.Record, rec)
		e.left(call+": rest of the lease returned", got.Record.LeaseLeft, want.LeaseLeft)
		if got.Acquired {
			part = backend.Same
		}
		if differs := c.Compare(got.Record); differs != part {
			e.Errorf("%s: compared with the record returned = %q, want %q", call, differs, part)
		}
	}
}

// left checks what is left of a lease against the most that may be.
func (e *env) left(what string, got, want time.Duration) {
	e.Helper()
	if got > want || (got == 0) != (want == 0) {
		e.Errorf("%s = %v, want at most %v, and 0 only if that is 0", what, got, want)
	}
}

// deliver calls the method that the message stands for.
func deliver(e *env, m machine.Message) (got backend.Claimed, err error) {
	switch m := m.(type) {
	case machine.Claim:
		return e.b.Claim(e.Context(), m.Claim)
	case machine.Renew:
		err = e.renew(m.Lease, m.TTL)
	case machine.Checkpoint:
		err = e.checkpoint(m.Lease, m.Checkpoint)
	case machine.Complete:
		err = e.complete(m.Lease, m.Completion)
	case machine.Release:
		err = e.release(m.Lease)
	}
	return got, err
}
