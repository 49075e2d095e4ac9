package conformance

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/idem-go/idem/backend"
)

// capabilityCases test each field of backend.Capabilities. A claim of more than can
// be seen fails, and so does one of less where it can be seen surely.
var capabilityCases = []testCase{
	capability([]string{"Transactions"}, nil, "capability/transactions", "Who claims transactions implements Transactor, and who implements it claims them.", capabilityTransactions),
	capability([]string{"DurableKill"}, []Power{PowerRestart}, "capability/durable-kill", "What was acknowledged survives the kill of the store's process.", capabilityKill),
	capability([]string{"DurableFailover"}, []Power{PowerFailover}, "capability/durable-failover", "What was acknowledged survives the loss of a machine, if that is claimed.", capabilityFailover), // field report 27
	capability([]string{"Shared"}, nil, "capability/shared", "Several processes use one store, exactly if that is claimed.", capabilityShared),
	capability([]string{"NativeExpiry"}, nil, "capability/native-expiry", "The store deletes by itself what is over, exactly if that is claimed.", capabilityExpiry),
	capability([]string{"Clock"}, []Power{PowerSkewed}, "capability/clock", "Leases and retention go by the clock that is claimed, whatever the caller's shows.", capabilityClock), // field report 23
	capability([]string{"FreshReads"}, nil, "capability/fresh-reads", "Get on any handle sees every acknowledged write.", capabilityFresh),
	capability([]string{"MaxValue"}, nil, "capability/max-value", "A value of the largest size is stored; one byte more is ErrTooLarge, changes nothing and leaves room for a tombstone.", capabilityMaxValue), // field report 29
	capability([]string{"MinLease", "LeaseRound"}, nil, "capability/lease", "A lease is granted as asked, but for the rounding that is claimed.", capabilityLease),
	capability([]string{"LeaseStretch"}, []Power{PowerRestart}, "capability/lease-stretch", "A lease ends no later than granted and stretched as claimed, also over a kill, and a stretch is claimed only where there is one.", capabilityStretch),
	capability([]string{"TokensBreakOn"}, []Power{PowerRestart, PowerSkewed}, "capability/tokens", "Tokens of a key grow over everything that is not named to break them.", capabilityTokens),
}

// capability is a case that tests claims, named after their fields.
func capability(fields []string, needs []Power, id, text string, f func(e *env)) testCase {
	c := needing(needs, id, text, f)
	c.claims = fields
	return c
}

// claimed notes what a case is to show.
func (e *env) claimed(fields []string) {
	if fields == nil {
		return
	}
	c := e.describe().Capabilities
	e.rec.remark(func(n *Result) {
		for _, name := range fields {
			n.Claims = append(n.Claims, claimOf(c, name))
		}
	})
}

// measured notes what was seen of a claim, and fails if that doesn't bear it out.
func (e *env) measured(name string, value any, ok bool) {
	e.Helper()
	var claimed string
	e.rec.remark(func(n *Result) {
		for i := range n.Claims {
			if n.Claims[i].Name == name {
				n.Claims[i].Measured, claimed = text(name, value), n.Claims[i].Claimed
			}
		}
	})
	if !ok {
		e.Errorf("Describe claims %s = %s, measured %s", name, claimed, text(name, value))
	}
}

// notShown ends a case that has no means to show a claim.
func (e *env) notShown(format string, args ...any) { e.rec.skip(NotShown, format, args...) }

func capabilityTransactions(e *env) {
	c := e.describe().Capabilities
	_, is := reflect.TypeOf(e.b).MethodByName("Transact") // its type depends on the driver's
	e.measured("Transactions", is, is == c.Transactions)
}

func capabilityShared(e *env) {
	c := e.describe().Capabilities
	other := e.open()
	if reflect.TypeOf(other).Comparable() && other == e.b { // of one process, therefore
		if c.Shared {
			e.notShown("the harness opens no second handle")
		}
		return
	}
	claim := request("k")
	e.acquire("Claim", claim)
	got, err := other.Claim(e.Context(), rival(claim))
	e.ok("Claim(other handle)", err)
	shared := !got.Acquired && got.Record.ClaimID == claim.ID
	e.measured("Shared", shared, shared == c.Shared)
}

func capabilityExpiry(e *env) {
	c := e.describe().Capabilities
	over := fleeting("k")
	e.completed(over)
	if c.NativeExpiry {
		e.advance(short)
		e.until("the record goes by itself", func() bool { _, is := e.find(over.Key); return !is })
		e.measured("NativeExpiry", true, true)
		return
	}
	later := fleeting("later")
	e.completed(later)
	e.reclaim(rival(later), short) // the other's time is over, too
	_, is := e.find(over.Key)
	e.measured("NativeExpiry", !is, is)
}

func capabilityFresh(e *env) {
	c := e.describe().Capabilities
	if !c.FreshReads {
		return // reads that happen to be fresh prove nothing
	}
	l := e.acquire("Claim", request("k")).Holder()
	handles := []backend.Backend{e.b, e.open(), e.open()}
	const rounds = 30
	fresh := true
	for i := range rounds {
		seq := backend.Sequence(i + 1)
		e.ok("Checkpoint", handles[i%3].Checkpoint(e.Context(), l, point(seq, "p", "s")))
		r, err := handles[(i+1)%3].Get(e.Context(), l.Key)
		e.ok("Get(other handle)", err)
		fresh = fresh && r.Sequence == seq
	}
	e.measured("FreshReads", fresh, fresh)
	e.tried("%d reads", rounds)
}

func capabilityMaxValue(e *env) {
	c := e.describe().Capabilities
	limit, none := c.MaxValue, int64(8<<20)
	switch {
	case limit == 0:
		limit = none
	case limit > 64<<20:
		e.notShown("the limit claimed, %d bytes, is too large to try", limit)
	}
	r := e.acquire("Claim", request("k"))
	l, body := r.Holder(), make([]byte, limit+1)
	if c.MaxValue != 0 {
		e.still("Checkpoint(limit+1 bytes)", r.Key, backend.ErrTooLarge, func() error {
			return e.checkpoint(l, backend.Checkpoint{Sequence: 1, Point: "p", State: body})
		})
		e.still("Complete(limit+1 bytes)", r.Key, backend.ErrTooLarge, func() error {
			return e.complete(l, backend.Completion{Sequence: 1, Response: backend.Response{Header: body[:1], Body: body[1:]}})
		})
		e.tombstoneFor(body)
	}
	e.ok("Checkpoint(limit bytes)", e.checkpoint(l, backend.Checkpoint{Sequence: 1, Point: "p", State: body[1:]}))
	e.ok("Complete(limit bytes)", e.complete(l, backend.Completion{Sequence: 2, Response: backend.Response{Header: body[:1], Body: body[2:]}}))
	e.measured("MaxValue", size(limit)+" are stored", true)
}

// tombstoneFor does what the library does when the effect has run and its answer turns
// out to be too large.
func (e *env) tombstoneFor(body []byte) {
	e.Helper()
	c := request("too large")
	l := e.acquire("Claim", c).Holder()
	if err := e.complete(l, backend.Completion{Sequence: 1, Response: backend.Response{Body: body}}); !errors.Is(err, backend.ErrTooLarge) {
		e.Errorf("Complete(limit+1 bytes) = %v, want ErrTooLarge", err)
	}
	e.ok("Complete(tombstone in its place)", e.complete(l, backend.Completion{Sequence: 1, Response: backend.Response{Tombstone: backend.TooLarge}}))
	if r := e.refuse("Claim(too large)", rival(c)); r.Response.Tombstone != backend.TooLarge {
		e.Errorf("Claim(too large): tombstone = %q, want %q", r.Response.Tombstone, backend.TooLarge)
	}
}

// capabilityKill leaves leases, recovery points and responses to a kill.
func capabilityKill(e *env) {
	c := e.describe().Capabilities
	if !c.DurableKill {
		return // what survives by chance proves nothing
	}
	if e.Restart == nil {
		e.notShown("the harness lacks %s", PowerRestart)
	}
	const keys = 24
	before := race(keys, func(i int) backend.Record {
		l := e.acquire("Claim", request(fmt.Sprint("key-", i))).Holder()
		if i%3 > 0 {
			e.ok("Checkpoint", e.checkpoint(l, point(1, "p", fmt.Sprint("state-", i))))
		}
		if i%3 > 1 {
			e.ok("Complete", e.complete(l, answer(2, fmt.Sprint("body-", i))))
		}
		return e.get(l.Key)
	})
	e.Restart(e.T)
	lost := 0
	for _, want := range before {
		got, _ := e.insist(want.Key)
		if d := diff(got, want); d != "" {
			lost++
			e.Logf("after a kill: %s", d)
		}
	}
	e.measured("DurableKill", lost == 0, lost == 0)
	e.tried("1 kill with %d keys", keys)
}

// tried says how much was tried by a case that can only search for a failure.
func (e *env) tried(format string, args ...any) {
	e.rec.remark(func(n *Result) { n.Tried = fmt.Sprintf(format, args...) })
}

const tick = time.Millisecond
