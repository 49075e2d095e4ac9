package conformance

import (
	"fmt"
	"time"

	"github.com/idem-go/idem/backend"
	"github.com/idem-go/idem/backend/machine"
)

// variant changes a claim into another one. The first argument is the claim
// that was granted.
type variant struct {
	name   string
	part   backend.Part
	change func(granted backend.Claim, c *backend.Claim)
}

var (
	fresh    = variant{"", backend.Same, func(backend.Claim, *backend.Claim) {}}
	sameID   = variant{"same claim id", backend.Same, func(g backend.Claim, c *backend.Claim) { c.ID = g.ID }}
	refusing = variant{"RefuseTakeover", backend.Same, func(_ backend.Claim, c *backend.Claim) { c.RefuseTakeover = true }}
	renamed  = variant{"renamed operation", backend.Same, func(_ backend.Claim, c *backend.Claim) { c.Operation = "renamed" }}
	newer    = variant{"newer fingerprint and that of the record", backend.Same, func(g backend.Claim, c *backend.Claim) {
		c.Fingerprints = []backend.Fingerprint{fingerprint("v2", "new algorithm"), g.Fingerprints[0]}
	}}

	otherMethod  = variant{"other method", backend.Method, func(_ backend.Claim, c *backend.Claim) { c.Target.Method = "PUT" }}
	otherPath    = variant{"other path", backend.Path, func(_ backend.Claim, c *backend.Claim) { c.Target.Path += " " }}
	otherContent = variant{"other content", backend.Content, func(_ backend.Claim, c *backend.Claim) {
		c.Fingerprints = []backend.Fingerprint{fingerprint("v2", "altered"), fingerprint("v1", "altered")}
	}}
	unknownVersion = variant{"unknown fingerprint version", backend.Unknown, func(g backend.Claim, c *backend.Claim) {
		c.Fingerprints = []backend.Fingerprint{{Version: "v9", Sum: g.Fingerprints[0].Sum}}
	}}
)

func (v variant) and(o variant) variant {
	return variant{v.name + ", " + o.name, o.part, func(g backend.Claim, c *backend.Claim) {
		v.change(g, c)
		o.change(g, c)
	}}
}

// claims are claims by somebody else, changed.
func claims(vs ...variant) []message {
	var out []message
	for _, v := range vs {
		name := "claim"
		if v.name != "" {
			name += ", " + v.name
		}
		out = append(out, message{name, v.part, func(g backend.Claim, _ backend.Lease) machine.Message {
			c := rival(g)
			c.Retention, c.Abandon, c.Payload = 48*time.Hour, 96*time.Hour, []byte("another")
			v.change(g, &c)
			return machine.Claim{Claim: c}
		}})
	}
	return out
}

// sender is who sends a write.
type sender struct {
	name  string
	lease func(l backend.Lease) backend.Lease
}

var (
	holder  = sender{"its claim", func(l backend.Lease) backend.Lease { return l }}
	otherID = sender{"another claim id", func(l backend.Lease) backend.Lease {
		l.ClaimID = newID()
		return l
	}}
	lowerToken = sender{"its claim id with a lower token", func(l backend.Lease) backend.Lease {
		l.Token--
		return l
	}}
	higherToken = sender{"its claim id with a higher token", func(l backend.Lease) backend.Lease {
		l.Token++
		return l
	}}
)

type holderWrite struct {
	name string
	make func(l backend.Lease) machine.Message
}

var (
	everyWrite = []holderWrite{renewing(time.Hour), checkpointing(9), completing(9), releasing}
	releasing  = holderWrite{"release", func(l backend.Lease) machine.Message { return machine.Release{Lease: l} }}

	// Beside the one the record is at.
	checkpointAgain = checkpointed("the same checkpoint", point(2, "p", "state"))
	otherPoint      = checkpointed("the same checkpoint, other point", point(2, "P", "state"))
	otherState      = checkpointed("the same checkpoint, other state", point(2, "p", "State"))

	otherResponses = []holderWrite{
		responding("other body", func(r *backend.Response) { r.Body = []byte("done ") }),
		responding("no body", func(r *backend.Response) { r.Body = nil }),
		responding("other header", func(r *backend.Response) { r.Header = []byte("location: /payments/1") }),
		responding("other status", func(r *backend.Response) { r.Status = 200 }),
		responding("a tombstone", func(r *backend.Response) { r.Tombstone = backend.Streamed }),
	}
)

func renewing(ttl time.Duration) holderWrite {
	return holderWrite{"renew to " + ttl.String(), func(l backend.Lease) machine.Message {
		return machine.Renew{Lease: l, TTL: ttl}
	}}
}

func checkpointing(seq backend.Sequence) holderWrite {
	return checkpointed(fmt.Sprintf("checkpoint %d", seq), point(seq, "q", "another"))
}

func checkpointed(name string, c backend.Checkpoint) holderWrite {
	return holderWrite{name, func(l backend.Lease) machine.Message { return machine.Checkpoint{Lease: l, Checkpoint: c} }}
}

func completing(seq backend.Sequence) holderWrite {
	return holderWrite{fmt.Sprintf("complete %d", seq), func(l backend.Lease) machine.Message {
		return machine.Complete{Lease: l, Completion: answer(seq, "done")}
	}}
}

// responding completes again with another response.
func responding(how string, change func(r *backend.Response)) holderWrite {
	c := answer(3, "done")
	change(&c.Response)
	return holderWrite{"complete again with " + how, func(l backend.Lease) machine.Message {
		return machine.Complete{Lease: l, Completion: c}
	}}
}

func by(s sender, ws ...holderWrite) []message {
	var out []message
	for _, w := range ws {
		out = append(out, message{w.name + " by " + s.name, backend.Same, func(_ backend.Claim, l backend.Lease) machine.Message {
			return w.make(s.lease(l))
		}})
	}
	return out
}
