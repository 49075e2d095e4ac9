package conformance

import (
	"fmt"

	"github.com/idem-go/idem/backend"
)

var checkpointCases = []testCase{
	rule("checkpoint/stored", "A checkpoint stores point, state and sequence and nothing else; the next one replaces them.", checkpointStored),
	rule("checkpoint/late", "A checkpoint with a lower sequence is a late one: success, and nothing changes (hard cases 2, 20).", checkpointLate),
	rule("checkpoint/retry", "A checkpoint with an equal sequence and content is a retry and a no-op (field report 8).", checkpointRetry),
	rule("checkpoint/conflict", "A checkpoint with an equal sequence and other content is ErrConflict (hard case 20).", checkpointConflict),
	rule("checkpoint/gap", "Sequences may have gaps.", func(e *env) {
		r := e.acquire("Claim", request("k"))
		e.ok("Checkpoint(3)", e.checkpoint(r.Holder(), point(3, "p", "")))
		e.ok("Checkpoint(1<<40)", e.checkpoint(r.Holder(), point(1<<40, "q", "")))
		e.still("Checkpoint(4)", r.Key, nil, func() error { return e.checkpoint(r.Holder(), point(4, "r", "")) })
		if got := e.get(r.Key); got.RecoveryPoint != "q" || got.Sequence != 1<<40 {
			e.Errorf("Get: point %q at %d, want \"q\" at 1<<40", got.RecoveryPoint, got.Sequence)
		}
	}),
	rule("checkpoint/missing", "A checkpoint of a record that isn't there is ErrLeaseLost and makes none (hard case 1).", func(e *env) {
		l := backend.Lease{Key: request("k").Key, ClaimID: newID(), Token: 1}
		e.still("Checkpoint(no record)", l.Key, backend.ErrLeaseLost, func() error { return e.checkpoint(l, point(1, "p", "s")) })
	}),
	rule("checkpoint/completed", "A checkpoint after the completion by the same claim does nothing.", func(e *env) {
		r := e.completed(request("k"))
		for seq := backend.Sequence(1); seq <= 3; seq++ {
			e.still(fmt.Sprintf("Checkpoint(%d, completed)", seq), r.Key, nil, func() error { return e.checkpoint(r.Holder(), point(seq, "p", "s")) })
		}
	}),
	rule("checkpoint/bytes", "The state comes back byte by byte, whatever it holds, also empty.", checkpointBytes),
}

func checkpointStored(e *env) {
	want := e.acquire("Claim", request("k"))
	l := want.Holder()
	for seq, name := range []string{"created", "charged", "Charged ", "charged"} {
		c := point(backend.Sequence(seq+1), name, "state of "+name)
		e.ok("Checkpoint", e.checkpoint(l, c))
		got := e.get(want.Key)
		want.Sequence, want.RecoveryPoint, want.State = c.Sequence, c.Point, c.State
		want.UpdatedAt = got.UpdatedAt
		e.same("Get(checkpoint stored)", got, want)
	}
}

func checkpointLate(e *env) {
	r := e.acquire("Claim", request("k"))
	e.ok("Checkpoint(2)", e.checkpoint(r.Holder(), point(2, "second", "2")))
	e.still("Checkpoint(1, late)", r.Key, nil, func() error { return e.checkpoint(r.Holder(), point(1, "first", "1")) })
}

func checkpointRetry(e *env) {
	r := e.acquire("Claim", request("k"))
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "s")))
	e.still("Checkpoint(retry)", r.Key, nil, func() error { return e.checkpoint(r.Holder(), point(1, "p", "s")) })
	e.ok("Checkpoint(no state)", e.checkpoint(r.Holder(), backend.Checkpoint{Sequence: 2, Point: "q"}))
	e.still("Checkpoint(retry, empty for nil)", r.Key, nil, func() error {
		return e.checkpoint(r.Holder(), backend.Checkpoint{Sequence: 2, Point: "q", State: []byte{}})
	})
}

func checkpointConflict(e *env) {
	r := e.acquire("Claim", request("k"))
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "s")))
	for _, c := range []backend.Checkpoint{point(1, "q", "s"), point(1, "p", "S"), point(1, "p", ""), point(1, "p ", "s")} {
		call := fmt.Sprintf("Checkpoint(%q, %q after \"p\", \"s\")", c.Point, c.State)
		e.still(call, r.Key, backend.ErrConflict, func() error { return e.checkpoint(r.Holder(), c) })
	}
	e.ok("Complete", e.complete(r.Holder(), answer(2, "done")))
}

func checkpointBytes(e *env) {
	r := e.acquire("Claim", request("k"))
	for i, state := range [][]byte{allBytes(256), allBytes(1 << 20), {0}, {}, []byte("\xff\xfe\x00"), nil} {
		c := backend.Checkpoint{Sequence: backend.Sequence(i + 1), Point: "p", State: state}
		e.ok("Checkpoint", e.checkpoint(r.Holder(), c))
		got := e.get(r.Key)
		want := got
		want.State = state
		e.same(fmt.Sprintf("Get(state of %d bytes)", len(state)), got, want)
	}
}
