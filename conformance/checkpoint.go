package conformance

import (
	"fmt"

	"github.com/idem-go/idem/backend"
)

var checkpointCases = []testCase{
	rule("checkpoint/retry", "A retry may have an empty state for none, or the other way round.", checkpointRetry), // field report 8
	rule("checkpoint/gap", "Sequences may have gaps.", func(e *env) {
		r := e.acquire("Claim", request("k"))
		e.ok("Checkpoint(3)", e.checkpoint(r.Holder(), point(3, "p", "")))
		e.ok("Checkpoint(1<<40)", e.checkpoint(r.Holder(), point(1<<40, "q", "")))
		e.still("Checkpoint(4)", r.Key, nil, func() error { return e.checkpoint(r.Holder(), point(4, "r", "")) })
		if got := e.get(r.Key); got.RecoveryPoint != "q" || got.Sequence != 1<<40 {
			e.Errorf("Get: point %q at %d, want \"q\" at 1<<40", got.RecoveryPoint, got.Sequence)
		}
	}),
	rule("checkpoint/bytes", "The state comes back byte by byte, whatever it holds, also empty.", checkpointBytes),
}

func checkpointRetry(e *env) {
	r := e.acquire("Claim", request("k"))
	for i, states := range [][2][]byte{{{}, nil}, {nil, {}}} {
		c := backend.Checkpoint{Sequence: backend.Sequence(i + 1), Point: "p", State: states[0]}
		e.ok("Checkpoint", e.checkpoint(r.Holder(), c))
		c.State = states[1]
		e.still("Checkpoint(retry)", r.Key, nil, func() error { return e.checkpoint(r.Holder(), c) })
	}
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
