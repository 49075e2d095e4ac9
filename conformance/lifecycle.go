package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/idem-go/idem/backend"
)

var lifecycleCases = []testCase{
	rule("lifecycle/whole", "A key's life from claim to sweep, over several handles, runs as the contract says.", lifecycleWhole),
	rule("lifecycle/bytes-copied", "Bytes are copied both ways: no slice given or returned is shared with what is stored.", lifecycleCopied),
	rule("lifecycle/times", "A record tells when it was created, touched and completed, and expires no sooner than its retention is over.", lifecycleTimes),
	rule("lifecycle/many-keys", "Many keys at once don't get in each other's way.", lifecycleMany),
	rule("lifecycle/describe", "A backend names itself and the clock it goes by.", lifecycleDescribe),
}

func lifecycleWhole(e *env) {
	handles := []backend.Backend{e.b, e.open(), e.open()}
	next := func() { handles = append(handles[1:], handles[0]); e.b = handles[0] }
	c := hasty("k")
	l := e.acquire("Claim", c).Holder()
	next()
	e.ok("Renew", e.renew(l, short))
	e.ok("Checkpoint", e.checkpoint(l, point(1, "created", "1")))
	next()
	e.lapse(c)
	n := hasty("k")
	n.Retention, n.Abandon = short, short
	r := e.acquire("Claim(lapsed)", n)
	next()
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "charged", "2")))
	e.ok("Release", e.release(r.Holder()))
	next()
	n.ID = newID()
	r = e.acquire("Claim(released)", n)
	if r.Attempt != 3 || r.RecoveryPoint != "charged" {
		e.Errorf("Claim(released): attempt %d at %q, want 3 at \"charged\"", r.Attempt, r.RecoveryPoint)
	}
	next()
	e.ok("Complete", e.complete(r.Holder(), answer(1, "done")))
	next()
	if got := e.claim("Claim(completed)", rival(c)); !got.Acquired && string(got.Record.Response.Body) != "done" {
		e.Errorf("Claim(completed): body = %q, want \"done\"", got.Record.Response.Body)
	}
}

func lifecycleCopied(e *env) {
	scribble := func(bs ...[]byte) {
		for _, b := range bs {
			for i := range b {
				b[i] = '#'
			}
		}
	}
	c := request("k")
	c.Payload = []byte("payload")
	c.Fingerprints = slices.Clone(c.Fingerprints)
	want := c.Fingerprints[0]
	got := e.claim("Claim", c)
	l := got.Record.Holder()
	scribble(c.Payload, got.Record.Payload)
	c.Fingerprints[0] = backend.Fingerprint{}
	r := e.get(c.Key)
	if string(r.Payload) != "payload" || r.Fingerprint != want {
		e.Errorf("Get: payload %q, fingerprint of version %q, want them as given", r.Payload, r.Fingerprint.Version)
	}
	scribble(r.Payload)

	p := point(1, "p", "state")
	e.ok("Checkpoint", e.checkpoint(l, p))
	scribble(p.State)
	r = e.get(c.Key)
	scribble(r.State, r.Payload)
	n := request("k")
	got = e.claim("Claim", n)
	scribble(got.Record.State, got.Record.Payload)
	if r = e.get(c.Key); string(r.State) != "state" || string(r.Payload) != "payload" {
		e.Errorf("Get: state %q, payload %q, want them as given", r.State, r.Payload)
	}

	a := answer(2, "body")
	e.ok("Complete", e.complete(l, a))
	scribble(a.Response.Body, a.Response.Header)
	r = e.get(c.Key)
	scribble(r.Response.Body, r.Response.Header)
	got = e.claim("Claim", n)
	scribble(got.Record.Response.Body, got.Record.Response.Header)
	if r = e.get(c.Key); !r.Response.Equal(answer(2, "body").Response) {
		e.Errorf("Get: header %q, body %q, want them as given", r.Response.Header, r.Response.Body)
	}
}

func lifecycleTimes(e *env) {
	c := request("k")
	r := e.acquire("Claim", c)
	if r.CreatedAt.IsZero() || !r.UpdatedAt.Equal(r.CreatedAt) || !r.LockedUntil.After(r.CreatedAt) || !r.CompletedAt.IsZero() {
		e.Errorf("Claim: created %v, updated %v, locked until %v, completed %v, want it created, updated then, locked until later, not completed",
			r.CreatedAt, r.UpdatedAt, r.LockedUntil, r.CompletedAt)
	}
	e.advance(time.Second)
	e.ok("Checkpoint", e.checkpoint(r.Holder(), point(1, "p", "s")))
	at := e.get(c.Key)
	e.advance(time.Second)
	e.ok("Complete", e.complete(r.Holder(), answer(2, "done")))
	end := e.get(c.Key)
	if !at.UpdatedAt.After(r.UpdatedAt) || !end.UpdatedAt.After(at.UpdatedAt) || end.CompletedAt.Before(at.UpdatedAt) || !end.CreatedAt.Equal(r.CreatedAt) {
		e.Errorf("Get: created %v, checkpoint %v, completed %v, updated %v, want them in this order", end.CreatedAt, at.UpdatedAt, end.CompletedAt, end.UpdatedAt)
	}
	if end.ExpiresAt.Before(end.CompletedAt.Add(c.Retention)) {
		e.Errorf("Get(completed at %v): expires %v, want %v later or more", end.CompletedAt, end.ExpiresAt, c.Retention)
	}
}

func lifecycleMany(e *env) {
	const keys = 40
	handles := []backend.Backend{e.b, e.open()}
	errs := race(keys, func(i int) error {
		b, ctx := handles[i%2], e.Context()
		c := request(fmt.Sprintf("key-%d", i))
		got, err := b.Claim(ctx, c)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if !got.Acquired {
			return fmt.Errorf("not acquired: %v record", got.Record.Status)
		}
		l := got.Record.Holder()
		if err := b.Checkpoint(ctx, l, point(1, "p", c.Key.Value)); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		if err := b.Renew(ctx, l, c.Lease); err != nil {
			return fmt.Errorf("renew: %w", err)
		}
		return b.Complete(ctx, l, answer(2, c.Key.Value))
	})
	for i, err := range errs {
		e.ok("a key's run beside others", err)
		k := request(fmt.Sprintf("key-%d", i)).Key
		if r := e.get(k); string(r.Response.Body) != k.Value {
			e.Errorf("Get(%s): body = %q, want its own", k.Value, r.Response.Body)
		}
	}
}

func lifecycleDescribe(e *env) {
	d := e.describe()
	clocks := []backend.Clock{backend.ClockServer, backend.ClockHost, backend.ClockProcess}
	if d.Name == "" || !slices.Contains(clocks, d.Capabilities.Clock) {
		e.Errorf("Describe: name %q, clock %q, want a name and one of %q", d.Name, d.Capabilities.Clock, clocks)
	}
	for _, f := range d.Findings {
		if f.ID == "" || f.Text == "" || f.Advice == "" || f.Severity != backend.Unsafe && f.Severity != backend.Warning {
			e.Errorf("Describe: finding %+v, want id, severity, text and advice", f)
		}
	}
}
