package conformance

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// told makes a history of calls, each over before the next begins. After those
// whose reply was lost anything may come before they are applied.
type told []porcupine.Operation

func (h told) add(in call, out reply) told {
	at := int64(2 * len(h))
	op := porcupine.Operation{Input: in, Call: at, Output: out, Return: at + 1}
	if out.lost {
		op.Return = math.MaxInt64
	}
	return append(h, op)
}

func TestModel(t *testing.T) {
	t.Parallel()
	asked := request("k")
	claim := func(id byte) call {
		c := asked
		c.ID = backend.ClaimID{id}
		return call{"Claim", machine.Claim{Claim: c}}
	}
	// by gives the record of a claim, at a point or completed where those are named.
	by := func(id byte, token backend.Token, attempt int, change ...func(r *known)) known {
		r := know(backend.Record{
			Key: asked.Key, Operation: asked.Operation, Target: asked.Target, Fingerprint: asked.Fingerprints[0],
			Status: backend.Started, ClaimID: backend.ClaimID{id}, Token: token, Attempt: attempt,
		})
		for _, f := range change {
			f(&r)
		}
		return r
	}
	acquired := func(r known) reply { return reply{acquired: true, record: r} }
	found := func(r known) reply { return reply{record: r} }
	lost, done := reply{lost: true}, reply{}
	lease := func(id byte, token backend.Token) backend.Lease {
		return backend.Lease{Key: asked.Key, ClaimID: backend.ClaimID{id}, Token: token}
	}
	complete := func(id byte, token backend.Token) call {
		return call{"Complete", machine.Complete{Lease: lease(id, token), Completion: answer(1, "r")}}
	}
	checkpoint := func(id byte, token backend.Token) call {
		return call{"Checkpoint", machine.Checkpoint{Lease: lease(id, token), Checkpoint: point(1, "p", "s")}}
	}
	release := call{"Release", machine.Release{Lease: lease(1, 7)}}
	get := call{name: "Get"}
	completed := func(r *known) {
		r.status, r.sequence, r.code, r.header, r.body = backend.Completed, 1, 201, "Location: /payments/1", "r"
	}
	atPoint := func(seq backend.Sequence) func(r *known) {
		return func(r *known) { r.sequence, r.point, r.state = seq, "p", "s" }
	}

	for name, tt := range map[string]struct {
		h      told
		lapses bool
		want   porcupine.CheckResult
	}{
		"a life":                        {told{}.add(claim(1), acquired(by(1, 7, 1))).add(complete(1, 7), done).add(get, found(by(1, 7, 1, completed))), false, porcupine.Ok},
		"two of one key":                {told{}.add(claim(1), acquired(by(1, 7, 1))).add(claim(2), acquired(by(2, 8, 2))), false, porcupine.Illegal},
		"two after a lapse":             {told{}.add(claim(1), acquired(by(1, 7, 1))).add(claim(2), acquired(by(2, 8, 2))), true, porcupine.Ok},
		"the token stands still":        {told{}.add(claim(1), acquired(by(1, 7, 1))).add(claim(2), acquired(by(2, 7, 2))), true, porcupine.Illegal},
		"the token falls over a life":   {told{}.add(claim(1), acquired(by(1, 7, 1))).add(release, done).add(claim(2), acquired(by(2, 6, 1))), false, porcupine.Illegal},
		"the token grows over a life":   {told{}.add(claim(1), acquired(by(1, 7, 1))).add(release, done).add(claim(2), acquired(by(2, 9, 1))), false, porcupine.Ok},
		"a zombie completes":            {told{}.add(claim(1), acquired(by(1, 7, 1))).add(claim(2), acquired(by(2, 8, 2))).add(complete(1, 7), done), true, porcupine.Illegal},
		"a takeover keeps the point":    {told{}.add(claim(1), acquired(by(1, 7, 1))).add(checkpoint(1, 7), done).add(claim(2), acquired(by(2, 8, 2, atPoint(0)))), true, porcupine.Ok},
		"a takeover forgets the point":  {told{}.add(claim(1), acquired(by(1, 7, 1))).add(checkpoint(1, 7), done).add(claim(2), acquired(by(2, 8, 2))), true, porcupine.Illegal},
		"lost, applied":                 {told{}.add(claim(1), lost).add(get, found(by(1, 7, 1))), false, porcupine.Ok},
		"lost, applied, another token":  {told{}.add(claim(1), lost).add(get, found(by(1, 7, 1))).add(claim(1), acquired(by(1, 8, 1))), false, porcupine.Illegal},
		"lost, asked again":             {told{}.add(claim(1), lost).add(claim(1), acquired(by(1, 7, 1))).add(complete(1, 7), done), false, porcupine.Ok},
		"lost, not applied":             {told{}.add(claim(1), lost).add(get, reply{err: backend.ErrNotFound}).add(claim(2), acquired(by(2, 7, 1))), false, porcupine.Ok},
		"lost, applied late":            {told{}.add(claim(1), lost).add(get, reply{err: backend.ErrNotFound}).add(get, found(by(1, 7, 1))), false, porcupine.Ok},
		"lost, applied twice":           {told{}.add(claim(1), lost).add(get, found(by(1, 7, 1))).add(release, done).add(get, found(by(1, 8, 1))), false, porcupine.Illegal},
		"lost, taken over, token":       {told{}.add(claim(1), acquired(by(1, 7, 1))).add(claim(2), lost).add(get, found(by(2, 7, 2))), true, porcupine.Illegal},
		"lost completion, other answer": {told{}.add(claim(1), acquired(by(1, 7, 1))).add(complete(1, 7), lost).add(get, found(by(1, 7, 1, completed, func(r *known) { r.body = "" }))), false, porcupine.Illegal},
	} {
		for i, op := range tt.h { // where leases don't lapse their rest is compared
			if out := op.Output.(reply); !tt.lapses && out.record.status == backend.Started {
				out.alive = true
				tt.h[i].Output = out
			}
		}
		if got := porcupine.CheckOperations(model{tt.lapses}.porcupine(), tt.h); got != (tt.want == porcupine.Ok) {
			t.Errorf("%s: an order was found = %v, want %v", name, got, tt.want == porcupine.Ok)
		}
	}
}

// A checker that comes to no end has shown nothing.
func TestUnknownIsAFailure(t *testing.T) {
	t.Parallel()
	h := &history{request: request("k")}
	for range 200 {
		h.calls = told(h.calls).add(h.claim("Claim", newID()), reply{lost: true})
	}
	h.calls = told(h.calls).add(call{name: "Get"}, reply{record: known{status: backend.Completed}})
	if why := h.refuted(model{lapses: true}.porcupine(), time.Millisecond); !strings.Contains(why, "came to no end") {
		t.Errorf("refuted(a history too long to check) = %.100q, want that the checker came to no end", why)
	}
}
